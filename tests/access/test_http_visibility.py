"""What each person of the test world sees: in lists, the snapshot and the log; that a right which ends, ends at once;
and that nothing is left of a thread that was deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Wire, fresh

pytestmark = pytest.mark.long

# channel -> who wrote there, and the agent that works there
WORK: Mapping[str, tuple[str, str]] = {
    "Support/General": ("alex", "lotse"),
    "Support/Escalation": ("alex", "lotse"),
    "Marketing/General": (OWNER, "texter"),
    "Research/General": (OWNER, "assistent"),
}
SEEN: Mapping[str, set[str]] = {
    "alex": {"Support/General", "Support/Escalation", "alex+sam"},
    "sam": {"Support/General", "Marketing/General", "alex+sam"},
    "robin": {"Support/Escalation"},
    OWNER: {"Support/General", "Support/Escalation", "Marketing/General", "Research/General", "Engineering/General"},
}
PEOPLE = pytest.mark.parametrize("who", SEEN)


class Scene(NamedTuple):
    """By channel: its active run, its thread, and the messages in it."""

    runs: dict[str, dict[str, Any]]
    threads: dict[str, str]
    messages: dict[str, str]
    start: int
    """The seq before all of it."""


@pytest.fixture(scope="module")
def scene(stage: Stage) -> Scene:
    """A run and a message in every channel, and a message among direct messages."""
    scene = Scene({}, {}, {}, stage.sql("SELECT max(seq) FROM livebox.events")[0][0])
    for place, (person, agent) in WORK.items():
        held = stage.running(person, agent, place)
        scene.runs[place] = held.run
        scene.threads[place] = held.run["thread_id"]
        scene.messages[place] = stage.message(held.run["thread_id"], OWNER)["id"]
    for place, person in (("alex+sam", "alex"), ("Engineering/General", OWNER)):
        scene.threads[place] = stage.thread(place, person)
        scene.messages[place] = stage.message(scene.threads[place], person)["id"]
    return scene


def everything(wire: Wire, after: int) -> list[dict[str, Any]]:
    """The log from there on."""
    found: list[dict[str, Any]] = []
    while True:
        page = wire.call("listEvents", query={"after": after, "limit": 200}).ok()
        found += page["items"]
        after = page["next_after"]
        if not page["has_more"]:
            return found


@PEOPLE
def test_running_now(stage: Stage, scene: Scene, who: str) -> None:
    found = {run["id"] for run in stage.as_(who).call("listActiveRuns", query={"limit": 200}).ok()["items"]}
    wanted = {scene.runs[place]["id"] for place in WORK if place in SEEN[who]}
    assert found & {run["id"] for run in scene.runs.values()} == wanted


def test_a_page_is_filled_across_what_is_hidden(stage: Stage, scene: Scene) -> None:
    """Between Sam's runs lie many that are none of Sam's: no page is short, and no cursor ends in the middle."""
    channel_id = stage.channel(operator_agent_id=stage.id("texter"))["id"]
    stage.grant("sam", "read", channel_id=channel_id)
    for _ in range(4):
        stage.queued(OWNER, "texter", channel_id)
        for _ in range(3):
            stage.queued()
    query: dict[str, Any] = {"agent_id": stage.id("texter"), "limit": 2}
    sizes = []
    while True:
        page = stage.as_("sam").call("listActiveRuns", query=query).ok()
        sizes.append(len(page["items"]))
        if "next_cursor" not in page:
            break
        query["cursor"] = page["next_cursor"]
    assert sizes[:-1] == [2] * (len(sizes) - 1)
    assert sum(sizes) >= 4


@PEOPLE
def test_runs_and_messages_of_a_thread(stage: Stage, scene: Scene, who: str) -> None:
    wire = stage.as_(who)
    for place, thread_id in scene.threads.items():
        status = 200 if place in SEEN[who] else 404
        assert wire.call("listThreadRuns", thread_id=thread_id).status == status, place
        assert wire.call("listThreadMessages", thread_id=thread_id).status == status, place
        assert wire.call("getThread", thread_id=thread_id).status == status, place
        assert wire.call("getMessage", message_id=scene.messages[place]).status == status, place
        if place in scene.runs:
            run_id = scene.runs[place]["id"]
            assert wire.call("getRun", run_id=run_id).status == status, place
            assert wire.call("listRunSteps", run_id=run_id).status == status, place


@PEOPLE
def test_lists_and_the_snapshot(stage: Stage, scene: Scene, who: str) -> None:
    wire = stage.as_(who)
    visible = {stage.world.channels[place] for place in SEEN[who]}
    hidden = set(stage.world.channels.values()) - visible
    snapshot = wire.call("getSnapshot").ok()
    channels = {item["id"] for item in wire.call("listChannels", query={"limit": 200}).ok()["items"]}
    assert channels == {item["id"] for item in snapshot["channels"]}
    assert channels >= visible
    assert not channels & hidden
    threads = wire.call("listThreads", query={"limit": 200}).ok()["items"]
    for item in [*threads, *snapshot["threads"], *snapshot["messages"], *snapshot["active_runs"]]:
        assert item["channel_id"] in channels, item
    assert {scene.threads[place] for place in SEEN[who]} <= {item["id"] for item in threads}
    assert {scene.messages[place] for place in SEEN[who]} <= {item["id"] for item in snapshot["messages"]}
    runs = {run["id"] for run in snapshot["active_runs"]}
    assert runs >= {scene.runs[place]["id"] for place in WORK if place in SEEN[who]}
    spaces = {item["id"] for item in wire.call("listSpaces", query={"limit": 200}).ok()["items"]}
    named = {stage.world.spaces[place.split("/")[0]] for place in SEEN[who] if "/" in place}
    assert spaces & set(stage.world.spaces.values()) == named


@PEOPLE
def test_the_log(stage: Stage, scene: Scene, who: str) -> None:
    events = everything(stage.as_(who), scene.start)
    visible = {stage.world.channels[place] for place in SEEN[who]}
    hidden = {scene.threads[place] for place in scene.threads if place not in SEEN[who]}
    hidden |= {scene.messages[place] for place in scene.messages if place not in SEEN[who]}
    hidden |= {scene.runs[place]["id"] for place in scene.runs if place not in SEEN[who]}
    hidden |= {stage.world.channels[place] for place in stage.world.channels if place not in SEEN[who]}
    told = {event["resource"]["id"] for event in events}
    assert told >= {scene.messages[place] for place in SEEN[who]}
    states = [event for event in events if event["type"] == "run.state_changed"]
    for place in WORK:
        run_id = scene.runs[place]["id"]
        found = [event["payload"]["run"]["state"] for event in states if event["resource"]["id"] == run_id]
        assert found == (["queued", "running"] if place in SEEN[who] else []), place
    text = repr(events)
    assert not [id_ for id_ in hidden if id_ in text]
    assert {event["scope"]["channel_id"] for event in events if event["resource"]["kind"] == "message"} >= visible


def test_agents_hear_of_their_work_nowhere_but_from_claims(stage: Stage) -> None:
    start = stage.sql("SELECT max(seq) FROM livebox.events")[0][0]
    held = stage.running()
    stage.message(held.run["thread_id"], "alex", "And today?")
    stage.as_("alex").call("cancelRun", run_id=held.id).ok()
    for who in ("lotse", "alex", OWNER):
        events = everything(stage.as_(who), start)
        assert not {event["type"] for event in events} & {"run.cancel_requested", "run.followup", "agent.invocation"}
        assert held.token not in repr(events)
        assert "jti" not in repr(events)


# Rights that end


@pytest.mark.parametrize("how", ["revoked", "replaced", "left", "moved", "disabled"])
def test_a_right_that_ends_ends_at_once(stage: Stage, how: str) -> None:
    who, agent = stage.principal(), "lotse"
    channel_id = stage.channel(stage.world.spaces["Support"], operator_agent_id=stage.id(agent))["id"]
    group = stage.group(who)
    if how == "left":
        body = {"group_id": group["id"], "channel_id": channel_id, "level": "trigger"}
        grant = stage.as_(OWNER).call("grantAccess", body).ok()
    else:
        grant = stage.grant(who, "trigger", channel_id=channel_id)
    run = stage.queued(who, agent, channel_id)
    message_id = run["triggering_message_id"]
    wire, owner = stage.as_(who), stage.as_(OWNER)
    seen = {
        "run_id": ("getRun", run["id"]),
        "thread_id": ("listThreadMessages", run["thread_id"]),
        "message_id": ("getMessage", message_id),
    }
    for name, (operation, id_) in seen.items():
        wire.call(operation, **{name: id_}).ok()
    cursor = wire.call("listThreadMessages", query={"limit": 1}, thread_id=run["thread_id"]).ok()["next_cursor"]
    last = wire.call("getSnapshot").ok()["seq"]

    if how in ("revoked",):
        owner.call("revokeAccess", grant_id=grant["id"]).ok()
    elif how == "replaced":
        stage.grant(who, "read", channel_id=channel_id)
    elif how == "left":
        owner.call("removeGroupMember", group_id=group["id"], principal_id=stage.id(who)).ok()
    elif how == "moved":
        target = {"channel_id": stage.world.channels["Engineering/General"]}
        owner.call("moveThread", target, thread_id=run["thread_id"]).ok()
    else:
        owner.call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(who)).ok()

    writes = {"body": "Still here", "client_msg_id": fresh()}
    said = wire.call("createMessage", writes, thread_id=run["thread_id"])
    if how == "replaced":
        said.refused(403, "forbidden")
        wire.call("getRun", run_id=run["id"]).ok()
        return
    gone = (401, "invalid_token") if how == "disabled" else (404, "not_found")
    said.refused(*gone)
    for name, (operation, id_) in seen.items():
        wire.call(operation, **{name: id_}).refused(*gone)
    wire.call("cancelRun", run_id=run["id"]).refused(*gone)
    wire.call("listThreadMessages", query={"cursor": cursor}, thread_id=run["thread_id"]).refused(*gone)
    if how != "disabled":
        owner.call("createMessage", {**writes, "client_msg_id": fresh()}, thread_id=run["thread_id"]).ok()
        snapshot = wire.call("getSnapshot").ok()
        told = repr([snapshot["threads"], snapshot["messages"], snapshot["active_runs"]])
        told += repr([event for event in everything(wire, last) if event["type"] != "thread.moved"])
        assert not [id_ for _, id_ in seen.values() if id_ in told]
        assert (how == "moved") == (channel_id in repr(snapshot["channels"]))


def test_a_thread_that_moves_out_of_sight_leaves_its_id_alone(stage: Stage) -> None:
    run = stage.running().run
    wire = stage.as_("robin")
    last = wire.call("getSnapshot").ok()["seq"]
    target = {"channel_id": stage.world.channels["Engineering/General"]}
    stage.as_(OWNER).call("moveThread", target, thread_id=run["thread_id"]).ok()
    stage.message(run["thread_id"], OWNER)
    (event,) = everything(wire, last)
    assert event["type"] == "thread.moved"
    assert event["payload"] == {"thread_id": run["thread_id"]}
    assert event["scope"] == {"thread_id": run["thread_id"]}
    assert "actor_id" not in event
    (moved,) = [event for event in everything(stage.as_(OWNER), last) if event["type"] == "thread.moved"]
    assert moved["payload"]["thread"]["channel_id"] == target["channel_id"]


# Threads that are deleted


def test_nothing_is_left_of_a_deleted_thread(stage: Stage) -> None:
    active, ended = stage.running(), stage.finished()
    for held in (active, ended):
        _vanishes(stage, held)


def _vanishes(stage: Stage, held: Held) -> None:
    thread_id = held.run["thread_id"]
    step = stage.as_("alex").call("listRunSteps", run_id=held.id).ok()["items"]
    message = stage.message(thread_id, "alex", "And today?")
    start = stage.sql("SELECT max(seq) FROM livebox.events WHERE thread_id = %s", thread_id)[0][0] - 1
    stage.as_(OWNER).call("deleteThread", thread_id=thread_id).ok()
    for who in ("alex", "robin", "lotse", OWNER):
        wire = stage.as_(who)
        wire.call("getThread", thread_id=thread_id).refused(404, "not_found")
        wire.call("listThreadMessages", thread_id=thread_id).refused(404, "not_found")
        wire.call("listThreadRuns", thread_id=thread_id).refused(404, "not_found")
        wire.call("getRun", run_id=held.id).refused(404, "not_found")
        wire.call("listRunSteps", run_id=held.id).refused(404, "not_found")
        wire.call("cancelRun", run_id=held.id).refused(404, "not_found")
        wire.call("getMessage", message_id=message["id"]).refused(404, "not_found")
        wire.call("deleteMessage", message_id=message["id"]).refused(404, "not_found")
        snapshot = wire.call("getSnapshot").ok()
        assert thread_id not in repr([snapshot["threads"], snapshot["messages"], snapshot["active_runs"]])
        assert thread_id not in repr(wire.call("listThreads", query={"limit": 200}).ok())
        if who != "lotse":
            assert held.id not in repr(wire.call("listActiveRuns", query={"limit": 200}).ok())
        told = [event["type"] for event in everything(wire, start) if event["scope"].get("thread_id") == thread_id]
        assert told == ["thread.deleted"], who
    lotse = stage.as_("lotse")
    where = {"run_id": held.id, "headers": held.headers}
    # Who was at work when the thread went is told that it is over, and no more; else there is nothing any more.
    over = (409, "run_ended") if held.run["state"] == "running" else (404, "not_found")
    finished = lotse.call("finishRun", {"state": "completed"}, **where).refused(*over)
    assert "current" not in finished.body
    lotse.call("recordRunStep", {"kind": "tool", "name": "x"}, step_id=fresh(), **where).refused(*over)
    if step:
        body = {"status": "failed"}
        lotse.call("updateRunStep", body, step_id=step[0]["id"], **where).refused(*over)
    claimed = lotse.call("claimInvocations", {"claim_id": fresh(), "limit": 100}).ok()["items"]
    assert held.id not in repr(claimed)
