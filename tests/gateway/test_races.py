"""What was read before a right was taken is not told after it: each question is held back while the world changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from livebox.world import OWNER
from tests.fixtures.server import live_server
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Devices


class Pause:
    """Holds back what a function of the server gives, from when it has it until `release`."""

    def __init__(self, live_loop: asyncio.AbstractEventLoop) -> None:
        self._loop = live_loop
        self._begun = threading.Event()
        self._go_on = asyncio.Event()
        self.count = 0

    async def hold(self) -> None:
        """The server comes by."""
        self.count += 1
        if self.count == 1:
            self._begun.set()
            await self._go_on.wait()

    async def begun(self) -> None:
        """It has read what it will give."""
        await asyncio.to_thread(self._begun.wait, 30)

    def release(self) -> None:
        """It may give it."""
        self._loop.call_soon_threadsafe(self._go_on.set)


@contextmanager
def held_back(stage: Stage, function: str) -> Iterator[Pause]:
    """The first call of a reading function of the database, or of `open` of the live plane, gives its result late."""
    app = stage.live.app
    pause = Pause(stage.live.loop)
    target, name = (app.plane, "open") if function == "open" else (app.database.readers, "call")
    original = getattr(target, name)

    async def late(first: str, *more: Any) -> Any:
        result = await original(first, *more)
        if function in ("open", first):
            await pause.hold()
        return result

    setattr(target, name, late)
    try:
        yield pause
    finally:
        setattr(target, name, original)
        pause.release()


class Guest:
    """Somebody who may read one place, for now."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.handle = stage.principal()
        stage.live.tokens[self.handle] = stage.live.issue(self.handle)
        self.grant = stage.grant(self.handle, "read", channel_id=stage.world.channels["Support/Escalation"])

    async def lose(self, how: str, thread_id: str) -> None:
        """The right is gone, or the place, and that was answered."""
        owner = self.stage.as_(OWNER)
        if how == "grant":
            await asyncio.to_thread(lambda: owner.call("revokeAccess", grant_id=self.grant["id"]).ok())
        elif how == "moved":
            body = {"channel_id": self.stage.world.channels["Support/General"]}
            await asyncio.to_thread(lambda: owner.call("moveThread", body, thread_id=thread_id).ok())
        else:
            await asyncio.to_thread(lambda: owner.call("deleteThread", thread_id=thread_id).ok())


@pytest.mark.parametrize("how", ["grant", "moved", "deleted"])
@pytest.mark.parametrize("function", ["focus", "open"])
@pytest.mark.parametrize("by", ["thread", "run"])
async def test_focus(devices: Devices, stage: Stage, how: str, function: str, by: str) -> None:
    guest, held = Guest(stage), stage.running()
    device = await devices.enter(guest.handle)
    asked = {"thread_ids": [held.run["thread_id"]]} if by == "thread" else {"run_ids": [held.id]}
    with held_back(stage, function) as pause:
        asking = asyncio.ensure_future(device.ask("focus", **asked))
        await pause.begun()
        await guest.lose(how, held.run["thread_id"])
        pause.release()
        answer = await asking
    assert (answer["thread_ids"], answer["run_ids"]) == ([], [])
    assert not device.of("run.document")
    assert stage.live.app.hub.focus.watchers(held.id) == ()


@pytest.mark.parametrize("how", ["grant", "moved", "deleted"])
async def test_catching_up(devices: Devices, stage: Stage, how: str) -> None:
    start = stage.as_(OWNER).call("getSnapshot").ok()["seq"]
    guest = Guest(stage)
    message = stage.message()
    with held_back(stage, "list_events") as pause:
        device = await devices.enter(guest.handle, resume_after=start)
        await pause.begun()
        await guest.lose(how, message["thread_id"])
        pause.release()
        after = stage.message(stage.thread("Support/General"), OWNER)
        stage.grant(guest.handle, "read", channel_id=stage.world.channels["Support/General"])
    later = stage.message(stage.thread("Support/General"), OWNER)
    await device.event("message.created", thread_id=later["thread_id"])
    assert after["id"] != message["id"]
    told = [event for event in device.events() if event["type"] == "message.created"]
    assert message["id"] not in [event["resource"]["id"] for event in told]
    seqs = [event["seq"] for event in device.events()]
    assert seqs == sorted(set(seqs))


async def test_ready(devices: Devices, stage: Stage) -> None:
    guest, held = Guest(stage), stage.running()
    stage.grant(guest.handle, "read", channel_id=stage.world.channels["Marketing/General"])
    keeps = await devices.enter(guest.handle)
    with held_back(stage, "open_session") as pause:
        entering = asyncio.ensure_future(devices.enter(guest.handle))
        await pause.begun()
        await guest.lose("grant", held.run["thread_id"])
        pause.release()
        device = await entering
    assert held.id not in [run["id"] for run in device.of("ready")[0]["active_runs"]]
    assert held.id in [run["id"] for run in keeps.of("ready")[0]["active_runs"]]


async def test_a_run_that_begins_while_focus_is_asked_is_shown(devices: Devices, stage: Stage) -> None:
    thread_id = stage.thread()
    alex = await devices.enter("alex")
    with held_back(stage, "focus") as pause:
        asking = asyncio.ensure_future(alex.ask("focus", thread_ids=[thread_id]))
        await pause.begun()
        stage.message(thread_id, "alex", "Which files changed?", ["lotse"])
        await alex.event("run.state_changed", thread_id=thread_id)
        pause.release()
        await asking
    assert (await alex.first("run.document"))["run"]["thread_id"] == thread_id


async def test_a_focus_that_was_left_meanwhile_shows_nothing(devices: Devices, stage: Stage) -> None:
    """The device goes while its run is being opened."""
    held = stage.running()
    device = await devices.enter("alex")
    with held_back(stage, "open") as pause:
        await device.say("focus", run_ids=[held.id])
        await pause.begun()
        transport: Any = device.socket._response.connection.transport  # type: ignore[union-attr]
        transport.abort()
        await device.closed()
    other = await devices.enter("alex")
    await other.ask("focus", run_ids=[held.id])
    hub = stage.live.app.hub
    assert len(list(hub.focus.watchers(held.id))) == 1
    assert stage.live.app.plane.watchers._here[held.id] == 1


async def test_a_principal_that_is_disabled_while_it_enters(devices: Devices, stage: Stage) -> None:
    guest = Guest(stage)
    owner = stage.as_(OWNER)
    with held_back(stage, "open_session") as pause:
        device = await devices.connect()
        asking = asyncio.ensure_future(device.ask("hello", token=stage.live.tokens[guest.handle]))
        await pause.begun()
        principal = stage.id(guest.handle)
        await asyncio.to_thread(
            lambda: owner.call("updatePrincipal", {"status": "disabled"}, principal_id=principal).ok()
        )
        pause.release()
        answer = await asking
    assert answer["type"] == "error"
    assert answer["problem"]["code"] == "invalid_token"
    assert await device.closed() == 4501


async def test_what_has_gathered_is_taken_back(world_copy: WorldCopy, tmp_path: Path) -> None:
    """Frames wait for a second here: those of a run that may no longer be seen wait for ever."""
    with live_server(world_copy, tmp_path, gateway__coalesce_interval=1) as live:
        stage = Stage(live)
        guest, held = Guest(stage), stage.running()
        async with aiohttp.ClientSession() as session:
            devices = Devices(session, live)
            device = await devices.enter(guest.handle)
            lotse = await devices.enter("lotse", capabilities={"invocations": 0})
            await device.ask("focus", run_ids=[held.id])
            version = held.run["version"]
            for text in ("one", "two", "three"):
                op = {"op": "add", "path": "/headline", "value": text}
                answer = await lotse.ask(
                    "run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[op]
                )
                version = answer["version"]
            (watching,) = live.app.hub.of(stage.id(guest.handle))
            await guest.lose("grant", held.run["thread_id"])
            since = len(device.frames)
            assert not [frame for frame in watching.connection._gathered if frame.run_id]
            await device.settled()
            assert not [frame for frame in device.frames[since:] if frame["type"].startswith("run.")]
            await devices.close()
        stage.close()


async def test_how_a_run_ended_is_shown_though_the_next_has_begun(world_copy: WorldCopy, tmp_path: Path) -> None:
    """Frames wait for a second here, and before it is over the next run of the thread begins."""
    with live_server(world_copy, tmp_path, gateway__coalesce_interval=1) as live:
        stage = Stage(live)
        held = stage.running()
        async with aiohttp.ClientSession() as session:
            devices = Devices(session, live)
            alex = await devices.enter("alex")
            await alex.ask("focus", thread_ids=[held.run["thread_id"]])
            (watching,) = live.app.hub.of(stage.id("alex"))
            for _ in range(3):
                stage.step(held)
            body = {"state": "completed", "summary": "12 files."}
            ended = stage.as_("lotse").call("finishRun", body, headers=held.headers, run_id=held.id).ok()
            await eventually(lambda: not watching.documents[held.id].active, "the end, which is not sent yet")
            stage.message(held.run["thread_id"], "alex", "And now?", ["lotse"])
            await alex.until(lambda: len(alex.documents) == 2, "the document of the next run")
            await alex.until(lambda: alex.documents[held.id]["version"] == ended["version"], "the end of the first")
            assert alex.documents[held.id]["summary"] == "12 files."
            assert not alex.gaps
            await devices.close()
        stage.close()


async def test_what_was_left_meanwhile_is_not_looked_at_again(devices: Devices, stage: Stage) -> None:
    """Rights change, so a run without a thread is asked about anew; until that is known the device looks elsewhere."""
    guest = Guest(stage)
    ((run_id,),) = stage.sql(
        "INSERT INTO livebox.runs (agent_id, state, state_changed_at, trigger_kind, billing_mode_expected,"
        " external_id, queued_at, registered_at, registered_by, agents, user_dims)"
        " SELECT %s, 'queued', at, 'registration', 'organization', livebox.new_id()::text, at, at, %s, ARRAY[%s]::uuid[],"
        " jsonb_build_object('user_id', %s) FROM livebox.clock() AS at RETURNING id",
        *[stage.id(stage.principal("agent"))] * 3,
        stage.id(guest.handle),
    )
    device = await devices.enter(guest.handle)
    assert (await device.ask("focus", run_ids=[str(run_id)]))["run_ids"] == [str(run_id)]
    with held_back(stage, "focus") as pause:
        stage.grant(guest.handle, "read", channel_id=stage.world.channels["Marketing/General"])
        await pause.begun()
        leaving = asyncio.ensure_future(device.ask("focus"))
        await asyncio.wait([leaving], timeout=1)  # it may have to wait for the other question, or not
        pause.release()
        await leaving
    hub = stage.live.app.hub
    await eventually(lambda: not hub._tasks)
    assert not list(hub.focus.watchers(str(run_id)))
