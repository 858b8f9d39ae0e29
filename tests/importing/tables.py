"""The two files of an import in memory, and a server in memory that they go to."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from livebox.client import Problem
from livebox.importing.findings import Findings
from livebox.importing.lines import read_lines
from livebox.importing.order import ordered
from livebox.importing.reconciliation import Planned, Reconciliation
from livebox.importing.records import Records
from livebox.importing.writing import Written, compare, look, write
from tests.client.fake_runs import Refusal
from tests.client.registry import Registry

AGENTS = {
    "lotse": "01933b7e-0000-7000-8000-000000000011",
    "texter": "01933b7e-0000-7000-8000-000000000012",
    "assistent": "01933b7e-0000-7000-8000-000000000013",
}
START = "2026-11-02T09:00:00Z"


def run_id(number: int) -> str:
    return f"0193a000-0000-4000-8000-{number:012d}"


def registration(number: int = 1, **more: Any) -> dict[str, Any]:
    """A registration of two agents; members that are given as None are left out."""
    members = {
        "run_id": run_id(number),
        **{"agent": "lotse", "agents": ["texter"], "intent": "weekly report", "task": "Write it up.", "mode": "auto"},
        **{"user_dims": {"team": "support", "user": "alex"}, "started_at": START},
        **more,
    }
    return {name: value for name, value in members.items() if value is not None}


def row(number: int = 1, **more: Any) -> dict[str, Any]:
    """The row of that run as it should be: of the entry agent, which worked alone."""
    members = {
        "run_id": run_id(number),
        **{"agent": "lotse", "user_dims": {"team": "support", "user": "alex"}, "started_at": START},
        **{"ended_at": "2026-11-02T09:30:00Z", "status": "completed", "steps": 4},
        **{"cost_micros": 300000, "currency": "EUR", "tokens": 4000},
        **more,
    }
    return {name: value for name, value in members.items() if value is not None}


def lines(objects: Iterable[Any]) -> bytes:
    return b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in objects)


class Server:
    """The registry, called as the client is."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.keys = 0

    async def get_run(self, run_id: str) -> Any:
        await asyncio.sleep(0)
        return dict(self._asked(lambda: self.registry.run(run_id)))

    async def register_run(self, request: Any) -> Any:
        await asyncio.sleep(0)
        return dict(self._asked(lambda: self.registry.register(dict(request), self._key())))

    async def update_run(self, run_id: str, request: Any) -> Any:
        self._moved(run_id)
        return dict(self._asked(lambda: self.registry.update(run_id, dict(request), self._key())))

    async def record_spend(self, run_id: str, request: Any, *, entry_id: str) -> Any:
        if entry_id not in self.registry.spend.get(run_id, {}):
            self._moved(run_id)
        return self._asked(lambda: self.registry.record(run_id, entry_id, dict(request)))

    def _moved(self, run_id: str) -> None:
        self.registry.runs[run_id]["version"] += 1

    def _key(self) -> str:
        self.keys += 1
        return str(self.keys)

    @staticmethod
    def _asked(answer: Any) -> Any:
        try:
            return answer()
        except Refusal as refusal:
            raise Problem.of(refusal.document["status"], refusal.document) from None


class Import:
    """One import of two files, step by step as the command does it."""

    def __init__(
        self,
        registrations: bytes,
        runs: bytes,
        *,
        meanings: Mapping[str, str] | None = None,
        unreported: Any = "running",
    ) -> None:
        self.findings = Findings()
        records = Records(self.findings, meanings)
        self.registrations = records.registrations(
            read_lines(io.BytesIO(registrations), "registrations", self.findings)
        )
        bad = len(self.findings.all)
        self.rows = records.rows(read_lines(io.BytesIO(runs), "runs", self.findings))
        unreadable = sum(each.kind == "bad_json" for each in self.findings.all[bad:]) + records.unreadable_rows
        join = Reconciliation(self.findings, AGENTS, unreported=unreported, unreadable_rows=unreadable)
        self.planned: list[Planned] = join.join(self.registrations, self.rows)

    async def to(self, server: Server) -> Written:
        there = await look(server, self.planned)
        self.planned = ordered(compare(self.planned, there, self.findings), there, self.findings)
        written = Written()
        await write(server, self.planned, self.findings, written)
        return written

    @property
    def kinds(self) -> list[str]:
        return [finding.kind for finding in self.findings]
