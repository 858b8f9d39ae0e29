"""The two kinds of lines as records: a registration, and the row of a run as its last reporter left it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from generated.validators import is_time
from livebox.importing.findings import Findings
from livebox.importing.lines import Line

MOST: Final = 2**53 - 1
ENDS: Final = frozenset({"completed", "failed", "cancelled"})
STATES: Final = ENDS | {"queued", "running", "waiting_input"}
IDS: Final = uuid.UUID(
    "8b0d4a5e-9a55-5f0a-8f0c-2f6f0f1f7a11"
)  # of the ids that are derived from those of other schemes
_CURRENCY: Final = re.compile(r"[A-Z]{3}")

_REGISTRATION: Final[Mapping[str, type]] = {
    **dict.fromkeys(("run_id", "agent", "intent", "task", "mode", "parent_run_id", "parent_span"), str),
    **{"external_id": str, "started_at": str, "agents": list, "user_dims": dict, "budget": dict},
}
_ROW: Final[Mapping[str, type]] = {
    **dict.fromkeys(
        ("run_id", "agent", "started_at", "ended_at", "status", "currency", "halt_reason", "detector"), str
    ),
    **{"user_dims": dict, "steps": int, "cost_micros": int, "tokens": int, "governance_events": list},
}
_TAKEN: Final = frozenset({"intent", "task", "mode", "parent_span", "external_id"})


@dataclass(frozen=True, slots=True)
class Registration:
    """What was registered. Names of agents are those of the file, `members` are what is taken over as it is."""

    where: str
    run_id: str
    agent: str
    agents: tuple[str, ...]
    members: Mapping[str, Any]
    dims: Mapping[str, str]
    budget: Mapping[str, Any]
    started_at: str | None
    parent: str | None
    line: Mapping[str, Any] = field(repr=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """What the last reporter left. `cost_micros` is in millionths of `currency`."""

    where: str
    run_id: str
    agent: str
    dims: Mapping[str, str]
    status: str
    steps: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    cost_micros: int | None = None
    currency: str | None = None
    tokens: int | None = None
    halt_reason: str | None = None
    detector: str | None = None
    events: tuple[Mapping[str, Any], ...] = ()
    line: Mapping[str, Any] = field(repr=False, default_factory=dict)


class Records:
    """Makes records of lines, and tells what is wrong with them. `meanings` gives statuses of other words."""

    def __init__(self, findings: Findings, meanings: Mapping[str, str] | None = None) -> None:
        self._findings = findings
        self._meanings = meanings or {}
        self.unreadable_rows = 0
        """Rows of which not even the run is known."""

    def registrations(self, lines: Iterable[Line]) -> list[Registration]:
        """Those that can be read."""
        return [each for line in lines if (each := self._registration(line)) is not None]

    def rows(self, lines: Iterable[Line]) -> list[Row]:
        """Those that can be read."""
        return [each for line in lines if (each := self._row(line)) is not None]

    def _registration(self, line: Line) -> Registration | None:
        run_id = self._id(line, "run_id")
        if run_id is None or not self._typed(line, run_id, _REGISTRATION, ("agent",)):
            return None
        given = line.members
        taken: dict[str, Any] = {name: value for name, value in given.items() if name in _TAKEN}
        if run_id != given["run_id"].lower():
            self._findings.add("foreign_id", f"{given['run_id']} becomes {run_id}", run_id, line.where)
            taken.setdefault("external_id", given["run_id"])
        agents = given.get("agents", [])
        if not all(isinstance(name, str) for name in agents):
            self._bad(line, run_id, "agents are names")
            return None
        budget = self._budget(line, run_id)
        dims = self._dims(line, run_id)
        started_at = self._time(line, run_id, "started_at")
        parent = derived(given["parent_run_id"]) if "parent_run_id" in given else None
        return Registration(
            line.where, run_id, given["agent"], tuple(agents), taken, dims, budget, started_at, parent, given
        )

    def _row(self, line: Line) -> Row | None:
        run_id = self._id(line, "run_id")
        if run_id is None:
            self.unreadable_rows += 1
            return None
        if not self._typed(line, run_id, _ROW, ("agent", "status")):
            return None
        given = line.members
        status = self._meanings.get(given["status"], given["status"])
        if status not in STATES:
            self._findings.add("unknown_status", f"status {given['status']}", run_id, line.where)
        if "ended_at" in given and status in STATES - ENDS:
            self._findings.add("end_unclear", f"it is {status} and has ended_at", run_id, line.where)
        if "cost_micros" in given and _CURRENCY.fullmatch(given.get("currency", "")) is None:
            self._findings.add("bad_currency", f"currency {given.get('currency', 'is absent')}", run_id, line.where)
        events = given.get("governance_events", [])
        if not all(isinstance(event, dict) and event for event in events):
            self._bad(line, run_id, "governance_events are objects")
            return None
        return Row(
            *(line.where, run_id, given["agent"], self._dims(line, run_id), status, given.get("steps")),
            started_at=self._time(line, run_id, "started_at"),
            ended_at=self._time(line, run_id, "ended_at"),
            events=tuple(events),
            line=given,
            **{
                name: given.get(name)  # type: ignore[arg-type]
                for name in ("cost_micros", "currency", "tokens", "halt_reason", "detector")
            },
        )

    def _id(self, line: Line, name: str) -> str | None:
        given = line.members.get(name)
        if isinstance(given, str) and given.strip():
            return derived(given)
        self._bad(line, "", f"{name} is missing or no text")
        return None

    def _typed(self, line: Line, run_id: str, members: Mapping[str, type], required: Iterable[str]) -> bool:
        wrong = [f"{name} is missing" for name in required if name not in line.members]
        for name, value in line.members.items():
            if name not in members:
                self._findings.add("unknown_member", name, run_id, line.where)
            elif not isinstance(value, members[name]) or isinstance(value, bool):
                wrong.append(f"{name} is no {_WORDS[members[name]]}")
            elif isinstance(value, int) and not 0 <= value <= MOST:
                wrong.append(f"{name} is {value}")
        for text in wrong:
            self._bad(line, run_id, text)
        return not wrong

    def _dims(self, line: Line, run_id: str) -> dict[str, str]:
        dims = {}
        for name, value in line.members.get("user_dims", {}).items():
            if isinstance(value, str):
                dims[name] = value
            elif isinstance(value, int | float):
                dims[name] = str(value).lower() if isinstance(value, bool) else str(value)
                self._findings.add("dimension_as_text", f"{name} is {value}", run_id, line.where)
            else:
                self._bad(line, run_id, f"user_dims.{name} is no text")
        return dims

    def _budget(self, line: Line, run_id: str) -> dict[str, Any]:
        """As the contract has it; the cost also as `cost_micros` and `currency`, which is how tables keep it."""
        given = dict(line.members.get("budget", {}))
        micros, currency = given.pop("cost_micros", None), given.pop("currency", None)
        if micros is not None:
            given["cost"] = {"amount_micros": micros, **({"currency": currency} if currency is not None else {})}
        if isinstance(given.get("cost"), dict):
            given["cost"] = {"is_estimate": False, **given["cost"]}
            if not isinstance(given["cost"].get("currency"), str) or not _CURRENCY.fullmatch(given["cost"]["currency"]):
                self._findings.add("bad_currency", "the budget's currency", run_id, line.where)
        return given

    def _time(self, line: Line, run_id: str, name: str) -> str | None:
        given = line.members.get(name)
        if given is None or is_time(given):
            return given
        try:
            found = datetime.fromisoformat(given)
        except ValueError:
            self._bad(line, run_id, f"{name} is no time")
            return None
        if found.tzinfo is None:
            self._findings.add("time_without_offset", f"{name} is {given}", run_id, line.where)
            found = found.replace(tzinfo=UTC)
        return found.isoformat()

    def _bad(self, line: Line, run_id: str, text: str) -> None:
        self._findings.add("bad_value", text, run_id, line.where)


_WORDS: Final = {str: "text", int: "whole number", dict: "object", list: "list"}


def derived(run_id: str) -> str:
    """The id of a run here: itself where it is a UUID, else one that is always the same for it."""
    try:
        found = uuid.UUID(run_id)
    except ValueError:
        return str(uuid.uuid5(IDS, run_id))
    return str(found)


def moment(time: str) -> datetime:
    """A time that was read, to be compared."""
    return datetime.fromisoformat(time.upper())
