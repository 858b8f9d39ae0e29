"""Follow-ups: who sees them, how they are taken, and that none is lost at any end."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from db import Database
from tests.runs.stage import LIMITS, Stage

ROUNDS = 50


async def test_taken_with_the_rights_of_now(stage: Stage) -> None:
    message, work = await stage.working("owner")
    sent = await stage.say("alex", message["thread_id"])
    version = stage.row(work.run_id)["version"]
    stage.sql(
        "UPDATE livebox.grants SET level = 'read', version = version + 1 WHERE principal_id = %s", stage.id("alex")
    )
    stage.mark()
    outcome = await stage.ack(work, sent["id"])
    assert (outcome.code, outcome.body["current"]["version"]) == ("followup_closed", version + 1)
    assert stage.followups(work.run_id) == [(sent["id"], "returned")]
    stored = stage.message(sent["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("failed", "no_trigger_right")
    assert stage.event_types() == ["message.updated failed"]
    assert stage.audit() == [("alex", "agent.invoke", "no_trigger_right")]
    stage.mark()
    assert (await stage.ack(work, sent["id"])).code == "followup_closed"
    assert stage.written() == {}


async def test_repeat_answers_with_what_is_stored(stage: Stage) -> None:
    message, work = await stage.working()
    sent = await stage.say("alex", message["thread_id"])
    first = await stage.ack(work, sent["id"])
    before = stage.image(work.run_id)
    again = await stage.ack(work, sent["id"])
    assert (again.code, again.body) == ("ok", first.body)
    assert stage.image(work.run_id) == before
    assert stage.row(work.run_id)["version"] == 4  # started, followed up, taken


@pytest.mark.parametrize("what", ["trigger", "nothing", "another run's"])
async def test_what_is_no_followup_of_the_run(stage: Stage, what: str) -> None:
    message, work = await stage.working()
    other, _ = await stage.working()
    sent = await stage.say("alex", other["thread_id"])
    asked = {"trigger": message["id"], "nothing": str(uuid.uuid4()), "another run's": sent["id"]}[what]
    before = stage.image(work.run_id)
    assert (await stage.ack(work, asked)).code == "not_found"
    assert stage.image(work.run_id) == before


async def test_withdrawn_one_is_closed(stage: Stage) -> None:
    message, work = await stage.working()
    sent = await stage.say("alex", message["thread_id"])
    await stage.write("delete_message", "alex", message_id=sent["id"])
    assert (await stage.ack(work, sent["id"])).code == "followup_closed"
    assert (await stage.beat(work)).body["followups_pending"] == 0


async def test_list_in_order_with_messages(stage: Stage) -> None:
    message, work = await stage.working()
    sent = [await stage.say("alex", message["thread_id"], body=str(number)) for number in range(3)]
    await stage.ack(work, sent[1]["id"])
    for who in ("alex", "lotse"):
        listed = (await stage.read("list_run_followups", who, run_id=work.run_id)).body["items"]
        assert [item["message"]["body"] for item in listed] == ["0", "1", "2"]
        assert [item["followup"]["state"] for item in listed] == ["pending", "delivered", "pending"]
        assert [item["followup"]["position"] for item in listed] == [1, 2, 3]
    for who in ("robin", "assistent"):
        hidden = await stage.read("list_run_followups", who, run_id=work.run_id)
        absent = await stage.read("list_run_followups", who, run_id=str(uuid.uuid4()))
        assert (hidden.code, hidden.body) == (absent.code, absent.body) == ("not_found", None)


async def test_agent_that_may_not_read_there_any_more_sees_no_text(stage: Stage) -> None:
    message, work = await stage.working(channel="Support/Escalation", agent="texter")
    sent = [await stage.say("alex", message["thread_id"], "texter", body=str(number)) for number in range(2)]
    await stage.ack(work, sent[0]["id"])
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("texter"))
    listed = (await stage.read("list_run_followups", "texter", run_id=work.run_id)).body["items"]
    assert [item["followup"]["message_id"] for item in listed] == [m["id"] for m in sent]
    assert ["message" in item for item in listed] == [False, False]


async def test_most_that_wait(stage: Stage) -> None:
    message, work = await stage.working()
    most = LIMITS["run.followups_max"]
    sent = [await stage.say("alex", message["thread_id"]) for _ in range(most)]
    over = await stage.post("alex", message["thread_id"])
    assert (over.code, over.body["trigger_state_reason"]) == ("created", "followup_limit")
    await stage.ack(work, sent[0]["id"])  # which makes room
    assert (await stage.post("alex", message["thread_id"])).body["trigger_state"] == "received"


# At the end ---------------------------------------------------------------------------------------------------------


async def end(stage: Stage, run: str, state: str, reason: str | None) -> None:
    stage.sql(
        "SELECT livebox.transition_run(r, %s, %s, 'server', NULL, '{}', '{}') FROM livebox.runs r WHERE r.id = %s",
        state, reason, run,
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["stale", "interrupted", "adapter_error"])
async def test_taken_ones_wait_again_when_the_work_was_lost(stage: Stage, reason: str) -> None:
    message, work = await stage.working()
    sent = [await stage.say("alex", message["thread_id"]) for _ in range(3)]
    await stage.ack(work, sent[0]["id"])
    await stage.ack(work, sent[1]["id"])
    stage.mark()
    await end(stage, work.run_id, "failed", reason)
    assert stage.event_types() == [
        "run.state_changed failed",
        "message.updated failed",
        "message.created run",
        "run.state_changed queued",
        "message.updated received",
        "message.updated received",
    ]
    assert [state for _, state in stage.followups(work.run_id)] == ["promoted"] * 3
    _, run = stage.runs(message["thread_id"])
    assert run["triggering_message_id"] == sent[0]["id"]
    assert stage.followups(run["id"]) == [(m["id"], "pending") for m in sent[1:]]
    seqs = [event["thread_seq"] for event in stage.events()]
    assert seqs == sorted(seqs)


async def test_taken_one_whose_message_is_gone_is_cancelled(stage: Stage) -> None:
    message, work = await stage.working()
    sent = [await stage.say("alex", message["thread_id"]) for _ in range(2)]
    for one in sent:
        await stage.ack(work, one["id"])
    await stage.write("delete_message", "alex", message_id=sent[0]["id"])
    await end(stage, work.run_id, "failed", "stale")
    assert [state for _, state in stage.followups(work.run_id)] == ["cancelled", "promoted"]
    assert stage.runs(message["thread_id"])[1]["triggering_message_id"] == sent[1]["id"]


async def test_denied_at_the_end_is_recorded(stage: Stage) -> None:
    message, work = await stage.working("owner")
    await stage.say("alex", message["thread_id"])
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    await stage.finish(work)
    assert stage.audit() == [("alex", "agent.invoke", "access_revoked")]


async def test_answers_to_an_agent_that_is_not_there_are_returned(stage: Stage) -> None:
    message, work = await stage.working()
    taken = await stage.say("alex", message["thread_id"])
    await stage.ack(work, taken["id"])
    await stage.ask(work)
    answer = await stage.say("alex", message["thread_id"])
    await end(stage, work.run_id, "failed", "agent_unavailable")
    assert stage.followups(work.run_id) == [(taken["id"], "delivered"), (answer["id"], "returned")]
    assert {stage.message(m["id"])["trigger_state_reason"] for m in (taken, answer)} == {"agent_unavailable"}
    assert len(stage.runs(message["thread_id"])) == 1


async def test_followup_at_the_moment_of_the_end(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", "Support/General")
    for number in range(ROUNDS):
        await stage.say("alex", thread, "lotse")
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        calls = [stage.finish(work), stage.post("alex", thread, db=other)]
        found = await asyncio.gather(*(calls if number % 2 else reversed(calls)))
        finished, sent = found if number % 2 else reversed(found)
        assert (finished.code, sent.code, sent.body["trigger_state"]) == ("ok", "created", "received")
        active = stage.sql("SELECT * FROM livebox.runs WHERE thread_id = %s AND finished_at IS NULL", thread)
        assert [run["triggering_message_id"] for run in active] == [sent.body["id"]]
        assert (await stage.cancel("alex", active[0]["id"])).code == "ok"


async def test_ack_at_the_moment_of_the_end(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", "Support/General")
    for number in range(ROUNDS):
        await stage.say("alex", thread, "lotse")
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        sent = await stage.say("alex", thread)
        calls = [stage.finish(work), stage.control("ack_followup", work, db=other, message_id=sent["id"])]
        found = await asyncio.gather(*(calls if number % 2 else reversed(calls)))
        finished, taken = found if number % 2 else reversed(found)
        assert finished.code == "ok"
        fate = dict(stage.followups(work.run_id))[sent["id"]]
        active = stage.sql("SELECT * FROM livebox.runs WHERE thread_id = %s AND finished_at IS NULL", thread)
        if taken.code == "ok":
            assert (fate, active, stage.message(sent["id"])["trigger_state"]) == ("delivered", [], "done")
        else:
            assert (taken.code, fate, len(active)) == ("run_ended", "promoted", 1)
            await stage.cancel("alex", active[0]["id"])
