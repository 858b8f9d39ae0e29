"""Runs in memory, with the few rules that clients rely on: versions that rise, one end, tokens that fence."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiohttp import web

from livebox.client.document import apply

AT = "2026-11-02T09:30:00.000000Z"
LATER = "2999-01-01T00:00:00.000000Z"
AGENT = "01933b7e-0000-7000-8000-000000000011"
PRINCIPAL = {
    "id": AGENT,
    "kind": "agent",
    "handle": "lotse",
    "display_name": "Lotse",
    "status": "active",
    "version": 1,
    "created_at": AT,
    "updated_at": AT,
}


def new_id() -> str:
    return f"0193a000-0000-7{uuid.uuid4().hex[:3]}-8000-{uuid.uuid4().hex[:12]}"


def problem(status: int, code: str, **members: Any) -> dict[str, Any]:
    return {
        "type": f"urn:livebox:problem:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "instance": "/",
        "request_id": "01933b7e-0000-7000-8000-0000000000ff",
        **members,
    }


class Refusal(Exception):
    def __init__(self, status: int, code: str, **members: Any) -> None:
        self.document = problem(status, code, **members)


class Session:
    """One WebSocket of a client, after its hello."""

    def __init__(self, socket: web.WebSocketResponse, hello: dict[str, Any]) -> None:
        self.socket = socket
        self.hello = hello
        self.id = new_id()
        self.focus: set[str] = set()
        self.tokens: dict[str, str] = {}

    async def send(self, frame: dict[str, Any]) -> None:
        with suppress(ConnectionError):
            await self.socket.send_str(json.dumps(frame))

    def cut(self) -> None:
        """The connection breaks without a word."""
        transport = self.socket._req.transport if self.socket._req is not None else None
        if transport is not None:
            transport.abort()


class Runs:
    """What the server has. `calls` counts what was carried out, `frames` is every frame of clients, `lose` names operations and
    frame types whose next answer is lost, each once for every time that it stands there."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.ends: dict[str, list[dict[str, Any]]] = {}
        self.followups: dict[str, list[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self.floor = 0
        self.calls: Counter[str] = Counter()
        self.frames: list[dict[str, Any]] = []
        self.lose: list[str] = []
        self.refuse: dict[str, list[dict[str, Any]]] = {}
        self.queue: list[dict[str, Any]] = []
        self.sessions: list[Session] = []
        self.began = asyncio.Event()
        self.watched: bool | None = None
        self.gateway = True
        self.hello_problem: tuple[dict[str, Any], int] | None = None
        self.heartbeat_interval_ms = 20_000
        self.before_ready: Callable[[], None] = lambda: None
        self.unseen: set[str] = set()
        self.expired: set[str] = set()
        self.renewed: set[str] = set()
        self.expires_at = LATER
        self.most_ops = 100
        self.said: list[dict[str, Any]] = []
        self.url = ""
        self._tasks: set[asyncio.Future[None]] = set()

    def aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def run(self, state: str = "queued", **members: Any) -> dict[str, Any]:
        run = {
            "schema": "run_document.v1",
            "id": new_id(),
            "thread_id": new_id(),
            "agent_id": AGENT,
            "state": state,
            "version": 1,
            "trigger_kind": "message",
            "queued_at": AT,
            "step_count": 0,
            **members,
        }
        self.runs[run["id"]] = run
        self.ends[run["id"]] = []
        self.followups[run["id"]] = []
        return run

    def invoke(self, text: str = "Please", kind: str = "start", **members: Any) -> dict[str, Any]:
        """A run for the agent."""
        run = self.run(**members)
        self.tokens[run["id"]] = f"token-{uuid.uuid4()}"
        self.queue.append(self.invocation(run, text, kind))
        self.aside(self.hand_out())
        return run

    def invocation(self, run: dict[str, Any], text: str = "Please", kind: str = "start") -> dict[str, Any]:
        token = self.tokens[run["id"]]
        return {"kind": kind, "run": run, "messages": [message(run, text)], "token": token, "expires_at": LATER}

    async def hand_out(self) -> None:
        for session in self.sessions[-1:]:
            for invocation in self.queue:
                if self.watched is not None:
                    run_id = invocation["run"]["id"]
                    await session.send({"type": "run.watched", "run_id": run_id, "watched": self.watched})
                await session.send(
                    {"type": "agent.invocation", "claim_id": str(uuid.uuid4()), "invocation": invocation}
                )

    def change(self, run_id: str, ops: list[dict[str, Any]], by: int = 1) -> int:
        """Change a run, and tell who looks."""
        run = self.runs[run_id]
        changed = apply(run, ops)  # type: ignore[arg-type]
        changed["version"] = run["version"] + by
        self.runs[run_id] = changed
        frame = {
            "type": "run.updated",
            "run_id": run_id,
            "base_version": run["version"],
            "version": changed["version"],
            "ops": ops,
        }
        for session in self.sessions:
            if run_id in session.focus:
                self.aside(session.send(frame))
        return int(changed["version"])

    def state(self, run_id: str, state: str, **more: Any) -> None:
        ops = [{"op": "add", "path": f"/{name}", "value": value} for name, value in {"state": state, **more}.items()]
        self.change(run_id, ops)

    async def ask_cancel(self, run_id: str) -> None:
        receipt = {"requested_at": AT}
        self.change(run_id, [{"op": "add", "path": "/cancel", "value": receipt}])
        for session in self.sessions:
            await session.send({"type": "run.cancel_requested", "run_id": run_id, "cancel": receipt})

    async def follow_up(self, run_id: str, text: str, push: bool = True) -> dict[str, Any]:
        waiting = self.followups[run_id]
        sent = message(self.runs[run_id], text)
        item = {
            "followup": {"message_id": sent["id"], "position": len(waiting) + 1, "state": "pending", "at": AT},
            "message": sent,
        }
        waiting.append(item)
        for session in self.sessions if push else ():
            await session.send({"type": "run.followup", "run_id": run_id, **item})
        return item

    async def event(self, kind: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        event = {
            "seq": len(self.events) + 1,
            "id": new_id(),
            "type": kind,
            "schema_version": 1,
            "at": AT,
            "scope": {},
            "resource": {"kind": "run", "id": new_id()},
            "payload": payload or {},
        }
        self.events.append(event)
        for session in list(self.sessions):
            await session.send({"type": "event", "event": event})
        return event

    def page(self, after: int) -> dict[str, Any]:
        if after < self.floor:
            raise Refusal(410, "cursor_expired")
        items = self.events[after : after + 3]
        next_after = items[-1]["seq"] if items else after
        return {"items": items, "next_after": next_after, "has_more": next_after < len(self.events)}

    def held(self, run_id: str, token: str) -> dict[str, Any]:
        run = self.runs[run_id]
        if token in self.expired:
            raise Refusal(401, "token_expired")
        if token in self.renewed:
            raise Refusal(409, "token_renewed")
        if self.tokens.get(run_id) != token:
            raise Refusal(409, "invocation_superseded")
        if run["state"] in ("completed", "failed", "cancelled"):
            raise Refusal(409, "run_ended", run=run)
        return run

    def patch(self, run_id: str, token: str, frame: dict[str, Any]) -> int:
        run = self.held(run_id, token)
        if frame["base_version"] != run["version"]:
            self.calls["conflict"] += 1
            raise Refusal(409, "version_conflict", run=run)
        if len(frame["ops"]) > self.most_ops:
            raise Refusal(413, "patch_too_large")
        self.calls["patch"] += 1
        return self.change(run_id, frame["ops"])

    def heartbeat(self, run_id: str, token: str, frame: dict[str, Any]) -> dict[str, Any]:
        run = self.held(run_id, token)
        self.calls["heartbeat"] += 1
        if frame.get("cancel_seen"):
            self.calls["cancel_seen"] += 1
        waiting = [each for each in self.followups[run_id] if each["followup"]["state"] == "pending"]
        return {
            "run_id": run_id,
            "state": run["state"],
            "version": run["version"],
            "cancel_requested": "cancel" in run,
            "followups_pending": len(waiting),
            "token_expires_at": self.expires_at,
        }

    def renew(self, run_id: str, token: str) -> dict[str, Any]:
        if token in self.renewed or self.tokens[run_id] != token:
            raise Refusal(409, "invocation_superseded")
        self.calls["renew"] += 1
        self.expired.discard(token)
        self.renewed.add(token)
        self.expires_at = LATER
        self.tokens[run_id] = f"token-{uuid.uuid4()}"
        return {"run_id": run_id, "token": self.tokens[run_id], "expires_at": LATER}

    def control(self, method: str, run_id: str, rest: list[str], token: str, body: Any) -> tuple[int, Any]:
        run = self.runs[run_id]
        name = rest[-1] if rest else ""
        if name == "finish" and self.ends[run_id] and self.ends[run_id][0] == body and self.tokens[run_id] == token:
            return 200, run
        if name == "renew-token":
            return 200, self.renew(run_id, token)
        self.held(run_id, token)
        if name in ("start", "resume"):
            if run["state"] != "running":
                if name == "resume":
                    assert body.get("question_id") == run["question"].get("question_id")
                self.calls[name] += 1
                self.change(run_id, [{"op": "add", "path": "/state", "value": "running"}])
        elif name == "await-input" or name == "await":
            if run.get("question", {}).get("question_id") != body["question_id"]:
                if any(each["followup"]["state"] == "pending" for each in self.followups[run_id]):
                    raise Refusal(409, "followups_pending")
                self.calls["await"] += 1
                self.state(run_id, "waiting_input", question={**body, "asked_at": AT})
        elif name == "finish":
            self.calls["finish"] += 1
            self.ends[run_id].append(body)
            self.state(run_id, body["state"], **({"summary": body["summary"]} if "summary" in body else {}))
        elif name == "heartbeat":
            return 200, self.heartbeat(run_id, token, body)
        elif name == "document":
            return 200, {"run_id": run_id, "version": self.patch(run_id, token, body)}
        elif name == "ack" or (len(rest) == 3 and rest[0] == "followups"):
            for each in self.followups[run_id]:
                if each["followup"]["message_id"] == rest[1]:
                    each["followup"]["state"] = "delivered"
                    return 200, each
            raise Refusal(404, "not_found")
        elif rest[:1] == ["steps"]:
            return 200, self.step(run_id, rest[1], body)
        else:
            raise AssertionError((method, rest))
        return 200, self.runs[run_id]

    def step(self, run_id: str, step_id: str, body: dict[str, Any]) -> dict[str, Any]:
        known = self.runs[run_id].get("steps", {}).get(step_id)
        if known is None:
            ordinal = len(self.runs[run_id].get("steps", {})) + 1
            known = {"id": step_id, "run_id": run_id, "ordinal": ordinal, "started_at": AT, "status": "running"}
        step = {**known, **body}
        self.change(run_id, [{"op": "add", "path": f"/steps/{step_id}", "value": step}])
        return step


_positions = itertools.count(1)


def message(run: dict[str, Any], text: str) -> dict[str, Any]:
    number = next(_positions)
    return {
        "id": new_id(),
        "thread_id": run["thread_id"],
        "channel_id": new_id(),
        "author_id": new_id(),
        "origin": "human",
        "kind": "text",
        "body": text,
        "mentions": [],
        "version": 1,
        "thread_seq": number,
        "created_at": AT,
    }


def summary(run: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "thread_id", "agent_id", "state", "version", "trigger_kind", "queued_at", "step_count", "headline")
    return {name: run[name] for name in names if name in run}
