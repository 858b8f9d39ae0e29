"""A server that stops: everybody is told, what was accepted is finished, every socket is closed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import aiohttp

from generated.gateway_messages import CLOSES
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Devices
from tests.gateway.raw_socket import entered, raw

SPREAD = 3


class Stopping:
    """A server that the test stops itself."""

    def __init__(self, copy: WorldCopy, folder: Path) -> None:
        self.live = Live(copy, folder, {"gateway.shutdown_spread": SPREAD})
        self.live.start()

    async def stop(self) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.live.app.stop(), self.live.loop))

    def end(self) -> None:
        self.live.loop.call_soon_threadsafe(self.live.loop.stop)


async def test_everybody_is_told_and_closed(world_copy: WorldCopy, tmp_path: Path) -> None:
    server = Stopping(world_copy, tmp_path)
    live = server.live
    stage = Stage(live)
    held = stage.running()
    stage.close()
    async with aiohttp.ClientSession() as session, raw(live) as silent, entered(live, "sam") as deaf:
        devices = Devices(session, live)
        people = [await devices.enter("alex") for _ in range(20)]
        lotse = await devices.enter("lotse", capabilities={"invocations": 0})
        version = held.run["version"]
        op = {"op": "add", "path": "/headline", "value": "Last words"}
        await lotse.say("heartbeat", id="b", run_id=held.id, invocation=held.token)
        await lotse.say("run.update", id="p", run_id=held.id, base_version=version, ops=[op])
        assert (await lotse.answer("b"))["type"] == "result"
        await server.stop()
        waits = []
        for device in (*people, lotse):
            assert await device.closed() == CLOSES["restart"].code
            (bye,) = device.of("bye")
            assert bye["reason"] == "shutdown"
            waits.append(bye["retry_after_ms"])
        assert all(0 <= wait <= SPREAD * 1000 for wait in waits)
        assert len(set(waits)) > 5, "they must not come back all at once"
        assert await silent.closed() == CLOSES["restart"].code
        assert await deaf.closed() == CLOSES["restart"].code
        assert await deaf.over(), "the close was never answered"
        assert await silent.over()
    server.end()


async def test_an_accepted_frame_is_answered_before_the_end(world_copy: WorldCopy, tmp_path: Path) -> None:
    """A beat that waits for the database while the server is told to stop."""
    server = Stopping(world_copy, tmp_path)
    live = server.live
    stage = Stage(live)
    held = stage.running()
    stage.close()
    readers = live.app.database.readers
    call, release, begun = readers.call, threading.Event(), threading.Event()

    async def slow(function: str, *more: object) -> object:
        if function == "heartbeat_run":
            begun.set()
            await asyncio.to_thread(release.wait)
        return await call(function, *more)  # type: ignore[arg-type]

    readers.call = slow  # type: ignore[method-assign, assignment]
    async with aiohttp.ClientSession() as session:
        devices = Devices(session, live)
        lotse = await devices.enter("lotse", capabilities={"invocations": 0})
        await lotse.say("heartbeat", id="b", run_id=held.id, invocation=held.token)
        await asyncio.to_thread(begun.wait)
        stopping = asyncio.ensure_future(server.stop())
        await lotse.first("bye")
        release.set()
        assert (await lotse.answer("b"))["type"] == "result"
        assert await lotse.closed() == CLOSES["restart"].code
        await stopping
    server.end()
