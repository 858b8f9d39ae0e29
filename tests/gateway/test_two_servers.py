"""Two servers on one database: each device sees all of it, in the order of the log, wherever it was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
import pytest_asyncio

from livebox.world import OWNER
from tests.fixtures.stage import ROOM, Held, Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.wire import Wire, fresh
from tests.gateway.device import Device, Devices

WRITERS = 20
MESSAGES = 6  # of each writer

Pair = tuple[Devices, Devices]


@pytest_asyncio.fixture
async def pair(twins: tuple[Stage, Stage]) -> AsyncIterator[Pair]:
    """Devices of either server."""
    async with aiohttp.ClientSession() as session:
        first, second = (Devices(session, stage.live) for stage in twins)
        yield first, second
        await first.close()
        await second.close()


def all_of(stage: Stage, after: int) -> list[int]:
    """What listEvents gives the owner, whole."""
    seqs: list[int] = []
    while True:
        page = stage.as_(OWNER).call("listEvents", query={"after": after, "limit": 200}).ok()
        seqs += [event["seq"] for event in page["items"]]
        if not page["has_more"]:
            return seqs
        after = page["next_after"]


def top(stage: Stage) -> int:
    return int(stage.sql("SELECT livebox.last_seq()")[0][0])


async def write(twins: tuple[Stage, Stage]) -> None:
    """Twenty writers at once, half on either server and half of them in one thread."""
    one = twins[0].thread()
    loop = asyncio.get_running_loop()

    def writer(number: int) -> None:
        stage = twins[number % 2]
        wire = Wire(stage.live.port, stage.live.issue("robin"))
        thread = one
        if number % 4 > 1:
            thread = wire.call("createThread", {"title": "x"}, channel_id=stage.world.channels[ROOM]).ok()["id"]
        for _ in range(MESSAGES):
            wire.call("createMessage", {"body": "x", "client_msg_id": fresh()}, thread_id=thread).ok()
        wire.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, writer, number) for number in range(WRITERS)))


async def cut(devices: Devices, after: int, seen: list[int], done: asyncio.Event) -> None:
    """A reader that is cut off again and again and goes on from the last seq that it has."""
    while not done.is_set() or (seen[-1] if seen else after) < top_of(devices):
        device = await devices.enter(OWNER, resume_after=seen[-1] if seen else after)
        await device.until(device.events, "an event")
        await device.close()
        seen += [event["seq"] for event in device.events()]


def top_of(devices: Devices) -> int:
    return top(Stage(devices.live))


async def test_readers_miss_nothing_of_twenty_writers(twins: tuple[Stage, Stage], pair: Pair) -> None:
    readers = [await devices.enter(OWNER) for devices in pair for _ in range(2)]
    start = top(twins[0])
    done, seen = asyncio.Event(), list[int]()
    cutting = asyncio.create_task(cut(pair[1], start, seen, done))
    await write(twins)
    end = top(twins[0])
    done.set()
    for reader in readers:
        await reader.until(lambda reader=reader: reader.events()[-1]["seq"] >= end, "the last event")
    await cutting
    wanted = await asyncio.to_thread(all_of, twins[0], start)
    assert len(wanted) >= WRITERS * MESSAGES
    for reader in readers:
        assert [event["seq"] for event in reader.events() if event["seq"] > start] == wanted
    assert seen == wanted, "a cut reader gets the same, nothing twice"
    for thread in {event["scope"]["thread_id"] for event in readers[0].events() if "thread_id" in event["scope"]}:
        order = [e["thread_seq"] for e in readers[0].events() if e["scope"].get("thread_id") == thread]
        assert order == sorted(order)


async def taken(device: Device) -> Held:
    invocation = (await device.first("agent.invocation"))["invocation"]
    return Held(invocation["run"], invocation["token"])


@pytest.fixture
def agent(twins: tuple[Stage, Stage]) -> str:
    here, there = twins
    handle = here.principal("agent")
    there.world.principals[handle] = here.world.principals[handle]
    here.grant(handle, "write", channel_id=here.world.channels["Support/Escalation"])
    return handle


async def test_work_from_one_comes_to_sessions_of_the_other(twins: tuple[Stage, Stage], pair: Pair, agent: str) -> None:
    here, there = twins
    device = await pair[1].enter(agent)
    here.queued(agent=agent)
    held = await taken(device)
    await device.ask("ack", work="invocation", run_id=held.id)
    there.as_(agent).call("startRun", {}, run_id=held.id, headers=held.headers).ok()
    message = here.message(held.run["thread_id"], "alex", "And last week?", [agent])
    assert (await device.first("run.followup"))["followup"]["message_id"] == message["id"]
    here.as_("alex").call("cancelRun", run_id=held.id).ok()
    assert (await device.first("run.cancel_requested"))["run_id"] == held.id


async def test_each_run_goes_to_one_session_of_all(twins: tuple[Stage, Stage], pair: Pair, agent: str) -> None:
    devices = [await one.enter(agent, capabilities={"invocations": 10}) for one in pair]
    runs = [twins[number % 2].queued(agent=agent)["id"] for number in range(10)]

    def handed() -> list[str]:
        return [f["invocation"]["run"]["id"] for device in devices for f in device.of("agent.invocation")]

    await eventually(lambda: set(handed()) == set(runs), "all runs")
    assert sorted(handed()) == sorted(runs)


async def test_a_right_that_is_taken_at_one_is_gone_at_the_other(twins: tuple[Stage, Stage], pair: Pair) -> None:
    """There within the time of a poke, or of `gateway.poll_interval` when that is lost."""
    here, there = twins
    handle = here.principal()
    there.world.principals[handle] = here.world.principals[handle]
    grant = here.grant(handle, "read", channel_id=here.world.channels["Support/Escalation"])
    held = here.running()
    device = await pair[1].enter(handle)
    assert (await device.ask("focus", run_ids=[held.id]))["run_ids"] == [held.id]
    here.as_(OWNER).call("revokeAccess", grant_id=grant["id"]).ok()
    await device.until(lambda: [e for e in device.events() if e["type"] == "access.changed"], "the news")
    here.step(held)
    here.message(held.run["thread_id"])
    last = top(there)
    await eventually(lambda: there.live.app.feed.position >= last, "the feed of the other")
    await device.settled()
    assert device.events()[-1]["type"] == "access.changed"
    assert device.of("run.updated") == []
    assert (await device.ask("focus", run_ids=[held.id]))["run_ids"] == []
