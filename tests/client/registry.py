"""A small server of registered runs, in memory, that loses answers and checks what it is asked by the contract."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from generated.validators import BODY_ERRORS
from tests.client.fake_runs import AGENT, AT, Refusal

ENDED = ("completed", "failed", "cancelled")


class Registry:
    """`calls` counts what was carried out, `lose` names operations whose next answers are lost, `keys` are the
    Idempotency-Keys in the order in which they came."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.spend: dict[str, dict[str, dict[str, Any]]] = {}
        self.steps: dict[str, dict[str, Any]] = {}
        self.units: dict[str, dict[str, Any]] = {}
        self.by_key: dict[str, Any] = {}
        self.keys: list[str] = []
        self.asked: list[dict[str, str]] = []
        self.calls: Counter[str] = Counter()
        self.lose: list[str] = []
        self.refuse: list[Refusal] = []
        self.page = 2
        self.url = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        path = request.path.strip("/").split("/")[1:]
        try:
            if self.refuse:
                raise self.refuse.pop(0)
            operation, status, answer = self.answer(request, path, body)
        except Refusal as refusal:
            operation, status, answer = "", refusal.document["status"], refusal.document
        if operation in self.lose:
            self.lose.remove(operation)
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(answer, status=status)

    def answer(self, request: web.Request, path: list[str], body: Any) -> tuple[str, int, Any]:
        match request.method, path:
            case "POST", ["runs"]:
                return "registerRun", 201, self.register(self.checked("registerRun", body), self.key(request))
            case "PATCH", ["runs", run_id]:
                return "updateRun", 200, self.update(run_id, self.checked("updateRun", body), self.key(request))
            case "GET", ["runs", run_id]:
                return "getRun", 200, self.run(run_id)
            case "PUT", ["runs", run_id, "spend", entry_id]:
                return "recordSpend", 200, self.record(run_id, entry_id, self.checked("recordSpend", body))
            case "PUT" | "PATCH", ["runs", run_id, "steps", step_id]:
                assert "Livebox-Invocation" not in request.headers
                self.run(run_id)
                self.steps[step_id] = {**self.steps.get(step_id, {}), **body}
                return "step", 200, self.steps[step_id]
            case "GET", ["agent-run-snapshots"] | ["runs", _, "snapshots"]:
                self.asked.append(dict(request.query))
                return "list", 200, self.listed(int(request.query.get("cursor", 0)))
            case "PUT", ["agent-run-snapshots", *parts]:
                unit_id = "/".join(parts)  # which came percent-encoded
                self.units[unit_id] = self.checked("putAgentRunSnapshot", body)
                return "put", 200, {"run_id": unit_id, "budget": {}, **body["snapshot"]}
        raise AssertionError(request.path)

    def checked(self, operation: str, body: Any) -> Any:
        assert not BODY_ERRORS[operation](body), body
        return body

    def key(self, request: web.Request) -> str:
        self.keys.append(request.headers["Idempotency-Key"])
        return self.keys[-1]

    def run(self, run_id: str) -> dict[str, Any]:
        if run_id not in self.runs:
            raise Refusal(404, "not_found")
        return self.runs[run_id]

    def register(self, body: dict[str, Any], key: str) -> Any:
        if key in self.by_key:
            return self.runs[self.by_key[key]]
        if body["run_id"] in self.runs:
            raise Refusal(409, "run_already_registered")
        if "parent_run_id" in body and body["parent_run_id"] not in self.runs:
            raise Refusal(400, "validation_failed")
        members = {name: body[name] for name in body.keys() - {"run_id", "agents", "state", "started_at"}}
        self.runs[body["run_id"]] = {
            "schema": "run_document.v1",
            "id": body["run_id"],
            "state": body.get("state", "running"),
            "version": 1,
            "trigger_kind": "registration",
            "queued_at": AT,
            **{"registered_at": AT, "registered_by": AGENT},
            "step_count": 0,
            "agents": [body["agent_id"], *body.get("agents", [])],
            **({"reported_started_at": body["started_at"]} if "started_at" in body else {}),
            **members,
        }
        self.by_key[key] = body["run_id"]
        self.calls["register"] += 1
        return self.runs[body["run_id"]]

    def update(self, run_id: str, body: dict[str, Any], key: str) -> Any:
        run = self.run(run_id)
        if key in self.by_key:
            return run
        if run["state"] in ENDED and body.keys() - {"steps"} and body.get("status") != run["state"]:
            current = {"state": run["state"], "version": 1, "allowed": [], "changed_at": AT}
            raise Refusal(409, "run_ended", current=current)
        self.by_key[key] = run_id
        self.calls["update"] += 1
        run["state"] = body.get("status", run["state"])
        if "steps" in body:
            counted = run.setdefault("reported_steps", {})
            counted[AGENT] = max(counted.get(AGENT, 0), body["steps"])
        if "ended_at" in body:
            run["reported_ended_at"] = body["ended_at"]
        run.update({name: body[name] for name in ("halt_reason", "detector") if name in body})
        if "governance_events" in body:
            run["governance_events"] = [*run.get("governance_events", []), *body["governance_events"]]
        return run

    def record(self, run_id: str, entry_id: str, body: dict[str, Any]) -> Any:
        run = self.run(run_id)
        entries = self.spend.setdefault(run_id, {})
        entry = {"id": entry_id, "run_id": run_id, "agent_id": AGENT, "recorded_at": AT, **body}
        if entry_id in entries and entries[entry_id] != entry:
            raise Refusal(409, "spend_id_reused")
        if any(other["currency"] != body["currency"] for other in entries.values()):
            raise Refusal(409, "currency_mismatch")
        self.calls["spend"] += entry_id not in entries
        entries[entry_id] = entry
        total = sum(each["amount_micros"] for each in entries.values())
        run["cost"] = {"amount_micros": total, "currency": body["currency"], "is_estimate": False}
        return entry

    def listed(self, start: int) -> Any:
        units = [{"run_id": run_id, "source": "fleet", "state": "running", "budget": {}} for run_id in self.runs]
        page = {"items": units[start : start + self.page]}
        return page | ({"next_cursor": str(start + self.page)} if start + self.page < len(units) else {})


@asynccontextmanager
async def serving(registry: Registry) -> AsyncIterator[Registry]:
    """The registry, listening."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", registry.serve)
    async with TestServer(app) as server:
        registry.url = str(server.make_url("/")).rstrip("/")
        yield registry
        await asyncio.sleep(0)
