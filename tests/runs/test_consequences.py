"""Somebody is disabled, a right is taken, a channel is set read-only, a thread goes: what that ends, and what not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from db import SYSTEM, Answer
from tests.runs import changes
from tests.runs.changes import CHANGES, UNDOINGS, follow, must, pending
from tests.runs.stage import LIMITS, Stage, Work

Scene = Callable[[Stage], Awaitable[tuple[dict[str, Any], str, Work | None]]]


# --- a run in each active state ---------------------------------------------------------------------------------------


async def queued(stage: Stage) -> tuple[dict[str, Any], str, Work | None]:
    message = await stage.queued()
    (run,) = stage.sql("SELECT id FROM livebox.runs")
    return message, run["id"], None


async def claimed(stage: Stage) -> tuple[dict[str, Any], str, Work | None]:
    message, run, _ = await queued(stage)
    (work,) = await stage.claim("lotse")
    return message, run, work


async def running(stage: Stage) -> tuple[dict[str, Any], str, Work | None]:
    message, work = await stage.working()
    await stage.step(work)
    return message, work.run_id, work


async def asked_to_stop(stage: Stage) -> tuple[dict[str, Any], str, Work | None]:
    message, work = await stage.working()
    await stage.step(work)
    assert (await stage.cancel("owner", work.run_id)).code == "accepted"
    return message, work.run_id, work


async def waiting(stage: Stage) -> tuple[dict[str, Any], str, Work | None]:
    message, work = await stage.waiting()
    return message, work.run_id, work


SCENES: Final[dict[str, Scene]] = {
    "queued": queued,
    "claimed": claimed,
    "running": running,
    "asked to stop": asked_to_stop,
    "waiting": waiting,
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(
    "change", sorted(CHANGES.keys() - {"thread deleted"})
)  # that one ends its run by itself: test_thread_end
async def test_each_change_ends_a_run_in_each_state(stage: Stage, change: str, scene: str) -> None:
    message, run, work = await SCENES[scene](stage)
    make, reason = CHANGES[change]
    before = stage.row(run)
    await make(stage, run_thread(stage, run))
    assert stage.row(run) == before
    assert reason in pending(stage)

    stage.mark()
    await follow(stage)
    row = stage.row(run)
    assert (row["state"], row["state_reason"], row["state_changed_by"]) == ("cancelled", reason, None)
    assert row["version"] == before["version"] + 1
    assert (row["duration_ms"] is None) == (before["started_at"] is None)
    assert (row["question"], row["stalled_since"]) == (None, None)
    outcome = "lost_to_cancelled" if scene == "asked to stop" else None
    assert row["cancel_outcome"] == outcome
    assert stage.sql("SELECT 1 FROM livebox.run_steps WHERE status = 'running'") == []

    told = stage.message(message["id"])
    assert (told["trigger_state"], told["trigger_state_reason"]) == ("cancelled", reason)
    assert stage.event_types() == ["run.state_changed cancelled", "message.updated cancelled"]
    assert {event["actor_id"] for event in stage.events()} == {None}
    assert stage.written() == {"events": 2}

    stage.mark()
    await follow(stage)
    assert stage.written() == {}
    if work is not None:
        await agent_is_told(stage, work, change)


async def agent_is_told(stage: Stage, work: Work, change: str) -> None:
    """The next thing that the agent tries is refused, and says that the run is over; where it may still read, more."""
    if change == "agent disabled":
        assert (await stage.beat(work)).code == "invalid_token"
        await changes.status(stage, "lotse", "active")
    image = stage.image(work.run_id)
    for answer in (await stage.beat(work), await stage.step(work), await stage.finish(work), await stage.start(work)):
        assert answer.code == "run_ended"
        if change in ("thread moved", "thread deleted"):
            assert answer.body is None
        else:
            current = answer.body["current"]
            assert (current["state"], "changed_by" in current) == ("cancelled", False)
    assert stage.image(work.run_id) == image


def run_thread(stage: Stage, run: str) -> str:
    return str(stage.row(run)["thread_id"])


# --- what does not end ------------------------------------------------------------------------------------------------


class Crowd:
    """Five runs: who asked, where, which agent."""

    RUNS: Final = {
        "alex general": ("alex", "Support/General", "lotse"),
        "owner general": ("owner", "Support/General", "lotse"),
        "alex escalation": ("alex", "Support/Escalation", "lotse"),
        "owner texter": ("owner", "Support/Escalation", "texter"),
        "alex texter": ("alex", "Support/Escalation", "texter"),
    }

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.threads: dict[str, str] = {}

    async def come(self) -> None:
        for name, (who, channel, agent) in self.RUNS.items():
            message = await self.stage.queued(who, channel, agent)
            self.threads[name] = message["thread_id"]

    def ended(self) -> dict[str, str]:
        """The runs that ended, with their reasons."""
        found = {name: self.stage.runs(thread)[0] for name, thread in self.threads.items()}
        return {name: run["state_reason"] for name, run in found.items() if run["finished_at"] is not None}

    @property
    def support(self) -> str:
        return self.stage.world.spaces["Support"]

    def channel(self, name: str) -> str:
        return self.stage.world.channels[name]


@pytest.fixture
async def crowd(stage: Stage) -> Crowd:
    crowd = Crowd(stage)
    await crowd.come()
    return crowd


ALEX: Final = ("alex general", "alex escalation", "alex texter")


async def test_a_disabled_person_ends_their_runs_only(crowd: Crowd) -> None:
    await changes.status(crowd.stage, "alex", "disabled")
    await follow(crowd.stage)
    assert crowd.ended() == dict.fromkeys(ALEX, "user_disabled")


async def test_a_disabled_agent_ends_its_runs_only(crowd: Crowd) -> None:
    await changes.status(crowd.stage, "texter", "disabled")
    await follow(crowd.stage)
    assert crowd.ended() == dict.fromkeys(("owner texter", "alex texter"), "agent_disabled")


@pytest.mark.parametrize("who", ["robin", "sam"])
async def test_somebody_else_ends_nothing(crowd: Crowd, who: str) -> None:
    await changes.status(crowd.stage, who, "disabled")
    await follow(crowd.stage)
    assert crowd.ended() == {}


async def test_read_only_ends_the_runs_of_its_channel(crowd: Crowd) -> None:
    await changes.read_only(crowd.stage, "Support/General", True)
    await follow(crowd.stage)
    assert crowd.ended() == dict.fromkeys(("alex general", "owner general"), "channel_read_only")


async def test_other_changes_of_a_channel_end_nothing(crowd: Crowd) -> None:
    body = {"name": "Ground floor", "allow_mentioned_agents": True, "auto_thread": False, "read_only": False}
    await must(crowd.stage, "update_channel", channel_id=crowd.channel("Support/General"), body=body)
    assert pending(crowd.stage) == []


async def test_a_deleted_thread_ends_its_run(crowd: Crowd) -> None:
    await must(crowd.stage, "delete_thread", thread_id=crowd.threads["owner general"])
    await follow(crowd.stage)
    assert crowd.ended() == {"owner general": "thread_deleted"}


async def test_a_grant_on_a_space_ends_what_it_alone_let_see(crowd: Crowd) -> None:
    stage = crowd.stage
    await changes.grant(stage, "read", principal_id=stage.id("alex"), channel_id=crowd.channel("Support/General"))
    await changes.revoke(stage, "alex", space_id=crowd.support)
    await follow(stage)
    assert crowd.ended() == dict.fromkeys(ALEX[1:], "access_revoked")
    await changes.revoke(stage, "alex", channel_id=crowd.channel("Support/General"))
    await follow(stage)
    assert crowd.ended() == dict.fromkeys(ALEX, "access_revoked")


async def test_one_of_two_grants_ends_nothing(crowd: Crowd) -> None:
    stage = crowd.stage
    await changes.grant(stage, "trigger", principal_id=stage.id("alex"), channel_id=crowd.channel("Support/General"))
    await changes.revoke(stage, "alex", channel_id=crowd.channel("Support/General"))
    await follow(stage)
    assert crowd.ended() == {}


async def test_an_owner_loses_nothing_with_a_grant(crowd: Crowd) -> None:
    stage = crowd.stage
    await changes.grant(stage, "read", principal_id=stage.id("owner"), space_id=crowd.support)
    await changes.revoke(stage, "owner", space_id=crowd.support)
    await follow(stage)
    assert crowd.ended() == {}


async def test_a_lower_level_still_reads(crowd: Crowd) -> None:
    """What is at work goes on; what is queued is told when it is handed over."""
    stage = crowd.stage
    (work,) = await stage.claim("lotse")
    await stage.start(work)
    await changes.grant(stage, "read", principal_id=stage.id("alex"), space_id=crowd.support)
    assert pending(stage) == []
    await stage.claim("lotse", limit=10)
    assert crowd.ended() == {"alex escalation": "no_trigger_right"}
    assert (await stage.finish(work)).code == "ok"


async def test_a_guest_that_may_not_come_again_finishes_what_it_has(crowd: Crowd) -> None:
    stage = crowd.stage
    work, _ = await stage.claim("texter", limit=2)
    await stage.start(work)
    await changes.revoke(stage, "texter", channel_id=crowd.channel("Support/Escalation"))
    await follow(stage)
    assert crowd.ended() == {}
    assert (await stage.finish(work)).code == "ok"


async def test_a_thread_that_moves_takes_its_run_along(crowd: Crowd) -> None:
    stage = crowd.stage
    for name in ("alex general", "owner general"):
        await changes.move(stage, crowd.threads[name], "Marketing/General")
    await follow(stage)
    assert crowd.ended() == {"alex general": "access_revoked"}
    kept = stage.runs(crowd.threads["owner general"])[0]["id"]
    gone = stage.runs(crowd.threads["alex general"])[0]["id"]
    for run in (kept, gone):  # who may see the runs has changed with the thread
        assert (await stage.run("sam", run)).code == "ok"
        assert (await stage.run("alex", run)).code == "not_found"


# --- groups -----------------------------------------------------------------------------------------------------------


async def kim_and_alex(stage: Stage) -> tuple[str, str]:
    """A run of somebody who reads by a group, and one of somebody who does not."""
    await changes.person_in_group(stage)
    messages = [await stage.queued(who) for who in ("kim", "alex")]
    runs = [stage.runs(message["thread_id"])[0]["id"] for message in messages]
    return runs[0], runs[1]


def end(stage: Stage, run: str) -> tuple[str, str | None]:
    row = stage.row(run)
    return row["state"], row["state_reason"]


async def test_leaving_a_group_ends_what_it_let_see(stage: Stage) -> None:
    kim, alex = await kim_and_alex(stage)
    await changes.membership(stage, "remove")
    await follow(stage)
    assert (end(stage, kim), end(stage, alex)) == (("cancelled", "access_revoked"), ("queued", None))


async def test_a_group_that_loses_its_grant_ends_the_runs_of_its_members(stage: Stage) -> None:
    kim, alex = await kim_and_alex(stage)
    await must(
        stage, "add_group_member", group_id=stage.world.groups["Helpers"], principal_id=stage.id("alex")
    )  # reads by a grant of his own as well
    (row,) = stage.sql("SELECT id FROM livebox.grants WHERE group_id = %s", stage.world.groups["Helpers"])
    await must(stage, "revoke_access", grant_id=row["id"])
    await follow(stage)
    assert (end(stage, kim), end(stage, alex)) == (("cancelled", "access_revoked"), ("queued", None))


async def test_coming_into_a_group_or_leaving_one_of_two_ends_nothing(stage: Stage) -> None:
    kim, _ = await kim_and_alex(stage)
    await changes.membership(stage, "add")
    assert pending(stage) == []
    await changes.grant(stage, "read", principal_id=stage.id("kim"), channel_id=stage.world.channels["Support/General"])
    await changes.membership(stage, "remove")
    await follow(stage)
    assert end(stage, kim) == ("queued", None)


async def test_leaving_a_group_one_is_not_in_is_no_change(stage: Stage) -> None:
    await changes.person_in_group(stage)
    await changes.membership(stage, "remove")
    await follow(stage)
    await changes.membership(stage, "remove")
    assert pending(stage) == []


# --- undone before its turn -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scene", ["queued", "running", "waiting"])
@pytest.mark.parametrize("change", UNDOINGS)
async def test_what_is_undone_in_time_ends_nothing(stage: Stage, change: str, scene: str) -> None:
    _, run, _ = await SCENES[scene](stage)
    thread = run_thread(stage, run)
    await CHANGES[change][0](stage, thread)
    await UNDOINGS[change](stage, thread)
    image = stage.image(run)
    stage.mark()
    assert pending(stage) != []
    await follow(stage)
    assert (stage.image(run), stage.written()) == (image, {})


async def test_disabled_enabled_and_disabled_again(stage: Stage) -> None:
    _, run, _ = await running(stage)
    for value in ("disabled", "active", "disabled"):
        await changes.status(stage, "alex", value)
    assert pending(stage) == ["user_disabled", "user_disabled"]
    stage.mark()
    await follow(stage)
    assert end(stage, run) == ("cancelled", "user_disabled")
    assert stage.event_types() == ["run.state_changed cancelled", "message.updated cancelled"]


async def test_what_is_set_already_is_no_change(stage: Stage) -> None:
    for make in (changes.disables_person, changes.sets_read_only):
        await make(stage, "")
        await make(stage, "")
    assert pending(stage) == ["user_disabled", "channel_read_only"]


# --- several causes, each for itself ----------------------------------------------------------------------------------


async def test_a_disabled_person_lost_no_right(stage: Stage) -> None:
    """A grant beside the one that lets them read goes first; then they are disabled. Only the second ends the run."""
    _, run, _ = await running(stage)
    channel_id = stage.world.channels["Support/General"]
    await changes.grant(stage, "read", principal_id=stage.id("alex"), channel_id=channel_id)
    await changes.revoke(stage, "alex", channel_id=channel_id)
    await changes.status(stage, "alex", "disabled")
    assert pending(stage) == ["access_revoked", "user_disabled"]
    await follow(stage)
    assert end(stage, run) == ("cancelled", "user_disabled")


@pytest.mark.parametrize("first", [changes.moves_to_read_only, changes.sets_read_only])
async def test_of_a_deleted_thread_nothing_else_is_told(stage: Stage, first: Any) -> None:
    _, run, _ = await running(stage)
    thread = run_thread(stage, run)
    await first(stage, thread)
    await changes.deletes(stage, thread)
    await follow(stage)
    assert end(stage, run) == ("cancelled", "thread_deleted")


async def test_the_first_of_two_true_causes_is_told(stage: Stage) -> None:
    _, run, _ = await running(stage)
    await changes.revokes(stage, "")
    await changes.status(stage, "lotse", "disabled")
    await follow(stage)
    assert end(stage, run) == ("cancelled", "access_revoked")


# --- follow-ups -------------------------------------------------------------------------------------------------------


async def followed(stage: Stage) -> tuple[Work, list[dict[str, Any]]]:
    """A run at work with a follow-up of its person, one of the owner, and another of its person."""
    message, work = await stage.working()
    return work, [await stage.say(who, message["thread_id"]) for who in ("alex", "owner", "alex")]


@pytest.mark.parametrize("change", ["person disabled", "grant revoked"])
async def test_who_may_no_longer_gets_it_back_and_the_next_goes_on(stage: Stage, change: str) -> None:
    work, (first, second, third) = await followed(stage)
    thread = run_thread(stage, work.run_id)
    make, reason = CHANGES[change]
    await make(stage, thread)
    stage.mark()
    await follow(stage)
    assert dict(stage.followups(work.run_id)) == {
        first["id"]: "returned", second["id"]: "promoted", third["id"]: "promoted"}  # fmt: skip
    row = stage.message(first["id"])
    assert (row["trigger_state"], row["trigger_state_reason"]) == ("failed", reason)
    assert stage.audit() == [("alex", "agent.invoke", reason)]
    ended, opened = stage.runs(thread)
    assert (ended["state_reason"], opened["state"], opened["triggered_by"]) == (reason, "queued", stage.id("owner"))
    assert stage.event_types() == [
        "run.state_changed cancelled", "message.updated cancelled", "message.updated failed", "message.created run",
        "run.state_changed queued"]  # fmt: skip

    # What was behind it went along, and is given back when the agent would take it.
    assert stage.followups(opened["id"]) == [(third["id"], "pending")]
    (work,) = await stage.claim("lotse")
    await stage.start(work)
    assert (await stage.ack(work, third["id"])).code == "followup_closed"
    row = stage.message(third["id"])
    assert (row["trigger_state"], row["trigger_state_reason"]) == ("failed", reason)


@pytest.mark.parametrize("change", ["agent disabled", "channel read-only", "thread deleted"])
async def test_where_nobody_may_all_get_it_back(stage: Stage, change: str) -> None:
    work, messages = await followed(stage)
    make, reason = CHANGES[change]
    await make(stage, run_thread(stage, work.run_id))
    await follow(stage)
    assert {state for _, state in stage.followups(work.run_id)} == {"returned"}
    assert {stage.message(message["id"])["trigger_state_reason"] for message in messages} == {reason}
    assert len(stage.runs(run_thread(stage, work.run_id))) == 1


async def test_a_follow_up_of_a_disabled_person_on_another_s_run(stage: Stage) -> None:
    """The run goes on; the follow-up is given back when the agent would take it."""
    message, work = await stage.working("owner")
    said = await stage.say("alex", message["thread_id"])
    await changes.status(stage, "alex", "disabled")
    await follow(stage)
    assert end(stage, work.run_id) == ("running", None)
    assert (await stage.ack(work, said["id"])).code == "followup_closed"
    assert stage.followups(work.run_id) == [(said["id"], "returned")]


async def test_a_deleted_follow_up_is_not_told_of(stage: Stage) -> None:
    work, (first, second, _) = await followed(stage)
    await must(stage, "delete_message", "owner", message_id=second["id"])
    await changes.status(stage, "alex", "disabled")
    await follow(stage)
    assert dict(stage.followups(work.run_id))[second["id"]] == "cancelled"
    assert dict(stage.followups(work.run_id))[first["id"]] == "returned"


# --- at once ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
async def test_rights_do_not_wait(stage: Stage, change: str) -> None:
    """Before the job has done anything: no new work, and what would be handed out ends with the reason."""
    message, run, _ = await queued(stage)
    make, reason = CHANGES[change]
    await make(stage, message["thread_id"])
    after = await stage.post("alex", message["thread_id"], "lotse")
    assert after.code in ("invalid_token", "not_found", "channel_read_only", "created")
    if after.code == "created":
        assert after.body["trigger_state"] == "failed"
    if change == "agent disabled":
        return
    assert await stage.claim("lotse") == []
    assert end(stage, run) == ("cancelled", reason)
    image = stage.image(run)
    await follow(stage)
    assert stage.image(run) == image


async def test_what_ended_first_keeps_its_end(stage: Stage) -> None:
    _, run, work = await running(stage)
    await changes.status(stage, "alex", "disabled")
    assert work is not None
    assert (await stage.finish(work)).code == "ok"
    await follow(stage)
    assert end(stage, run) == ("completed", None)


async def test_who_is_concerned_is_told(stage: Stage) -> None:
    """access.changed, personally; of a deleted thread nothing but its end is to be read."""
    _, run, _ = await running(stage)
    after = stage.sql("SELECT max(seq) AS seq FROM livebox.events")[0]["seq"]
    await changes.revokes(stage, "")
    await follow(stage)
    seen = (await stage.read("list_events", "alex", after=after)).body["items"]
    assert [(event["type"], event["payload"]["change"]) for event in seen] == [("access.changed", "grant")]

    message, work = await stage.working("owner")
    after = stage.sql("SELECT max(seq) AS seq FROM livebox.events")[0]["seq"]
    await changes.deletes(stage, message["thread_id"])
    await follow(stage)
    assert (await stage.run("owner", work.run_id)).code == "not_found"
    seen = (await stage.read("list_events", "owner", after=after)).body["items"]
    assert [event["type"] for event in seen] == ["thread.deleted"]
    assert run != work.run_id


async def test_an_agent_of_a_thread_that_is_gone_learns_no_more_than_the_end(stage: Stage) -> None:
    """Only of a run that ended with its thread; one that ended before is as gone as everything there."""
    _, work = await stage.working()
    body = {"state": "completed"}
    assert (await stage.control("finish_run", work, body)).code == "ok"
    await changes.deletes(stage, run_thread(stage, work.run_id))
    await follow(stage)
    assert (await stage.control("finish_run", work, body)).code == "not_found"
    assert (await stage.run("lotse", work.run_id)).code == "not_found"


# --- registered runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("who", "reason"), [("lotse", "agent_disabled"), ("alex", None)])
async def test_registered_runs_end_with_their_agent_and_nobody_else(stage: Stage, who: str, reason: str | None) -> None:
    stage.sql(
        "INSERT INTO livebox.runs (id, agent_id, state, state_changed_at, trigger_kind, billing_mode_expected, queued_at, "
        "started_at, registered_at, registered_by, agents) SELECT livebox.new_id(), %s, 'running', t, 'registration', "
        "'organization', t, t, t, %s, '{}' FROM (SELECT livebox.clock() AS t) AS now",
        stage.id("lotse"), stage.id("alex"),
    )  # fmt: skip
    await changes.status(stage, who, "disabled")
    await follow(stage)
    assert [row["state_reason"] for row in stage.sql("SELECT * FROM livebox.runs")] == [reason]


# --- who may ----------------------------------------------------------------------------------------------------------


async def test_nobody_asks_for_a_consequence(stage: Stage) -> None:
    await running(stage)
    await changes.status(stage, "alex", "disabled")
    (row,) = stage.sql("SELECT id FROM livebox.pending_consequences")
    args = {"consequence_id": row["id"], "chunk": 10, "most": 10}
    assert (await stage.write("apply_consequence", "owner", **args)).code == "forbidden"
    assert pending(stage) == ["user_disabled"]
    answer: Answer = await stage.db.lane.submit("apply_consequence", SYSTEM, {**args, "limits": LIMITS})
    assert (answer.code, pending(stage)) == ("no_content", [])
    assert [effect["reason"] for effect in answer.effects if effect["kind"] == "run.transition"] == ["user_disabled"]
