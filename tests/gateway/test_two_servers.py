"""Devices on one server, agents and rights on another: what each shows is the same, within a moment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.gateway.device import Device, Devices
from tests.gateway.test_focus import patch, served, still


@pytest_asyncio.fixture
async def both(twins: tuple[Stage, Stage]) -> AsyncIterator[tuple[Devices, Devices]]:
    """Devices of each of two servers."""
    async with aiohttp.ClientSession() as session:
        found = Devices(session, twins[0].live), Devices(session, twins[1].live)
        yield found
        for devices in found:
            await devices.close()


async def comes_to(device: Device, stage: Stage, run_id: str) -> None:
    """Waits until the device shows what the server of `stage` serves."""

    def equal() -> bool:
        return still(device.documents.get(run_id, {})) == served(stage, run_id)

    await eventually(equal, "the document of the other server")
    assert not device.gaps


@pytest.mark.parametrize("size", [10, 7_900, 8_000, 16_000])
async def test_what_is_patched_on_one_is_shown_on_the_other(
    twins: tuple[Stage, Stage], both: tuple[Devices, Devices], size: int
) -> None:
    here, there = both
    held = twins[0].running()
    alex = await there.enter("alex")
    await alex.ask("focus", thread_ids=[held.run["thread_id"]])
    lotse = await here.enter("lotse", capabilities={"invocations": 0})
    version = await patch(lotse, held, held.run["version"], "Reading")
    op = {"op": "add", "path": "/text", "value": {"content": "x" * size}}
    answer = await lotse.ask("run.update", run_id=held.id, base_version=version, ops=[op])
    assert answer["type"] == "result", answer
    await comes_to(alex, twins[0], held.id)
    twins[0].step(held)
    await comes_to(alex, twins[0], held.id)
    assert (await lotse.first("run.watched")) is not None
    await lotse.until(lambda: any(frame["watched"] for frame in lotse.of("run.watched")))


async def test_events_of_one_are_handed_out_by_the_other_without_a_gap(
    twins: tuple[Stage, Stage], both: tuple[Devices, Devices]
) -> None:
    devices = [await here.enter("alex") for here in both]
    start = max(device.of("ready")[0]["seq"] for device in devices)
    threads = [stage.thread() for stage in twins]
    for number in range(30):
        twins[number % 2].message(threads[number % 2], OWNER, f"Message {number}")
    wanted = twins[0].as_("alex").call("listEvents", query={"after": start, "limit": 200}).ok()["items"]
    for device in devices:
        await device.until(lambda device=device: device.events() and device.events()[-1]["seq"] >= wanted[-1]["seq"])
        assert [event for event in device.events() if event["seq"] > start] == wanted


async def test_a_right_that_is_taken_on_one_ends_on_the_other(
    twins: tuple[Stage, Stage], both: tuple[Devices, Devices]
) -> None:
    who = twins[0].principal()
    twins[1].live.tokens[who] = twins[0].live.issue(who)
    twins[1].world.principals[who] = twins[0].world.principals[who]
    grant = twins[0].grant(who, "read", channel_id=twins[0].world.channels["Support/Escalation"])
    held = twins[0].running()
    device = await both[1].enter(who)
    await device.ask("focus", run_ids=[held.id])
    assert held.id in device.documents
    twins[0].as_(OWNER).call("revokeAccess", grant_id=grant["id"]).ok()
    hub = twins[1].live.app.hub
    await eventually(lambda: not list(hub.focus.watchers(held.id)), "the end of the focus")
    since = len(device.frames)
    message = twins[0].message(held.run["thread_id"])
    twins[0].step(held)
    await eventually(lambda: twins[1].live.app.feed.position >= message["thread_seq"])
    await device.settled()
    assert not [frame for frame in device.frames[since:] if frame["type"].startswith("run.")]
    assert message["id"] not in str(device.frames)


async def test_disabling_on_one_ends_sessions_on_the_other(
    twins: tuple[Stage, Stage], both: tuple[Devices, Devices]
) -> None:
    who = twins[0].principal()
    twins[1].live.tokens[who] = twins[0].live.issue(who)
    device = await both[1].enter(who)
    twins[0].as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=twins[0].id(who)).ok()
    assert await device.closed() == 4501
