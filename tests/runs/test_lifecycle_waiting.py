"""Waiting: a question, its answers, and going on, once, whatever is repeated and whoever is there."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from db import Database
from tests.runs.stage import Stage

CHOICES = {"this": "This week", "last": "Last week"}


async def test_question_and_answer(stage: Stage) -> None:
    message, work = await stage.working()
    stage.mark()
    outcome = await stage.ask(work, "Which week?", choices=CHOICES)
    run = outcome.body
    assert (outcome.code, run["state"], run["version"]) == ("ok", "waiting_input", 3)
    question = run["question"]
    assert (question["prompt"], question["choices"]) == ("Which week?", CHOICES)
    assert question["asked_at"] >= run["started_at"]
    assert "state_reason" not in run
    assert stage.event_types() == ["run.state_changed waiting_input"]
    assert stage.message(message["id"])["trigger_state"] == "working"
    (effect,) = outcome.effects
    assert (effect["from"], effect["to"]) == ("running", "waiting_input")

    answer = await stage.say("alex", message["thread_id"], body="this")
    assert answer["trigger_state"] == "received"
    assert (await stage.beat(work)).body["followups_pending"] == 1
    started = stage.row(work.run_id)["started_at"]
    stage.mark()
    resumed = (await stage.resume(work)).body
    assert (resumed["state"], "question" in resumed) == ("running", False)
    assert stage.row(work.run_id)["started_at"] == started
    assert stage.event_types() == ["run.state_changed running"]
    stage.mark()
    taken = (await stage.ack(work, answer["id"])).body
    assert (taken["followup"]["state"], taken["message"]["body"]) == ("delivered", "this")
    assert taken["message"]["trigger_state"] == "followup_delivered"
    assert stage.event_types() == ["message.updated followup_delivered"]
    await stage.finish(work)
    assert {stage.message(m["id"])["trigger_state"] for m in (message, answer)} == {"done"}


async def test_several_waits_in_one_run(stage: Stage) -> None:
    message, work = await stage.working()
    versions = []
    for number in range(3):
        assert (await stage.ask(work)).body["question"]["prompt"] == "Which week?"  # the same again is another wait
        answer = await stage.say("alex", message["thread_id"], body=str(number))
        assert (await stage.resume(work)).code == "ok"
        assert (await stage.ack(work, answer["id"])).code == "ok"
        versions.append(stage.row(work.run_id)["version"])
    assert versions == [6, 10, 14]  # asked, answered, resumed, taken
    assert (await stage.finish(work)).code == "ok"
    assert [run["state"] for run in stage.runs(message["thread_id"])] == ["completed"]


async def test_repeats_replay(stage: Stage) -> None:
    _, work = await stage.working()
    asked = await stage.ask(work)
    before = stage.image(work.run_id)
    again = await stage.ask(work)
    assert (again.code, again.body, again.effects) == ("ok", asked.body, [])
    assert (await stage.ask(work, "Another?")).code == "invalid_state_transition"
    assert stage.image(work.run_id) == before
    resumed = await stage.resume(work)
    before = stage.image(work.run_id)
    again = await stage.resume(work)
    assert (again.code, again.body, again.effects) == ("ok", resumed.body, [])
    assert stage.image(work.run_id) == before


async def test_late_repeats_of_an_earlier_question_change_nothing(stage: Stage) -> None:
    _, work = await stage.working()
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    assert (await stage.ask(work, question_id=first)).body["question"]["question_id"] == first
    assert (await stage.resume(work, first)).code == "ok"
    before = stage.image(work.run_id)
    late = await stage.ask(work, question_id=first)  # while it works
    assert (late.code, late.body["state"], late.effects, stage.image(work.run_id)) == ("ok", "running", [], before)
    assert (await stage.ask(work, question_id=second)).body[
        "state"
    ] == "waiting_input"  # the same question, asked again
    before = stage.image(work.run_id)
    for late in (await stage.ask(work, question_id=first), await stage.resume(work, first)):  # while it waits
        assert (late.code, late.body["question"]["question_id"], late.effects) == ("ok", second, [])
    assert stage.image(work.run_id) == before
    assert (await stage.resume(work, second)).body["state"] == "running"
    assert (await stage.resume(work, first)).body["state"] == "running"
    await stage.cancel("alex", work.run_id)
    before = stage.image(work.run_id)
    assert (await stage.ask(work, question_id=second)).body["state"] == "running"  # it asks nothing now
    assert stage.image(work.run_id) == before
    await stage.finish(work)
    assert (await stage.ask(work, question_id=second)).code == "run_ended"


async def test_late_repeat_under_the_next_token_changes_nothing(stage: Stage) -> None:
    _, work = await stage.working()
    named = str(uuid.uuid4())
    await stage.ask(work, question_id=named)
    await stage.resume(work, named)
    renewed = await stage.renew(work)
    before = stage.image(work.run_id)
    assert (await stage.ask(renewed, question_id=named)).body["state"] == "running"
    assert stage.image(work.run_id) == before


async def test_name_of_a_question_is_used_once(stage: Stage) -> None:
    _, work = await stage.working()
    named = str(uuid.uuid4())
    await stage.ask(work, question_id=named)
    await stage.resume(work, named)
    before = stage.image(work.run_id)
    for refused in (await stage.ask(work, "Another?", question_id=named), await stage.resume(work, str(uuid.uuid4()))):
        assert (refused.code, refused.body["errors"][0]["pointer"]) == ("validation_failed", "/question_id")
    assert stage.image(work.run_id) == before
    _, other = await stage.working()
    assert (await stage.ask(other, question_id=named)).code == "ok"  # a name counts within its run


async def test_question_without_a_name_is_gone_on_from_without_one(stage: Stage) -> None:
    _, work = await stage.working()
    named = str(uuid.uuid4())
    await stage.ask(work, question_id=named)
    await stage.resume(work)
    await stage.ask(work)
    before = stage.image(work.run_id)
    assert (await stage.resume(work, named)).body["state"] == "waiting_input"
    assert stage.image(work.run_id) == before
    assert (await stage.resume(work)).body["state"] == "running"


async def test_question_of_long_ago_is_no_repeat(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.ask(work)
    await stage.resume(work)
    await stage.finish(work)
    assert (await stage.ask(work)).code == "run_ended"
    assert (await stage.resume(work)).code == "run_ended"


async def test_wait_that_others_ended_is_no_repeat(stage: Stage) -> None:
    _, work = await stage.waiting()
    await stage.cancel("alex", work.run_id)
    outcome = await stage.ask(work)
    assert outcome.code == "run_ended"
    assert outcome.body["current"]["changed_by"] == stage.id("alex")


async def test_start_is_no_resumption(stage: Stage) -> None:
    _, work = await stage.working()
    assert (await stage.resume(work)).code == "invalid_state_transition"


async def test_no_question_while_followups_wait(stage: Stage) -> None:
    message, work = await stage.working()
    sent = await stage.say("alex", message["thread_id"])
    before = stage.image(work.run_id)
    outcome = await stage.ask(work)
    assert (outcome.code, outcome.body["current"]["state"]) == ("followups_pending", "running")
    assert stage.image(work.run_id) == before
    await stage.ack(work, sent["id"])
    assert (await stage.ask(work)).code == "ok"


async def test_question_after_a_request_to_cancel_ends_the_run(stage: Stage) -> None:
    message, work = await stage.working()
    sent = await stage.say("alex", message["thread_id"])  # and waits for nobody
    await stage.cancel("alex", work.run_id)
    stage.mark()
    outcome = await stage.ask(work)
    run = outcome.body
    assert (outcome.code, run["state"], run["state_reason"]) == ("ok", "cancelled", "user_cancelled")
    assert (run["cancel"]["outcome"], "question" in run) == ("while_waiting", False)
    assert (await stage.ask(work)).body == run
    assert (await stage.ask(work, "Another?")).code == "run_ended"
    assert stage.event_types() == [
        "run.state_changed cancelled", "message.updated cancelled", "message.created run", "run.state_changed queued",
    ]  # fmt: skip
    assert stage.followups(work.run_id) == [(sent["id"], "promoted")]


async def test_two_answers_at_once_resume_once(stage: Stage, other: Database) -> None:
    for _ in range(20):
        message, work = await stage.waiting()
        outcomes = await asyncio.gather(
            stage.post("alex", message["thread_id"], body="this"),
            stage.post("owner", message["thread_id"], body="last", db=other),
            stage.resume(work),
            stage.control("resume_run", work, db=other),
        )
        assert {outcome.code for outcome in outcomes} == {"created", "ok"}
        assert {outcome.body["trigger_state"] for outcome in outcomes[:2]} == {"received"}
        assert sorted(len(outcome.effects) for outcome in outcomes[2:]) == [0, 1]
        answers = stage.followups(work.run_id)
        assert {answer for answer, _ in answers} == {outcome.body["id"] for outcome in outcomes[:2]}
        assert [state for _, state in answers] == ["pending", "pending"]
        assert stage.row(work.run_id)["state"] == "running"
        changes = stage.sql(
            "SELECT payload->'run'->>'state' AS state FROM livebox.events"
            " WHERE type = 'run.state_changed' AND resource_id = %s ORDER BY seq",
            work.run_id,
        )
        assert [change["state"] for change in changes] == ["queued", "running", "waiting_input", "running"]
        for answer, _ in answers:
            assert (await stage.ack(work, answer)).code == "ok"
        await stage.finish(work)


@pytest.mark.parametrize("column", ["operator_replies_in_threads", "operator_replies_in_main", "operator_agent_id"])
async def test_answer_arrives_with_the_switches_off(stage: Stage, column: str) -> None:
    message, work = await stage.working(channel="Support/Escalation")
    await stage.ask(work)
    value = "NULL" if column == "operator_agent_id" else "false"
    stage.sql(f"UPDATE livebox.channels SET {column} = {value}, version = version + 1 WHERE kind = 'channel'")
    answer = await stage.post("alex", message["thread_id"], body="this")
    if column == "operator_agent_id":  # it operates here no more, and lotse is no guest
        assert answer.body["trigger_state_reason"] == "agent_not_allowed_here"
    else:
        assert answer.body["trigger_state"] == "received"
        assert stage.followups(work.run_id) == [(answer.body["id"], "pending")]


async def test_answer_to_a_guest_needs_no_mention(stage: Stage) -> None:
    message, work = await stage.waiting(channel="Support/Escalation", agent="texter")
    answer = await stage.say("alex", message["thread_id"], body="this")
    assert answer["trigger_state"] == "received"
    assert stage.followups(work.run_id) == [(answer["id"], "pending")]


async def test_who_may_not_trigger_answers_nothing(stage: Stage) -> None:
    message, work = await stage.waiting(channel="Support/Escalation")
    said = await stage.post("robin", message["thread_id"], body="this")
    assert "trigger_state" not in said.body
    assert stage.followups(work.run_id) == []


async def test_answer_after_the_end_opens_a_run_of_its_own(stage: Stage) -> None:
    message, work = await stage.waiting()
    assert (await stage.cancel("alex", work.run_id)).code == "ok"
    await stage.say("alex", message["thread_id"], body="this")
    assert [run["state"] for run in stage.runs(message["thread_id"])] == ["cancelled", "queued"]
    assert (await stage.resume(work)).code == "run_ended"
