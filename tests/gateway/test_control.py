"""Frames about a run that an agent works on: the answers of REST, and a token that is shown once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Held, Stage
from tests.gateway.device import Device, Devices

ABSENT = "01933b7e-0000-7000-8000-00000000dead"
ADD = {"op": "add", "path": "/headline", "value": "Reading"}


async def agent(devices: Devices, handle: str = "lotse") -> Device:
    """A session that takes no work."""
    return await devices.enter(handle, capabilities={"invocations": 0})


def without_ids(problem: dict[str, Any]) -> dict[str, Any]:
    """A problem without what differs between requests."""
    return {name: value for name, value in problem.items() if name not in ("request_id", "instance")}


def patched(stage: Stage, held: Held, body: dict[str, Any]) -> dict[str, Any]:
    """The problem that patchRun gives."""
    answer = stage.as_("lotse").call("patchRun", body, headers=held.headers, run_id=held.id)
    assert answer.status >= 400
    return dict(answer.body)


async def test_a_token_is_shown_once_per_session_and_run(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    lotse, second = await agent(devices), await agent(devices)
    problem = await lotse.refused("run.update", run_id=held.id, base_version=held.run["version"], ops=[ADD])
    assert [(error["code"], error["pointer"]) for error in problem["errors"]] == [("required", "/invocation")]
    answer = await lotse.ask("heartbeat", run_id=held.id, invocation=held.token)
    assert answer["heartbeat"]["run_id"] == held.id
    answer = await lotse.ask("run.update", run_id=held.id, base_version=held.run["version"], ops=[ADD])
    assert answer["version"] > held.run["version"]
    assert (await second.refused("heartbeat", run_id=held.id))["code"] == "validation_failed"


async def test_the_token_of_a_run_that_goes_on_is_not_forgotten_for_those_that_came_after(
    devices: Devices, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livebox.gateway.control.RUNS_MAX", 2)
    held = stage.running()
    lotse = await agent(devices)
    await lotse.ask("heartbeat", run_id=held.id, invocation=held.token)
    for _ in range(3):
        over = stage.finished()
        assert (await lotse.refused("heartbeat", run_id=over.id, invocation=over.token))["code"] == "run_ended"
    assert (await lotse.ask("heartbeat", run_id=held.id))["type"] == "result"


async def test_a_patch_without_an_id_is_answered_only_when_it_is_refused(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    lotse = await agent(devices)
    version = held.run["version"]
    await lotse.say("run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[ADD])
    await lotse.settled()
    assert not lotse.of("result")
    await lotse.say("run.update", run_id=held.id, base_version=version, ops=[ADD])
    assert (await lotse.first("error"))["problem"]["code"] == "version_conflict"


# name -> the members that are wrong, given the run
WRONG: dict[str, dict[str, Any]] = {
    "old version": {"base_version": 1},
    "future version": {"base_version": 10**9},
    "forbidden path": {"ops": [{"op": "add", "path": "/state", "value": "completed"}]},
    "forbidden op": {"ops": [{"op": "move", "path": "/headline", "from": "/text"}]},
    "no such target": {"ops": [{"op": "remove", "path": "/headline"}]},
    "wrong type": {"ops": [{"op": "add", "path": "/headline", "value": 5}]},
    "null": {"ops": [{"op": "add", "path": "/headline", "value": None}]},
    "null inside": {"ops": [{"op": "add", "path": "/refs/a", "value": {"kind": "artifact", "reference": None}}]},
    "bad version": {"base_version": 0},
    "no ops": {"ops": []},
    "a stranger": {"ops": [{"op": "add", "path": "/headline", "value": "x", "loud": True}]},
    "path and version": {"base_version": 1, "ops": [{"op": "add", "path": "/state", "value": 1}]},
    "null and version": {"base_version": 1, "ops": [{"op": "add", "path": "/headline", "value": None}]},
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_refused_patch_reads_as_over_rest(devices: Devices, stage: Stage, what: str) -> None:
    held = stage.running()
    body = {"base_version": held.run["version"], "ops": [ADD], **WRONG[what]}
    lotse = await agent(devices)
    over_rest = patched(stage, held, body)
    problem = await lotse.refused("run.update", run_id=held.id, invocation=held.token, **body)
    assert without_ids(problem) == without_ids(over_rest)


@pytest.mark.parametrize("what", [*WRONG, "nothing wrong"])
@pytest.mark.parametrize("state", ["ended", "superseded", "a stranger's"])
async def test_token_and_end_are_told_first(devices: Devices, stage: Stage, what: str, state: str) -> None:
    held = stage.finished() if state == "ended" else stage.running()
    body = {"base_version": held.run["version"], "ops": [ADD], **WRONG.get(what, {})}
    token = held.token
    if state == "superseded":
        stage.sql(
            "UPDATE livebox.runs SET claim_id = livebox.new_id(), invocation_jti = livebox.new_id() WHERE id = %s",
            held.id,
        )
    elif state == "a stranger's":
        token = stage.running().token
    lotse = await agent(devices)
    over_rest = patched(stage, Held(held.run, token), body)
    problem = await lotse.refused("run.update", run_id=held.id, invocation=token, **body)
    wanted = {"ended": "run_ended", "superseded": "invocation_superseded", "a stranger's": "invalid_token"}[state]
    assert problem["code"] == over_rest["code"] == wanted
    assert without_ids(problem) == without_ids(over_rest)


async def test_beats_and_acks_are_answered_as_over_rest(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    lotse = await agent(devices)
    message_id = stage.followup(held)
    stage.as_("alex").call("cancelRun", {}, run_id=held.id).ok()
    beat = (await lotse.ask("heartbeat", run_id=held.id, invocation=held.token))["heartbeat"]
    rest = stage.as_("lotse").call("heartbeatRun", {}, headers=held.headers, run_id=held.id).ok()
    assert beat == rest
    assert beat["cancel_requested"]
    taken = await lotse.ask("ack", work="followup", run_id=held.id, message_id=message_id)
    assert taken["followup"]["followup"]["state"] == "delivered"
    seen = await lotse.ask("heartbeat", run_id=held.id, cancel_seen=True)
    assert "acknowledged_at" in seen["heartbeat"]["cancel"]
    assert (await lotse.refused("ack", work="followup", run_id=held.id))["errors"][0]["pointer"] == "/message_id"
    absent = await lotse.refused("ack", work="followup", run_id=held.id, message_id=ABSENT)
    assert absent["code"] == "not_found"


async def test_somebody_else_may_not_work_on_it(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    for handle in ("texter", "alex", "sam"):
        device = await agent(devices, handle)
        for kind, more in (("heartbeat", {}), ("run.update", {"base_version": held.run["version"], "ops": [ADD]})):
            problem = await device.refused(kind, run_id=held.id, invocation=held.token, **more)
            assert problem["code"] in ("forbidden", "not_found", "invalid_token"), (handle, kind, problem)


async def test_a_disabled_agent_patches_no_more(devices: Devices, stage: Stage) -> None:
    handle = stage.principal("agent")
    stage.live.tokens[handle] = stage.live.issue(handle)
    channel = stage.channel(operator_agent_id=stage.id(handle))
    stage.grant("alex", "trigger", channel_id=channel["id"])
    held = stage.running(agent=handle, place=channel["id"])
    device = await agent(devices, handle)
    alex = await devices.enter("alex")
    await alex.ask("focus", run_ids=[held.id])
    answer = await device.ask(
        "run.update", run_id=held.id, invocation=held.token, base_version=held.run["version"], ops=[ADD]
    )
    stage.as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(handle)).ok()
    late = {"op": "add", "path": "/headline", "value": "too late"}
    with suppress(ConnectionError):
        await device.say("run.update", id="late", run_id=held.id, base_version=answer["version"], ops=[late])
    assert await device.closed() == 4501
    await alex.settled()
    assert "too late" not in str(alex.frames)


async def test_the_agent_hears_whether_somebody_looks(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    lotse = await agent(devices)
    await lotse.ask("heartbeat", run_id=held.id, invocation=held.token)
    assert (await lotse.first("run.watched"))["watched"] is False
    alex, owner = await devices.enter("alex"), await devices.enter(OWNER)
    await alex.ask("focus", run_ids=[held.id])
    await lotse.until(lambda: [frame["watched"] for frame in lotse.of("run.watched")] == [False, True])
    await owner.ask("focus", run_ids=[held.id])
    await alex.ask("focus")
    await lotse.settled()
    assert len(lotse.of("run.watched")) == 2, "somebody still looks"
    await owner.close()
    await lotse.until(lambda: [frame["watched"] for frame in lotse.of("run.watched")] == [False, True, False])


async def test_nothing_live_is_shown_while_a_revocation_is_not_applied(devices: Devices, stage: Stage) -> None:
    """The feed cannot get to what was answered: everything live waits until it has, then comes whole."""
    held = stage.running()
    alex, lotse = await devices.enter("alex"), await agent(devices)
    await alex.ask("focus", run_ids=[held.id])
    feed = stage.live.app.feed
    before, hold = feed.before_event, asyncio.Event()

    async def stuck(event: Any) -> None:
        await hold.wait()
        assert before is not None
        await before(event)

    async def lag() -> bool:
        feed.before_event = stuck
        return True

    def on_server(what: Any) -> Any:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(what, stage.live.loop))

    await on_server(lag())
    stage.message()
    lane = stage.live.app.database.lane
    assert not await on_server(feed.reached(lane.log_seq, 0.05))
    version = held.run["version"]
    answer = await lotse.ask("run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[ADD])
    await alex.settled()
    assert alex.documents[held.id]["version"] == version, "nothing came"

    async def go_on() -> None:
        feed.before_event = before
        hold.set()

    await on_server(go_on())
    await alex.until(lambda: alex.documents[held.id]["version"] == answer["version"])
    assert alex.documents[held.id]["headline"] == "Reading"
    assert not alex.gaps
