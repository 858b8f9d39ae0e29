"""What a device sees of runs: first the document, then everything, and nothing of what it may not see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import fresh
from tests.gateway.device import Device, Devices, by_run

HEADLINE = "/headline"


async def patch(agent: Device, held: Held, version: int, text: str) -> int:
    """The version that a new headline makes."""
    op = {"op": "add", "path": HEADLINE, "value": text}
    answer = await agent.ask("run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[op])
    assert answer["type"] == "result", answer
    return int(answer["version"])


def served(stage: Stage, run_id: str) -> dict[str, Any]:
    """The run as getRun shows it, without what is outside its version."""
    return still(stage.as_(OWNER).call("getRun", run_id=run_id).ok())


def still(run: dict[str, Any]) -> dict[str, Any]:
    """A run without the times that move by themselves."""
    outside = ("claimed_at", "last_heartbeat_at", "last_progress_at", "document_as_of")
    return {name: value for name, value in run.items() if name not in outside}


async def shows(device: Device, stage: Stage, run_id: str) -> None:
    """Waits until the device has the version that is served, and compares."""
    wanted = served(stage, run_id)
    await device.until(lambda: device.documents[run_id]["version"] >= wanted["version"], "the newest version")
    assert still(device.documents[run_id]) == wanted
    assert not device.gaps


async def test_the_document_comes_first_then_each_raise_in_order(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    alex, lotse = await devices.enter("alex"), await devices.enter("lotse", capabilities={"invocations": 0})
    version = await patch(lotse, held, held.run["version"], "one")
    await alex.ask("focus", run_ids=[held.id])
    for text in ("two", "three", "four"):
        version = await patch(lotse, held, version, text)
    stage.step(held)
    await shows(alex, stage, held.id)
    frames = by_run(alex.frames)[held.id]
    assert frames[0]["type"] == "run.document"
    assert frames[0]["run"]["headline"] == "one"
    assert all(frame["type"] == "run.updated" for frame in frames[1:])
    versions = [frames[0]["run"]["version"]] + [frame["version"] for frame in frames[1:]]
    assert [frame["base_version"] for frame in frames[1:]] == versions[:-1]


async def test_every_kind_of_raise_is_shown(devices: Devices, stage: Stage) -> None:
    held = stage.claimed()
    alex = await devices.enter("alex")
    await alex.ask("focus", thread_ids=[held.run["thread_id"]])
    agent = stage.as_("lotse")
    agent.call("startRun", {}, headers=held.headers, run_id=held.id).ok()
    await shows(alex, stage, held.id)
    stage.step(held)
    await shows(alex, stage, held.id)
    agent.call("awaitRunInput", {"prompt": "Which week?"}, headers=held.headers, run_id=held.id).ok()
    await shows(alex, stage, held.id)
    stage.followup(held)
    await shows(alex, stage, held.id)
    agent.call("resumeRun", {}, headers=held.headers, run_id=held.id).ok()
    await shows(alex, stage, held.id)
    stage.as_("alex").call("cancelRun", {}, run_id=held.id).ok()
    await shows(alex, stage, held.id)
    agent.call("finishRun", {"state": "completed"}, headers=held.headers, run_id=held.id)
    await shows(alex, stage, held.id)
    assert alex.documents[held.id]["state"] in ("completed", "cancelled")


async def test_a_new_run_of_a_focused_thread_is_shown(devices: Devices, stage: Stage) -> None:
    thread_id = stage.thread()
    alex = await devices.enter("alex")
    assert (await alex.ask("focus", thread_ids=[thread_id]))["run_ids"] == []
    assert not alex.of("run.document")
    stage.message(thread_id, "alex", "Which files changed?", ["lotse"])
    run = (await alex.first("run.document"))["run"]
    assert (run["thread_id"], run["state"]) == (thread_id, "queued")
    stage.as_("alex").call("cancelRun", {}, run_id=run["id"]).ok()
    await shows(alex, stage, run["id"])
    since = len(alex.frames)
    stage.message(thread_id, "alex", "And now?", ["lotse"])
    assert (await alex.first("run.document", since))["run"]["id"] != run["id"]


async def test_focus_replaces_what_was_looked_at(devices: Devices, stage: Stage) -> None:
    one, two = stage.running(), stage.running()
    alex, lotse = await devices.enter("alex"), await devices.enter("lotse", capabilities={"invocations": 0})
    await alex.ask("focus", run_ids=[one.id])
    await alex.ask("focus", run_ids=[two.id])
    since = len(alex.frames)
    await patch(lotse, one, one.run["version"], "unseen")
    version = await patch(lotse, two, two.run["version"], "seen")
    await alex.until(lambda: alex.documents[two.id]["version"] == version)
    await alex.ask("focus")
    await patch(lotse, two, version, "unseen")
    await alex.settled()
    assert {*by_run(alex.frames[since:])} == {two.id}
    assert stage.live.app.hub.focus.watchers(one.id) == ()


async def test_hidden_and_absent_answer_alike_and_show_nothing(devices: Devices, stage: Stage) -> None:
    hidden = stage.running(place="Support/Escalation")
    sam = await devices.enter("sam")
    absent = "01933b7e-0000-7000-8000-00000000dead"
    answers = []
    for thread_id, run_id in ((hidden.run["thread_id"], hidden.id), (absent, absent)):
        answer = await sam.ask("focus", thread_ids=[thread_id], run_ids=[run_id])
        answers.append({name: value for name, value in answer.items() if name != "reply_to"})
    assert answers[0] == answers[1] == {"type": "result", "thread_ids": [], "run_ids": []}
    lotse = await devices.enter("lotse", capabilities={"invocations": 0})
    await patch(lotse, hidden, hidden.run["version"], "secret")
    stage.step(hidden)
    await sam.settled()
    assert not by_run(sam.frames)
    assert hidden.id not in str(sam.frames)


async def test_who_does_not_focus_gets_no_live_frame(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    alex, lotse = await devices.enter("alex"), await devices.enter("lotse", capabilities={"invocations": 0})
    await patch(lotse, held, held.run["version"], "unseen")
    await alex.settled()
    assert not by_run(alex.frames)


async def test_more_than_the_limit_is_refused(devices: Devices, stage: Stage) -> None:
    alex = await devices.enter("alex")
    held = stage.running()
    await alex.ask("focus", run_ids=[held.id])
    ids = [fresh() for _ in range(stage.live.settings.integer("gateway.focus_max") + 1)]
    problem = await alex.refused("focus", run_ids=ids)
    assert [(error["code"], error["pointer"]) for error in problem["errors"]] == [("too_many", "/run_ids")]
    problem = await alex.refused("focus", thread_ids=[held.run["thread_id"]] * 2)
    assert problem["errors"][0]["code"] == "duplicate_item"
    stage.step(held)
    await shows(alex, stage, held.id)


LOSSES = ("channel grant", "group", "moved", "deleted")


@pytest.mark.parametrize("loss", LOSSES)
async def test_after_a_revocation_is_answered_nothing_comes(devices: Devices, stage: Stage, loss: str) -> None:
    """While the agent goes on patching: what the loser gets ends before the revocation is acknowledged."""
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    owner = stage.as_(OWNER)
    channel = stage.channel(operator_agent_id=stage.id("lotse"))
    other = stage.channel(operator_agent_id=stage.id("lotse"))
    stage.grant("alex", "trigger", channel_id=channel["id"])
    stage.grant("alex", "trigger", channel_id=other["id"])
    group: dict[str, Any] = {}
    grant: dict[str, Any] = {}
    if loss == "group":
        group = stage.group(who)
        owner.call("grantAccess", {"group_id": group["id"], "level": "read", "channel_id": channel["id"]}).ok()
    else:
        grant = stage.grant(who, "read", channel_id=channel["id"])
    held = stage.running(place=channel["id"])
    thread_id = held.run["thread_id"]
    loser, alex = await devices.enter(who), await devices.enter("alex")
    lotse = await devices.enter("lotse", capabilities={"invocations": 0})
    for device in (loser, alex):
        await device.ask("focus", thread_ids=[thread_id], run_ids=[held.id])
        assert held.id in device.documents
    version = held.run["version"]
    stop = asyncio.Event()

    async def work() -> int:
        at = version
        while not stop.is_set():
            op = {"op": "add", "path": HEADLINE, "value": f"at {at}"}
            answer = await lotse.ask("run.update", run_id=held.id, invocation=held.token, base_version=at, ops=[op])
            if answer["type"] == "error":
                at = answer["problem"].get("current", {}).get("version", at)
                if answer["problem"]["code"] in ("run_ended", "not_found", "forbidden"):
                    break
            else:
                at = answer["version"]
        return at

    working = asyncio.ensure_future(work())
    await loser.until(lambda: len(loser.of("run.updated")) > 5)

    def revoke() -> None:
        if loss == "channel grant":
            owner.call("revokeAccess", grant_id=grant["id"]).ok()
        elif loss == "group":
            owner.call("removeGroupMember", group_id=group["id"], principal_id=stage.id(who)).ok()
        elif loss == "moved":
            owner.call("moveThread", {"channel_id": other["id"]}, thread_id=thread_id).ok()
        else:
            owner.call("deleteThread", thread_id=thread_id).ok()

    await asyncio.to_thread(revoke)
    await loser.settled()
    since, seen = len(loser.frames), len(alex.of("run.updated"))
    if loss != "deleted":
        await alex.until(lambda: len(alex.of("run.updated")) > seen + 5)
    stop.set()
    await working
    if loss != "deleted":
        stage.message(thread_id, OWNER)
    await loser.settled()
    later = loser.frames[since:]
    assert not by_run(later)
    assert not [frame for frame in later if frame["type"] == "event" and thread_id in str(frame)]
    answer = await loser.ask("focus", thread_ids=[thread_id], run_ids=[held.id])
    assert (answer["thread_ids"], answer["run_ids"]) == ([], [])
    if loss != "deleted":
        await shows(alex, stage, held.id)


async def test_a_right_given_back_shows_the_run_again(devices: Devices, stage: Stage) -> None:
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    place = stage.world.channels["Support/Escalation"]
    grant = stage.grant(who, "read", channel_id=place)
    held = stage.running()
    device = await devices.enter(who)
    await device.ask("focus", run_ids=[held.id])
    stage.as_(OWNER).call("revokeAccess", grant_id=grant["id"]).ok()
    stage.step(held)
    stage.grant(who, "read", channel_id=place)
    await device.ask("focus", run_ids=[held.id])
    stage.step(held)
    await shows(device, stage, held.id)


async def test_an_ended_run_can_be_looked_at(devices: Devices, stage: Stage) -> None:
    held = stage.finished()
    alex = await devices.enter("alex")
    answer = await alex.ask("focus", run_ids=[held.id])
    assert answer["run_ids"] == [held.id]
    await shows(alex, stage, held.id)


async def test_focus_is_refused_to_nobody(devices: Devices, stage: Stage) -> None:
    """A session whose principal is disabled while the question is under way is over, not answered."""
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    device = await devices.enter(who)
    stage.sql("UPDATE livebox.principals SET status = 'disabled', version = version + 1 WHERE handle = %s", who)
    await device.say("focus", id="1", run_ids=[fresh()])
    assert await device.closed() == 4501


@pytest.mark.parametrize("how", ["grant", "moved"])
async def test_a_thread_that_is_lost_shows_no_new_run(devices: Devices, stage: Stage, how: str) -> None:
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    grant = stage.grant(who, "read", channel_id=stage.world.channels["Support/Escalation"])
    thread_id = stage.thread()
    loser, alex = await devices.enter(who), await devices.enter("alex")
    for device in (loser, alex):
        await device.ask("focus", thread_ids=[thread_id])
    owner = stage.as_(OWNER)
    if how == "grant":
        owner.call("revokeAccess", grant_id=grant["id"]).ok()
    else:
        owner.call("moveThread", {"channel_id": stage.world.channels["Support/General"]}, thread_id=thread_id).ok()
    stage.message(thread_id, "alex", "Which files changed?", ["lotse"])
    await alex.first("run.document")
    await loser.settled()
    assert not by_run(loser.frames)
