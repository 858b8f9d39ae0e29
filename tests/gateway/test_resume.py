"""Catching up: from any place in the log, without a gap and without a repeat, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from livebox.world import OWNER
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.gateway.device import Devices


def listed(stage: Stage, handle: str, after: int) -> list[dict[str, object]]:
    """All events after a position, as REST lists them."""
    found: list[dict[str, object]] = []
    while True:
        page = stage.as_(handle).call("listEvents", query={"after": after, "limit": 200}).ok()
        found += page["items"]
        after = page["next_after"]
        if not page["has_more"]:
            return found


def position(stage: Stage) -> int:
    """Where the log is."""
    return int(stage.as_(OWNER).call("getSnapshot").ok()["seq"])


def some_history(stage: Stage) -> None:
    """Events that some see and some do not."""
    thread_id = stage.thread()
    stage.message(thread_id)
    stage.message(stage.thread("Marketing/General"), "sam")
    stage.finished()
    held = stage.running()
    stage.step(held)


@pytest.mark.parametrize("handle", ["alex", "sam", "lotse", OWNER])
async def test_from_every_cut_all_comes_once_and_in_order(devices: Devices, stage: Stage, handle: str) -> None:
    start = position(stage)
    some_history(stage)
    wanted = listed(stage, handle, start)
    for cut in range(start, position(stage) + 1):
        device = await devices.enter(handle, resume_after=cut, capabilities={"invocations": 0})
        rest = [event for event in wanted if event["seq"] > cut]  # type: ignore[operator]
        await device.until(lambda device=device, rest=rest: len(device.events()) >= len(rest))
        await device.settled()
        assert device.events() == rest
        await device.close()


async def test_while_others_write_nothing_is_lost_and_nothing_comes_twice(devices: Devices, stage: Stage) -> None:
    """Devices come and go, each from where the one before stopped, while writers go on in many threads."""
    start = position(stage)
    done = threading.Event()

    def write() -> None:
        threads = [stage.thread() for _ in range(4)]
        for number in range(120):
            stage.message(threads[number % 4], OWNER, f"Message {number}")
        done.set()

    writing = asyncio.ensure_future(asyncio.to_thread(write))
    seq, got = start, []
    while not done.is_set() or seq < position(stage):
        device = await devices.enter("alex", resume_after=seq)
        await asyncio.sleep(0)
        await device.settled()
        got += device.events()
        if device.events():
            seq = device.events()[-1]["seq"]
        elif done.is_set():
            break
        await device.close()
    await writing
    last = await devices.enter("alex", resume_after=seq)
    await last.settled()
    wanted = listed(stage, "alex", start)
    rest = [event for event in wanted if event["seq"] > seq]  # type: ignore[operator]
    await last.until(lambda: len(last.events()) >= len(rest))
    got += last.events()
    assert got == wanted


async def test_without_resume_it_goes_on_after_ready(devices: Devices, stage: Stage) -> None:
    some_history(stage)
    device = await devices.enter("alex")
    seq = device.of("ready")[0]["seq"]
    stage.message()
    wanted = listed(stage, "alex", seq)
    await device.until(lambda: len(device.events()) >= len(wanted))
    assert device.events() == wanted


async def test_too_old_or_not_yet_is_told_and_goes_on(devices: Devices, own_live: Live) -> None:
    stage = Stage(own_live)
    some_history(stage)
    floor = position(stage) - 3
    stage.sql("UPDATE livebox.log_state SET floor = %s", floor)
    here = Devices(devices._session, own_live)
    for where in ("below the floor", "zero", "the floor", "the top", "above the top", "far above the top"):
        top = position(stage)
        places = {"below the floor": floor - 1, "zero": 0, "the floor": floor, "the top": top, "above the top": top + 1}
        device = await here.enter("alex", resume_after=places.get(where, 2**53 - 1))
        message = stage.message()
        await device.event("message.created", thread_id=message["thread_id"])
        ready = device.of("ready")[0]
        if where in ("the floor", "the top"):
            assert not device.of("resync"), where
        else:
            assert device.of("resync")[0]["after"] == ready["seq"], where
            assert all(event["seq"] > ready["seq"] for event in device.events())
    await here.close()
    stage.close()


async def test_what_one_may_not_see_any_more_is_not_caught_up(devices: Devices, stage: Stage) -> None:
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    start = position(stage)
    grant = stage.grant(who, "read", channel_id=stage.world.channels["Support/Escalation"])
    thread_id = stage.thread()
    stage.message(thread_id)
    stage.as_(OWNER).call("revokeAccess", grant_id=grant["id"]).ok()
    device = await devices.enter(who, resume_after=start)
    wanted = listed(stage, who, start)
    await device.until(lambda: len(device.events()) >= len(wanted))
    assert device.events() == wanted
    assert thread_id not in str(device.frames)
