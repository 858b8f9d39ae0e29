"""Delivery: each denial ends a run with its reason, a run is handed to one holder at a time, and no claim takes long."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from db import Database
from tests.runs.stage import LIMITS, Stage

ROUNDS = 200
GONE = LIMITS["run.holder_grace"] + 1


def denials(stage: Stage) -> set[str]:
    """Every word that the decision about agent.invoke can answer with, from its own text."""
    (source,) = stage.sql("SELECT prosrc FROM pg_proc WHERE proname = 'authorize_invoke'")
    words = source["prosrc"].split("THEN '")[1:]
    return {word.split("'")[0] for word in words}


async def test_every_denial_of_the_decision_ends_a_run(stage: Stage) -> None:
    found = denials(stage)
    assert {"user_disabled", "no_trigger_right", "agent_disabled", "run_active_other_agent"} <= found
    assert len(found) >= 10
    states = {row["code"]: row["state"] for row in stage.sql("SELECT * FROM livebox.run_reasons")}
    for denial in found:
        (row,) = stage.sql("SELECT livebox.delivery_reason(%s) AS reason", denial)
        _, work = await stage.waiting()
        stage.sql(
            "SELECT livebox.end_denied(r, %s, '{}') FROM livebox.runs r WHERE id = %s", row["reason"], work.run_id
        )
        ended = stage.row(work.run_id)
        assert (ended["state"], ended["state_reason"]) == (states[row["reason"]], row["reason"]), denial


async def test_rejections_of_acceptance_that_a_delivery_can_meet_are_ends_too(stage: Stage) -> None:
    listed = {row["code"] for row in stage.sql("SELECT code FROM livebox.rejection_reasons")}
    for denial in listed - {"multiple_agents_mentioned", "followup_limit"}:
        stage.sql("SELECT livebox.delivery_reason(%s)", denial)


async def test_unknown_denial_is_an_error_and_ends_nothing(stage: Stage) -> None:
    with pytest.raises(Exception, match="no run can end with") as raised:
        stage.sql("SELECT livebox.delivery_reason('nonsense')")
    assert raised.value.pgcode == "LB122"  # type: ignore[attr-defined]


async def test_two_pollers_share_no_run(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", "Support/General")
    for _ in range(ROUNDS):
        await stage.say("alex", thread, "lotse")
        first, second = await asyncio.gather(stage.claim("lotse"), stage.claim("lotse", db=other))
        assert len(first) + len(second) == 1
        (work,) = first or second
        assert stage.row(work.run_id)["invocation_jti"] == work.invocation["jti"]
        assert (await stage.cancel("alex", work.run_id)).code == "ok"


async def test_repeated_claim_at_once_is_one_claim(stage: Stage, other: Database) -> None:
    await stage.queued()
    claim_id = str(uuid.uuid4())
    first, second = await asyncio.gather(
        stage.claim("lotse", claim_id), stage.claim("lotse", claim_id, db=other)
    )  # the same poller, whose answer was lost
    assert [work.invocation for work in first] == [work.invocation for work in second]
    assert len(first) == 1


async def test_repeated_claim_gives_a_token_that_holds_where_the_last_has_expired(stage: Stage) -> None:
    await stage.queued()
    claim_id = str(uuid.uuid4())
    (work,) = await stage.claim("lotse", claim_id)
    assert (await stage.start(work)).code == "ok"
    assert (await stage.ask(work)).code == "ok"
    stage.later(LIMITS["invocation.ttl"] + LIMITS["run.renew_grace"] + 1)
    assert (await stage.beat(work)).code == "token_expired"
    (again,) = await stage.claim("lotse", claim_id)
    (same,) = await stage.claim("lotse", claim_id)
    assert again.invocation == same.invocation
    assert (await stage.beat(again)).code == "ok"
    assert (await stage.resume(again)).code == "ok"


async def test_repeat_asks_for_the_rights_of_now(stage: Stage) -> None:
    message = await stage.queued()
    claim_id = str(uuid.uuid4())
    assert await stage.claim("lotse", claim_id)
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    assert await stage.claim("lotse", claim_id) == []
    (run,) = stage.runs(message["thread_id"])
    assert (run["state"], run["state_reason"]) == ("cancelled", "access_revoked")


async def test_one_claim_ends_only_so_many(stage: Stage) -> None:
    for _ in range(30):
        await stage.queued()
    await stage.queued("owner")
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    assert await stage.claim("lotse", limit=2) == []
    (ended,) = stage.sql("SELECT count(*) AS n FROM livebox.runs WHERE state_reason = 'access_revoked'")
    assert ended["n"] == 22
    (work,) = await stage.claim("lotse", limit=2)  # and the next goes on from there
    assert work.item["run"]["triggered_by"] == stage.id("owner")


# A run that waits is handed on when its holder is gone --------------------------------------------------------------


async def test_answer_to_a_holder_that_is_gone_is_handed_to_another(stage: Stage) -> None:
    message, work = await stage.waiting()
    answer = await stage.say("alex", message["thread_id"], body="this week")
    assert await stage.claim("lotse") == []  # the holder may still be there
    before = stage.row(work.run_id)
    stage.later(GONE)
    stage.mark()
    (again,) = await stage.claim("lotse")
    assert (again.run_id, again.item["kind"]) == (work.run_id, "resume")
    assert [m["id"] for m in again.item["messages"]] == [message["id"], answer["id"]]
    assert again.item["run"]["question"]["prompt"] == "Which week?"
    after = stage.row(work.run_id)
    assert (after["version"], after["state"], after["claim_id"]) == (
        before["version"], "waiting_input", again.invocation["claim_id"])  # fmt: skip
    assert stage.written() == {}
    for late in (await stage.resume(work), await stage.beat(work), await stage.ack(work, answer["id"])):
        assert late.code == "invocation_superseded"
    assert (await stage.start(again)).code == "already_started"
    assert (await stage.resume(again)).body["state"] == "running"
    assert (await stage.ack(again, answer["id"])).code == "ok"
    assert (await stage.finish(again)).code == "ok"
    assert stage.message(message["id"])["trigger_state"] == "done"
    assert stage.message(answer["id"])["trigger_state"] == "done"


async def test_answer_that_was_taken_by_a_holder_that_is_gone_is_handed_to_another(stage: Stage) -> None:
    message, work = await stage.waiting()
    answer = await stage.say("alex", message["thread_id"], body="this week")
    assert (await stage.ack(work, answer["id"])).code == "ok"
    assert await stage.claim("lotse") == []  # the holder may still be there
    stage.later(GONE)
    (again,) = await stage.claim("lotse")
    assert (again.run_id, again.item["kind"]) == (work.run_id, "resume")
    assert [(m["id"], m["body"]) for m in again.item["messages"]][1:] == [(answer["id"], "this week")]
    assert again.item["run"]["question"]["prompt"] == "Which week?"
    assert (await stage.resume(work)).code == "invocation_superseded"
    stage.later(3 * GONE)
    (third,) = await stage.claim("lotse")  # it died as well, and took nothing
    assert third.item["messages"] == again.item["messages"]
    assert (await stage.resume(third)).body["state"] == "running"
    assert (await stage.finish(third)).code == "ok"
    assert stage.message(answer["id"])["trigger_state"] == "done"


async def test_taken_answers_of_earlier_rounds_are_no_answers(stage: Stage) -> None:
    message, work = await stage.waiting()
    early, late = [await stage.say("alex", message["thread_id"]) for _ in range(2)]
    assert (await stage.ack(work, early["id"])).code == "ok"
    assert (await stage.resume(work)).code == "ok"
    assert (await stage.ack(work, late["id"])).code == "ok"
    assert (await stage.ask(work, "And?")).code == "ok"
    stage.later(GONE)
    assert await stage.claim("lotse") == []
    answer = await stage.say("alex", message["thread_id"])
    (again,) = await stage.claim("lotse")
    assert [m["id"] for m in again.item["messages"]] == [message["id"], early["id"], late["id"], answer["id"]]


async def test_withdrawn_answer_resumes_nothing(stage: Stage) -> None:
    message, work = await stage.waiting()
    answer = await stage.say("alex", message["thread_id"])
    assert (await stage.write("delete_message", "alex", message_id=answer["id"])).code in ("ok", "no_content")
    assert stage.followups(work.run_id) == [(answer["id"], "cancelled")]
    stage.later(GONE)
    assert await stage.claim("lotse") == []


async def test_repeated_claim_of_a_resumed_run_is_checked_again(stage: Stage) -> None:
    message, _ = await stage.waiting("owner")
    answer = await stage.say("owner", message["thread_id"])
    stage.later(GONE)
    (work,) = await stage.claim("lotse")
    assert (await stage.resume(work)).code == "ok"
    told = await stage.say("alex", message["thread_id"])
    (again,) = await stage.claim("lotse", work.invocation["claim_id"])
    assert [m["id"] for m in again.item["messages"]] == [message["id"], answer["id"], told["id"]]
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    (again,) = await stage.claim("lotse", work.invocation["claim_id"])
    assert [m["id"] for m in again.item["messages"]] == [message["id"], answer["id"]]
    assert stage.followups(work.run_id) == [(answer["id"], "pending"), (told["id"], "returned")]
    assert stage.message(told["id"])["trigger_state_reason"] == "access_revoked"
    assert (await stage.finish(work)).code == "ok"


async def test_waiting_run_without_an_answer_is_handed_to_nobody(stage: Stage) -> None:
    await stage.waiting()
    stage.later(GONE)
    assert await stage.claim("lotse") == []


async def test_sign_of_life_keeps_a_waiting_run(stage: Stage) -> None:
    message, work = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(GONE)
    await stage.db.writer.save("save_signs_of_life", [{"run_id": work.run_id, "age": 1}])
    assert await stage.claim("lotse") == []
    stage.later(2 * GONE)
    assert len(await stage.claim("lotse")) == 1


async def test_time_without_the_service_is_not_counted_against_a_holder(stage: Stage) -> None:
    message, _ = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(GONE)
    stage.sql("UPDATE livebox.service SET available_since = livebox.clock()")  # it has only just come back
    assert await stage.claim("lotse") == []
    stage.sql("UPDATE livebox.service SET touched_at = livebox.clock() - interval '1 hour'")  # nobody says it is there
    assert await stage.claim("lotse") == []


async def test_resumed_run_is_handed_to_one_of_two(stage: Stage, other: Database) -> None:
    message, _ = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(GONE)
    first, second = await asyncio.gather(stage.claim("lotse"), stage.claim("lotse", db=other))
    assert len(first) + len(second) == 1
    (work,) = first or second
    repeated = await stage.claim("lotse", work.invocation["claim_id"])
    assert [found.invocation for found in repeated] == [work.invocation]
    assert repeated[0].item["kind"] == "resume"
    stage.later(2 * GONE)
    (third,) = await stage.claim("lotse")  # it died as well
    assert third.invocation["claim_id"] != work.invocation["claim_id"]


@pytest.mark.parametrize(("lease", "grace"), [(1, 60), (60, 1)], ids=["still present", "still leased"])
async def test_new_holder_has_the_lease_and_the_grace(stage: Stage, lease: int, grace: int) -> None:
    message, _ = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(GONE)
    (work,) = await stage.claim("lotse")
    stage.later(GONE + 10)
    limits = {**LIMITS, "run.claim_lease": lease, "run.holder_grace": grace}
    body = {"claim_id": str(uuid.uuid4())}
    outcome = await stage.write("claim_invocations", "lotse", body=body, limits=limits)
    assert outcome.body["items"] == []
    stage.later(3 * GONE)
    (again,) = await stage.claim("lotse")
    assert again.run_id == work.run_id


async def test_many_that_nobody_answered_hide_no_answer(stage: Stage) -> None:
    for _ in range(25):
        await stage.waiting()
    message, work = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(GONE)
    (again,) = await stage.claim("lotse")
    assert again.run_id == work.run_id


async def test_running_run_is_handed_to_nobody(stage: Stage) -> None:
    message, _ = await stage.working()
    await stage.say("alex", message["thread_id"])
    stage.later(10 * GONE)
    assert await stage.claim("lotse") == []


async def test_answer_that_is_not_allowed_any_more_is_returned_and_resumes_nothing(stage: Stage) -> None:
    message, work = await stage.waiting("owner")
    answer = await stage.say("alex", message["thread_id"])
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    stage.later(GONE)
    assert await stage.claim("lotse") == []
    assert stage.followups(work.run_id) == [(answer["id"], "returned")]
    stored = stage.message(answer["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("failed", "access_revoked")
    assert stage.row(work.run_id)["state"] == "waiting_input"
    assert stage.audit()[-1] == ("alex", "agent.invoke", "access_revoked")
    allowed = await stage.say("owner", message["thread_id"])
    (again,) = await stage.claim("lotse")
    assert [m["id"] for m in again.item["messages"]] == [message["id"], allowed["id"]]


async def test_waiting_run_whose_person_lost_the_right_ends_at_delivery(stage: Stage) -> None:
    message, work = await stage.waiting("alex")
    await stage.say("owner", message["thread_id"])
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    stage.later(GONE)
    assert await stage.claim("lotse") == []
    (promoted,) = await stage.claim("lotse")  # the answer goes on as a run of its own, of who gave it
    ended = stage.row(work.run_id)
    assert (ended["state"], ended["state_reason"]) == ("cancelled", "access_revoked")
    assert promoted.item["run"]["triggered_by"] == stage.id("owner")
