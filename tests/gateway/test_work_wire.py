"""Work for agents over real sockets: handed out, acknowledged, passed on, and what becomes of runs whose agent is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Device, Devices

GRACE = 0.6


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        run__interrupt_grace=GRACE,
        run__life_flush_interval=0.1,
        jobs__reap_interval=0.1,
        gateway__poll_interval=0.1,
    ) as live:
        yield live


@pytest.fixture
def agent(stage: Stage) -> str:
    """An agent of this test's own, so that nobody else's work comes to it."""
    handle = stage.principal("agent")
    stage.grant(handle, "write", channel_id=stage.world.channels["Support/Escalation"])
    return handle


async def handed(device: Device, run: dict[str, Any]) -> Held:
    """A run, when the device is handed it."""

    def found() -> Held | None:
        for frame in device.of("agent.invocation"):
            invocation = frame["invocation"]
            if invocation["run"]["id"] == run["id"]:
                return Held(invocation["run"], invocation["token"])
        return None

    held: Held = await device.until(found, "the run")
    return held


def start(stage: Stage, held: Held, agent: str) -> None:
    stage.as_(agent).call("startRun", {}, run_id=held.id, headers=held.headers).ok()


def followup(stage: Stage, held: Held, agent: str) -> str:
    return str(stage.message(held.run["thread_id"], "alex", "And last week?", [agent])["id"])


def run_of(stage: Stage, held: Held) -> dict[str, Any]:
    return stage.as_(OWNER).call("getRun", run_id=held.id).ok()


async def working(devices: Devices, stage: Stage, agent: str) -> tuple[Device, Held]:
    """A session with a run that it works on."""
    device = await devices.enter(agent)
    held = await handed(device, stage.queued(agent=agent))
    assert (await device.ask("ack", work="invocation", run_id=held.id))["type"] == "result"
    start(stage, held, agent)
    return device, held


async def test_a_run_is_handed_over_and_done(devices: Devices, stage: Stage, agent: str) -> None:
    device, held = await working(devices, stage, agent)
    answer = await device.ask("heartbeat", run_id=held.id)
    assert answer["heartbeat"]["state"] == "running"
    stage.as_(agent).call("finishRun", {"state": "completed"}, run_id=held.id, headers=held.headers).ok()
    second = await handed(device, stage.queued(agent=agent))
    assert second.id != held.id
    assert len(device.of("agent.invocation")) == 2


async def test_a_session_that_is_cut_off_leaves_it_to_the_next(devices: Devices, stage: Stage, agent: str) -> None:
    first = await devices.enter(agent)
    run = stage.queued(agent=agent)
    held = await handed(first, run)
    second = await devices.enter(agent)
    await second.settled()
    assert second.of("agent.invocation") == []
    await first.close()
    assert await handed(second, run) == held
    start(stage, held, agent)


async def test_a_follow_up_is_taken_by_its_acknowledgement(devices: Devices, stage: Stage, agent: str) -> None:
    device, held = await working(devices, stage, agent)
    message_id = followup(stage, held, agent)
    frame = await device.first("run.followup")
    assert frame["followup"]["message_id"] == message_id
    ack = {"work": "followup", "run_id": held.id, "message_id": message_id}
    taken = await device.ask("ack", **ack)
    assert taken["followup"]["followup"]["state"] == "delivered"
    assert (await device.ask("ack", **ack))["followup"] == taken["followup"]
    problem = await device.refused("ack", **{**ack, "message_id": "01933b7e-0000-7000-8000-00000000dead"})
    assert problem["code"] == "not_found"
    assert (await device.refused("ack", work="followup", run_id=held.id))["errors"][0]["pointer"] == "/message_id"


async def test_a_follow_up_is_nobody_s_without_the_token(devices: Devices, stage: Stage, agent: str) -> None:
    _, held = await working(devices, stage, agent)
    message_id = followup(stage, held, agent)
    other = await devices.enter(agent, capabilities={"invocations": 0})
    problem = await other.refused("ack", work="followup", run_id=held.id, message_id=message_id)
    assert problem["errors"][0]["pointer"] == "/invocation"
    await other.settled()
    assert other.of("run.followup") == []
    ack = {"work": "followup", "run_id": held.id, "message_id": message_id, "invocation": held.token}
    assert (await other.ask("ack", **ack))["followup"]["followup"]["state"] == "delivered"


async def test_a_request_to_cancel_is_seen_by_its_acknowledgement(devices: Devices, stage: Stage, agent: str) -> None:
    device, held = await working(devices, stage, agent)
    stage.as_("alex").call("cancelRun", run_id=held.id).ok()
    frame = await device.first("run.cancel_requested")
    assert frame["run_id"] == held.id
    assert "acknowledged_at" not in run_of(stage, held)["cancel"]
    assert (await device.ask("ack", work="cancel", run_id=held.id))["type"] == "result"
    assert "acknowledged_at" in run_of(stage, held)["cancel"]
    await device.close()
    back = await devices.enter(agent)
    again = await back.first("run.cancel_requested")
    assert again["cancel"]["acknowledged_at"] == run_of(stage, held)["cancel"]["acknowledged_at"]


async def test_a_run_whose_agent_is_cut_off_is_interrupted(devices: Devices, stage: Stage, agent: str) -> None:
    device, held = await working(devices, stage, agent)
    await device.close()
    run = await eventually(lambda: run if (run := run_of(stage, held))["state"] == "failed" else None, "the end")
    assert run["state_reason"] == "interrupted"


async def test_an_agent_that_comes_back_goes_on(devices: Devices, stage: Stage, agent: str) -> None:
    device, held = await working(devices, stage, agent)
    await device.close()
    (row,) = await eventually(
        lambda: stage.sql(
            "SELECT session_closed_at FROM livebox.runs WHERE id = %s AND session_closed_at > queued_at", held.id
        ),
        "the closed session",
    )
    back = await devices.enter(agent)
    assert (await back.ask("heartbeat", run_id=held.id, invocation=held.token))["type"] == "result"
    later = f"SELECT 1 FROM livebox.runs WHERE id = %s AND livebox.clock() > %s + interval '{3 * GRACE} s'"
    await eventually(lambda: stage.sql(later, held.id, row[0]), "long after the grace")
    assert run_of(stage, held)["state"] == "running"
    assert stage.sql("SELECT session_closed_at FROM livebox.runs WHERE id = %s", held.id) == [(None,)]


async def test_after_an_acknowledged_revocation_nothing_comes(devices: Devices, stage: Stage) -> None:
    """Neither an event nor a patch; others go on as before, and what is hidden answers like what is absent."""
    handle = stage.principal()
    channel = stage.world.channels["Support/Escalation"]
    held = stage.running()
    thread = str(held.run["thread_id"])
    for _ in range(3):
        grant = stage.grant(handle, "read", channel_id=channel)
        device, alex = await devices.enter(handle), await devices.enter("alex")
        for one in (device, alex):
            assert (await one.ask("focus", thread_ids=[thread]))["thread_ids"] == [thread]
            await one.first("run.document")
        stage.as_(OWNER).call("revokeAccess", grant_id=grant["id"]).ok()
        stage.step(held)
        stage.message(thread, by="alex")
        await alex.until(lambda alex=alex: len([e for e in alex.events() if e["type"] == "message.created"]) == 1, "it")
        version = run_of(stage, held)["version"]
        await alex.until(lambda alex=alex, version=version: alex.documents[held.id]["version"] == version, "the patch")
        await device.settled()
        assert [event["type"] for event in device.events()][-1:] == ["access.changed"]
        assert device.of("run.updated") == []
        hidden = await device.ask("focus", thread_ids=[thread], run_ids=[held.id])
        absent = await device.ask("focus", thread_ids=["01933b7e-0000-7000-8000-00000000dead"])
        assert {**hidden, "reply_to": ""} == {**absent, "reply_to": ""}
        await device.close()
        await alex.close()
