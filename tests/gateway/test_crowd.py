"""A thousand devices come, look and leave: nothing of them stays."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack

import msgspec

from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.gateway.raw_socket import Raw, raw

CROWD = 1000
TOGETHER = 50


def sizes(live: Live) -> dict[str, int]:
    """How much the server holds for sessions."""
    app = live.app
    hub, focus = app.hub, app.hub.focus
    return {
        "sessions": len(hub.sessions),
        "principals": len(hub.by_principal),
        "connections": len(hub._connections),
        "holders": len(hub._holders),
        "tasks": len(hub._tasks),
        "looking": len(focus._looking),
        "threads": len(focus._by_thread),
        "runs": len(focus.outlets),
        "asking": len(focus._asking),
        "following": len(hub.tail._following),
        "late": len(hub._watch._late),
        "gathering": len(hub._gathering._hot),
        "views": len(hub._rights._views),
        "documents": len(app.plane),
    }


async def come(stack: AsyncExitStack, live: Live, handle: str, thread_id: str) -> Raw:
    """One device that looks at a thread."""
    connection = await stack.enter_async_context(raw(live))
    connection.say("hello", token=live.tokens[handle])
    connection.say("focus", id="f", thread_ids=[thread_id])
    answer = await connection.first("result")
    assert answer["thread_ids"] == [thread_id]
    return connection


async def test_a_thousand_come_look_and_leave(own_live: Live) -> None:
    live = own_live
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
    stage = Stage(live)
    held = stage.running()
    handles = [stage.principal() for _ in range(25)]
    for handle in handles:
        live.tokens[handle] = live.issue(handle)
        stage.grant(handle, "read", channel_id=stage.world.channels["Support/Escalation"])
    await eventually(lambda: not live.app.hub._tasks)
    before = sizes(live)
    async with AsyncExitStack() as stack:
        crowd: list[Raw] = []
        for start in range(0, CROWD, TOGETHER):
            coming = [
                come(stack, live, handles[number % len(handles)], held.run["thread_id"])
                for number in range(start, start + TOGETHER)
            ]
            crowd += await asyncio.gather(*coming)
        assert len(live.app.hub.sessions) == before["sessions"] + CROWD
        for _ in range(3):
            stage.step(held)
        wanted = stage.as_("owner").call("getRun", run_id=held.id).ok()["version"]
        for connection in crowd:
            while (await connection.first("run.updated"))["version"] < wanted:
                pass
        shown = [
            msgspec.json.decode(got.payload) for got in crowd[0].got if got.opcode == 1 and b'"run.' in got.payload[:20]
        ]
        assert shown[0]["type"] == "run.document"
        for number, connection in enumerate(crowd):
            if number % 2:
                connection.writer.transport.abort()  # type: ignore[union-attr]
    await eventually(lambda: sizes(live) == before, f"{before}")
    stage.close()
