"""Memory that the server keeps for an idle session and for a live run, against bare aiohttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from tests.bench.bare import Bare, bare
from tests.bench.crowd import AT_ONCE, Party, connect
from tests.bench.live import dumped, hello, invocation, patch
from tests.bench.machine import resident
from tests.bench.plan import Plan
from tests.bench.report import Findings, Row
from tests.bench.samples import Spread
from tests.bench.served import Served
from tests.bench.stage import AGENT, ASKER, Stage, run_id
from tests.bench.wire import Socket

KIB: Final = 1024
_WARM: Final = 0.5
"""Share of sessions and runs that are made before, so that what a process needs once is there."""
_SETTLED: Final = 3.0
"""Seconds until what was changed is saved."""


def measure(stage: Stage, serve: Callable[[], AbstractContextManager[Served]], plan: Plan) -> Findings:
    """Each in a fresh process."""
    sessions, bare_sessions, runs, bare_runs = [], [], [], []
    for _ in range(plan.rounds):
        with bare() as plain:
            bare_sessions.append(asyncio.run(_sessions(plain, Party("/plain/watch"), plan.sessions)))
            bare_runs.append(asyncio.run(_kept(plain, plan.sessions)))
        with serve() as server:
            at = Bare(server.port, server.process.pid)
            device = Party("/v1/gateway", (hello(stage.token(ASKER)),))
            sessions.append(asyncio.run(_sessions(at, device, plan.sessions)))
            runs.append(asyncio.run(_runs(stage, server, plan.sessions)))
    rows = [
        Row("memory of an idle gateway session", "the server's process", _kib(sessions), at_most=25, unit=" KiB"),
        Row("memory of an idle WebSocket", "bare aiohttp", _kib(bare_sessions), unit=" KiB"),
        Row("memory of a live run with a 4 KB document", "the server's process", _kib(runs), at_most=30, unit=" KiB"),
        Row("memory of a patched 4 KB document", "bare aiohttp", _kib(bare_runs), unit=" KiB"),
    ]
    return Findings(rows, [])


async def _sessions(server: Bare, party: Party, count: int) -> float:
    """Bytes for each of so many connections."""
    warm = [await connect(server.port, party) for _ in range(int(count * _WARM))]
    await asyncio.sleep(1)
    before, room = resident(server.pid), asyncio.Semaphore(AT_ONCE)

    async def one() -> Socket:
        async with room:
            return await connect(server.port, party)

    made = await asyncio.gather(*(one() for _ in range(count)))
    await asyncio.sleep(1)
    grown = resident(server.pid) - before
    for opened in (*warm, *made):
        opened.abort()
    return grown / count


async def _runs(stage: Stage, server: Served, count: int) -> float:
    warm = int(count * _WARM)
    first = stage.running(warm + count)
    agent = await connect(server.port, Party("/v1/gateway", (hello(stage.token(AGENT)),)))
    try:
        for n in range(first, first + warm):
            await _filled(agent, patch(run_id(n), "add", invocation(server, stage, n)))
        await asyncio.sleep(_SETTLED)
        before = resident(server.process.pid)
        for n in range(first + warm, first + warm + count):
            await _filled(agent, patch(run_id(n), "add", invocation(server, stage, n)))
        await asyncio.sleep(_SETTLED)
        return (resident(server.process.pid) - before) / count
    finally:
        agent.abort()


async def _kept(server: Bare, count: int) -> float:
    opened = await connect(server.port, Party("/kept"))
    before = resident(server.pid)
    for n in range(count):
        await opened.ask(_large(patch(f"{n:036}", "add"), 1), b'"reply_to"')
    grown = resident(server.pid) - before
    opened.abort()
    return grown / count


async def _filled(agent: Socket, frame: bytes) -> None:
    """Give a run its document: at the version that its row has, or that a refusal names."""
    answer = await agent.ask(_large(frame, 1), b'"reply_to"')
    if b'"version_conflict"' in answer:
        base = json.loads(answer)["problem"]["current"]["version"]
        answer = await agent.ask(_large(frame, base), b'"reply_to"')
    if b'"type":"result"' not in answer:
        raise RuntimeError(f"a run was not filled: {answer!r}")


def _large(frame: bytes, base: int) -> bytes:
    """The patch with a plan and texts of about 4 KB more."""
    items = [
        {
            "op": "add",
            "path": f"/plan/items/step-{n}",
            "value": {"ordinal": n, "title": f"Step {n}: look at the next part of the folder", "status": "pending"},
        }
        for n in range(20)
    ]
    text = {"op": "add", "path": "/text", "value": {"content": "What was found so far. " * 80, "format": "plain"}}
    ops = dumped([*items, text])[1:-1]
    return (frame % {b"n": 0, b"base": base}).replace(b'"ops":[', b'"ops":[' + ops + b",")


def _kib(found: list[float]) -> Spread:
    return Spread.of([number / KIB for number in found])
