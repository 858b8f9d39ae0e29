"""A small server to test clients against: runs in memory, REST and gateway, and whatever can go wrong on demand.

It can lose answers, cut sessions and answer out of turn, which a real server only does on a bad day.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from generated.validators import checker
from tests.client.fake_runs import AT, PRINCIPAL, Refusal, Runs, Session, message, problem, summary

__all__ = ["Fake", "Session", "message", "problem", "serving", "summary", "when"]


class Fake(Runs):
    """The runs, served."""

    async def session(self, number: int = 1) -> Session:
        """The session of that number, counted from the beginning, when it has begun."""
        while self.calls["hello"] < number:
            self.began.clear()
            await asyncio.wait_for(self.began.wait(), 10)
        return self.sessions[-1]

    # the gateway

    async def serve_gateway(self, request: web.Request) -> web.StreamResponse:
        if not self.gateway:
            return web.json_response(problem(404, "not_found"), status=404)
        socket = web.WebSocketResponse(protocols=("livebox.v1",), compress=False)
        await socket.prepare(request)
        hello = json.loads((await socket.receive()).data)
        assert not checker("/messages/hello")(hello), hello
        self.frames.append(hello)
        if self.hello_problem is not None:
            document, code = self.hello_problem
            await socket.send_json({"type": "error", "reply_to": hello["id"], "problem": document})
            if not code:  # it may say hello again
                self.hello_problem = None
                await socket.receive()
                return socket
            await socket.close(code=code)
            return socket
        self.before_ready()
        session = Session(socket, hello)
        await session.send(self.ready(hello, session))
        self.sessions.append(session)
        self.calls["hello"] += 1
        self.began.set()
        await self.catch_up(session)
        await self.hand_out()
        try:
            async for received in socket:
                if received.type is WSMsgType.TEXT:
                    await self.frame(session, json.loads(received.data))
        finally:
            self.sessions.remove(session)
        return socket

    def ready(self, hello: dict[str, Any], session: Session) -> dict[str, Any]:
        active = [summary(run) for run in self.runs.values() if run["state"] in ("queued", "running", "waiting_input")]
        return {
            "type": "ready",
            "reply_to": hello["id"],
            "session_id": session.id,
            "principal": PRINCIPAL,
            "seq": len(self.events),
            "active_runs": active,
            "limits": {
                "max_frame_bytes": 1048576,
                "focus_max": 100,
                "heartbeat_interval_ms": self.heartbeat_interval_ms,
            },
        }

    async def catch_up(self, session: Session) -> None:
        after = session.hello.get("resume_after")
        if after is None:
            return
        if after < self.floor:
            await session.send({"type": "resync", "after": len(self.events)})
            return
        for event in self.events[after:]:
            await session.send({"type": "event", "event": event})

    async def frame(self, session: Session, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        kind = frame["type"]
        assert not checker(f"/messages/{kind}")(frame), frame
        if kind in self.lose:
            self.lose.remove(kind)
            with suppress(Refusal):
                await self.answer(session, frame)
            session.cut()
            return
        reply = {"reply_to": frame["id"]} if "id" in frame else {}
        try:
            result = await self.answer(session, frame)
        except Refusal as refusal:
            await session.send({"type": "error", **reply, "problem": refusal.document})
            return
        if kind == "ping":
            await session.send({"type": "pong", **reply})
        elif reply:
            await session.send({"type": "result", **reply, **result})
        if kind == "focus":
            for run_id in result["run_ids"]:
                await session.send({"type": "run.document", "run": self.runs[run_id]})

    async def answer(self, session: Session, frame: dict[str, Any]) -> dict[str, Any]:
        kind = frame["type"]
        for document in self.refuse.get(kind, [])[:1]:
            del self.refuse[kind][0]
            raise Refusal(**{"status": document["status"], "code": document["code"], **_extras(document)})
        if kind == "focus":
            session.focus = {i for i in frame.get("run_ids", ()) if i in self.runs and i not in self.unseen}
            return {"thread_ids": [], "run_ids": sorted(session.focus)}
        if kind == "ping":
            return {}
        run_id = frame["run_id"]
        if "invocation" in frame:
            session.tokens[run_id] = frame["invocation"]
        token = session.tokens.get(run_id, "")
        if kind == "run.update":
            return {"version": self.patch(run_id, token, frame)}
        if kind == "heartbeat":
            return {"heartbeat": self.heartbeat(run_id, token, frame)}
        if frame["work"] == "invocation":
            self.queue = [each for each in self.queue if each["run"]["id"] != run_id]
        return {}

    # REST

    async def serve_rest(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        token = request.headers.get("Livebox-Invocation", "")
        operation = f"{request.method} {request.path}"
        name = request.path.rsplit("/", 1)[-1]
        try:
            for document in self.refuse.get(name, [])[:1]:
                del self.refuse[name][0]
                raise Refusal(**{"status": document["status"], "code": document["code"], **_extras(document)})
            status, answer = await self.rest(request, operation, token, body)
        except Refusal as refusal:
            status, answer = refusal.document["status"], refusal.document
        if name in self.lose or request.method in self.lose:
            self.lose.remove(name if name in self.lose else request.method)
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(answer, status=status)

    async def rest(self, request: web.Request, operation: str, token: str, body: Any) -> tuple[int, Any]:
        match request.method, request.path.strip("/").split("/")[1:]:
            case "GET", ["events"]:
                return 200, self.page(int(request.query["after"]))
            case "GET", ["snapshot"]:
                active = [summary(run) for run in self.runs.values() if run["state"] in ("queued", "running")]
                seq = len(self.events)
                return 200, {"seq": seq, "at": AT, "channels": [], "threads": [], "messages": [], "active_runs": active}
            case "POST", ["agents", "me", "invocations"] | ["invocations", "claim"] | ["invocations"]:
                items, self.queue = self.queue, []
                return 200, {"claim_id": body["claim_id"], "items": items}
            case "POST", ["threads", _, "messages"]:
                self.said.append(body)
                return 201, message(next(iter(self.runs.values())), body["body"])
            case "GET", ["runs", run_id]:
                if run_id not in self.runs or run_id in self.unseen:
                    raise Refusal(404, "not_found")
                self.calls["get"] += 1
                return 200, self.runs[run_id]
            case "GET", ["runs", run_id, "followups"]:
                return 200, {"items": self.followups[run_id]}
            case _, ["runs", run_id, *rest]:
                return self.control(request.method, run_id, rest, token, body)
        raise AssertionError(operation)


async def when(true: Callable[[], Any]) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(10):
        while True:
            if true():
                return
            await asyncio.sleep(0.002)


def _extras(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("run", "retry_after_ms", "errors") if name in document}


@asynccontextmanager
async def serving(fake: Fake, port: int | None = None) -> AsyncIterator[Fake]:
    """The fake, listening; on `port` where it came back."""
    app = web.Application()
    app.router.add_get("/v1/gateway", fake.serve_gateway)
    app.router.add_route("*", "/{rest:.*}", fake.serve_rest)
    server = TestServer(app, port=port)
    async with server:
        fake.url = str(server.make_url("/")).rstrip("/")
        yield fake
        for session in list(fake.sessions):
            session.cut()
