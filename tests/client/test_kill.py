"""kill -9 and restart of the server while an adapter works and a person watches: both heal, and each run ends once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from livebox.client import Adapter, Livebox, Pace, RunHandle
from tests.client.fake import when
from tests.client.test_real import settled
from tests.fixtures.serving import Serving, Spawn

pytestmark = pytest.mark.timeout(240)


class Scene:
    """A server on a port that it keeps, Alex, and where Alex writes."""

    def __init__(self, spawn: Spawn, data: Path) -> None:
        self._spawn = spawn
        self._data = str(data)
        self.server: Serving = spawn(LIVEBOX_DATA=self._data).ready()
        self.server.command("world")
        self.url = self.server.url
        self.alex = self.server.command("token", "issue", "alex")
        self.lotse = self.server.command("token", "issue", "lotse")
        self.thread = self.server.command("world", "--id", "thread:Support/General")
        self.agent = self.server.command("world", "--id", "principal:lotse")

    def stop(self, number: int) -> None:
        self.server.process.send_signal(number)
        self.server.process.communicate(timeout=60)

    def start(self) -> None:
        self.server = self._spawn("--port", self.url.rsplit(":", 1)[1], LIVEBOX_DATA=self._data).ready()

    async def restart(self, number: int) -> None:
        await asyncio.to_thread(self.stop, number)
        await asyncio.to_thread(self.start)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
async def test_adapter_and_watcher_heal_and_the_run_ends_once(spawn: Spawn, data: Path, number: int) -> None:
    scene = Scene(spawn, data)
    adapter = Adapter(scene.url, scene.lotse, pace=Pace(heartbeat=0.5, patch=0.0, unwatched=0.0), patience=60)
    halfway, go_on = asyncio.Event(), asyncio.Event()

    @adapter.on_invocation
    async def work(run: RunHandle) -> str:
        for part in (1, 2):
            for count in range(20):
                run.headline = f"Part {part}, number {count}"
                run.plan.item(f"k{count % 3}", f"Point {part} {count}", "in_progress")
                await run.flush()
            async with run.step("tool", f"part-{part}"):
                run.text.append(f"part {part} ")
            halfway.set()
            await go_on.wait()
        return "Done."

    serving = asyncio.create_task(adapter.serve())
    documents: list[Any] = []
    async with Livebox(scene.url, scene.alex, patience=60) as alex:
        message = await alex.create_message(scene.thread, "Please", mentions=[scene.agent])
        asked = await alex.find_run(message)
        assert asked is not None

        async def follow() -> None:
            async for run in alex.follow_run(asked["id"]):
                documents.append(run)  # noqa: PERF401 - looked at while it goes on

        following = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            await halfway.wait()
        await when(lambda: documents and documents[-1].get("headline") == "Part 1, number 19")
        before = documents[-1]["version"]
        await scene.restart(number)
        go_on.set()
        await asyncio.wait_for(following, 120)
        final = await alex.get_run(asked["id"])
        events = [event async for event in _until_end(alex, asked["id"])]
    adapter.leave()
    await asyncio.wait_for(serving, 30)
    assert settled(documents[-1]) == settled(final)
    assert (final["state"], final["summary"]) == ("completed", "Done.")
    assert (final["headline"], final["text"]["content"]) == ("Part 2, number 19", "part 1 part 2 ")
    assert [step["status"] for step in final["steps"].values()] == ["completed", "completed"]
    versions = [run["version"] for run in documents]
    assert versions == sorted(set(versions))
    assert final["version"] > before
    assert events == ["queued", "running", "completed"]
    assert scene.server.end()[0] == 0


async def _until_end(alex: Livebox, run_id: str) -> Any:
    async for event in alex.events(after=0):
        if event["type"] == "run.state_changed" and event["payload"]["run"]["id"] == run_id:
            yield event["payload"]["run"]["state"]
            if event["payload"]["run"]["state"] == "completed":
                return


async def test_what_is_asked_outlives_the_agent_and_the_server(spawn: Spawn, data: Path) -> None:
    """The agent dies while it waits, the server dies too; the answer begins the work again, in another process."""
    scene = Scene(spawn, data)
    scene.stop(signal.SIGTERM)
    scene._spawn = lambda *options, **variables: spawn(
        *options,
        **variables,
        LIVEBOX_RUN_HOLDER_GRACE="4",
        LIVEBOX_RUN_CLAIM_LEASE="1",
        LIVEBOX_RUN_LIFE_FLUSH_INTERVAL="1",
    )
    await asyncio.to_thread(scene.start)
    resumed: list[bool] = []

    async def work(run: RunHandle) -> str:
        resumed.append(run.resumed)
        return str(await run.ask("Which one?"))

    def agent() -> tuple[Adapter, asyncio.Task[None]]:
        adapter = Adapter(scene.url, scene.lotse, pace=Pace(heartbeat=0.5), patience=60)
        adapter.on_invocation(work)
        return adapter, asyncio.create_task(adapter.serve())

    _, first = agent()
    async with Livebox(scene.url, scene.alex, patience=60) as alex:
        asked = await alex.find_run(await alex.create_message(scene.thread, "Please", mentions=[scene.agent]))
        assert asked is not None
        async with asyncio.timeout(60):
            async for run in alex.follow_run(asked["id"]):
                if run["state"] == "waiting_input":
                    break
        first.cancel()  # as a crash: it says nothing
        await asyncio.wait({first})
        await scene.restart(signal.SIGKILL)
        await alex.create_message(run["thread_id"], "The second")
        second, serving = agent()
        async with asyncio.timeout(120):
            *_, run = [run async for run in alex.follow_run(asked["id"])]
        second.leave()
        await asyncio.wait_for(serving, 30)
    assert (run["state"], run["summary"]) == ("completed", "The second")
    assert resumed == [False, True]
