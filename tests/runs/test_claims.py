"""Agents take runs: leases, repeated claims, tokens that supersede, and the check at delivery."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from db import Database
from tests.runs.stage import LIMITS, Stage

GENERAL = "Support/General"


def later(stage: Stage, seconds: int) -> None:
    """Moves the database's clock."""
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE "
        f"AS $$ SELECT clock_timestamp() + interval '{seconds} seconds' $$"
    )


async def test_claim_hands_out_the_run_with_its_message(stage: Stage) -> None:
    message = await stage.queued()
    (run,) = stage.runs(message["thread_id"])
    stage.mark()
    (work,) = await stage.claim("lotse")
    assert work.run_id == run["id"]
    assert work.item["kind"] == "start"
    assert work.item["run"]["state"] == "queued"
    assert [m["id"] for m in work.item["messages"]] == [message["id"]]
    assert work.item["messages"][0]["trigger_state"] == "queued"
    assert "token" not in work.item
    after = stage.runs(message["thread_id"])[0]
    assert (after["version"], after["claim_id"]) == (run["version"], work.invocation["claim_id"])
    assert after["invocation_jti"] == work.invocation["jti"] != run["invocation_jti"]
    assert stage.written() == {"events": 1}
    assert stage.event_types() == ["message.updated queued"]
    assert stage.message(message["id"])["version"] == 3


async def test_claim_says_what_the_token_is_made_from(stage: Stage) -> None:
    await stage.queued()
    claim_id = str(uuid.uuid4())
    outcome = await stage.write("claim_invocations", "lotse", body={"claim_id": claim_id, "limit": 1})
    (effect,) = outcome.effects
    assert outcome.body["claim_id"] == claim_id
    assert effect["claim_id"] == claim_id
    assert effect["agent_id"] == stage.id("lotse")
    assert effect["expires_at"] - effect["issued_at"] == LIMITS["invocation.ttl"]
    assert effect["jti"] not in str(outcome.body)


async def test_same_claim_gets_the_same_answer(stage: Stage) -> None:
    for _ in range(3):
        await stage.queued()
    claim_id = str(uuid.uuid4())
    body = {"claim_id": claim_id, "limit": 2}
    first = await stage.write("claim_invocations", "lotse", body=body)
    stage.mark()
    again = await stage.write("claim_invocations", "lotse", body=body)
    assert (again.body, again.effects) == (first.body, first.effects)
    assert stage.written() == {}
    (rest,) = await stage.claim("lotse", limit=9)
    assert rest.run_id not in [item["run"]["id"] for item in first.body["items"]]
    assert await stage.claim("lotse", limit=9) == []


async def test_claim_takes_the_oldest_first(stage: Stage) -> None:
    runs = [stage.runs((await stage.queued())["thread_id"])[0]["id"] for _ in range(3)]
    assert [work.run_id for work in await stage.claim("lotse", limit=2)] == runs[:2]
    assert [work.run_id for work in await stage.claim("lotse", limit=2)] == runs[2:]


async def test_lease_ends(stage: Stage) -> None:
    message = await stage.queued()
    claim_id = str(uuid.uuid4())
    (first,) = await stage.claim("lotse", claim_id)
    assert await stage.claim("lotse") == []
    later(stage, LIMITS["run.claim_lease"] + 1)
    stage.mark()
    (second,) = await stage.claim("lotse")
    assert second.run_id == first.run_id
    assert second.invocation["jti"] != first.invocation["jti"]
    assert stage.written() == {}  # queued is said once
    superseded = await stage.start(first)
    assert superseded.code == "invocation_superseded"
    assert superseded.body["current"]["state"] == "queued"
    assert stage.runs(message["thread_id"])[0]["state"] == "queued"
    assert (await stage.start(second)).code == "ok"


async def test_same_claim_after_its_lease_is_a_new_one(stage: Stage) -> None:
    await stage.queued()
    claim_id = str(uuid.uuid4())
    (first,) = await stage.claim("lotse", claim_id)
    later(stage, LIMITS["run.claim_lease"] + 1)
    (second,) = await stage.claim("lotse", claim_id)
    assert second.invocation["jti"] != first.invocation["jti"]


async def test_started_run_is_not_handed_to_another_claim(stage: Stage) -> None:
    _, work = await stage.working()
    later(stage, LIMITS["run.claim_lease"] + 1)
    assert await stage.claim("lotse") == []
    (again,) = await stage.claim("lotse", work.invocation["claim_id"])
    assert again.invocation == work.invocation


@pytest.mark.parametrize("who", ["texter", "alex", "owner"])
async def test_only_its_agent_gets_a_run(stage: Stage, who: str) -> None:
    await stage.queued()
    outcome = await stage.write("claim_invocations", who, body={"claim_id": str(uuid.uuid4())})
    if who == "texter":
        assert (outcome.code, outcome.body["items"]) == ("ok", [])
    else:
        assert outcome.code == "forbidden"


async def test_same_claim_id_of_another_agent_is_another_claim(stage: Stage) -> None:
    await stage.queued(channel="Support/Escalation")
    await stage.queued(channel="Support/Escalation", agent="texter")
    claim_id = str(uuid.uuid4())
    (mine,) = await stage.claim("lotse", claim_id)
    (other,) = await stage.claim("texter", claim_id)
    assert mine.run_id != other.run_id


async def test_cancelled_run_is_never_handed_out(stage: Stage) -> None:
    message = await stage.queued()
    claim_id = str(uuid.uuid4())
    (work,) = await stage.claim("lotse", claim_id)
    assert (await stage.cancel("alex", work.run_id)).code == "ok"
    assert await stage.claim("lotse", claim_id) == []
    assert (await stage.start(work)).code == "run_ended"
    assert stage.message(message["id"])["trigger_state"] == "cancelled"


DENIALS = {
    "no_trigger_right": (
        "UPDATE livebox.grants SET level = 'write', version = version + 1 WHERE principal_id = '{alex}'",
        "failed",
    ),
    "access_revoked": ("DELETE FROM livebox.grants WHERE principal_id = '{alex}'", "cancelled"),
    "user_disabled": (
        "UPDATE livebox.principals SET status = 'disabled', version = version + 1 WHERE id = '{alex}'",
        "cancelled",
    ),
    "channel_read_only": ("UPDATE livebox.channels SET read_only = true, version = version + 1", "cancelled"),
    "agent_not_allowed_here": (
        "UPDATE livebox.channels SET operator_agent_id = NULL, version = version + 1 WHERE kind = 'channel'",
        "failed",
    ),
    "billing_mode_personal_not_holder": (
        "UPDATE livebox.principals SET billing_mode = 'personal', version = version + 1 WHERE id = '{lotse}'",
        "failed",
    ),
    "tool_class_owner_only": (
        "UPDATE livebox.principals SET tool_class = 'owner_only', version = version + 1 WHERE id = '{lotse}'",
        "failed",
    ),
    "thread_deleted": (
        "UPDATE livebox.threads SET deleted_at = livebox.clock(), version = version + 1 WHERE NOT is_main",
        "cancelled",
    ),
}


@pytest.mark.parametrize("reason", DENIALS)
async def test_delivery_asks_again(stage: Stage, reason: str) -> None:
    change, state = DENIALS[reason]
    message = await stage.queued()
    stage.sql(change.format(alex=stage.id("alex"), lotse=stage.id("lotse")))
    stage.mark()
    outcome = await stage.write("claim_invocations", "lotse", body={"claim_id": str(uuid.uuid4())})
    assert outcome.body["items"] == []
    (run,) = stage.runs(message["thread_id"])
    assert (run["state"], run["state_reason"], run["version"]) == (state, reason, 2)
    assert run["state_changed_by"] is None
    stored = stage.message(message["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"], stored["version"]) == (state, reason, 3)
    assert stage.event_types() == [f"run.state_changed {state}", f"message.updated {state}"]
    assert stage.audit() == [("alex", "agent.invoke", reason)]
    (effect,) = outcome.effects
    assert (effect["from"], effect["to"], effect["reason"]) == ("queued", state, reason)


async def test_denied_run_makes_room_for_the_next(stage: Stage) -> None:
    await stage.queued("alex")
    await stage.queued("owner")
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    (work,) = await stage.claim("lotse", limit=1)
    assert work.item["run"]["triggered_by"] == stage.id("owner")


async def test_very_many_denied_runs_end_in_several_claims(stage: Stage) -> None:
    """One statement that ended all of them would run into its time limit, again and again, and keep the lane busy."""
    for _ in range(25):
        await stage.queued("alex")
    await stage.queued("owner")
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    assert await stage.claim("lotse", limit=1) == []
    (left,) = stage.sql("SELECT count(*) AS n FROM livebox.runs WHERE state = 'queued'")
    assert left["n"] == 5
    (work,) = await stage.claim("lotse", limit=1)
    assert work.item["run"]["triggered_by"] == stage.id("owner")


async def test_every_denial_has_a_reason_to_end_with(stage: Stage) -> None:
    """The words that authorize_invoke answers with are read from its own text."""
    (source,) = stage.sql("SELECT prosrc FROM pg_proc WHERE proname = 'authorize_invoke'")
    denials = {word for word in source["prosrc"].split("'") if word.islower() and "_" in word} - {
        "agent_id",
        "thread_id",
    }
    denials -= {"credential_holder_id", "active_agent_id"}
    listed = {row["code"] for row in stage.sql("SELECT code FROM livebox.rejection_reasons")} - {
        "multiple_agents_mentioned",
        "followup_limit",
    }
    reasons = {row["code"] for row in stage.sql("SELECT code FROM livebox.run_reasons WHERE setter <> 'adapter'")}
    for denial in (denials & (listed | reasons)) | listed:
        (row,) = stage.sql("SELECT livebox.delivery_reason(%s) AS reason", denial)
        assert row["reason"] in reasons, denial


@pytest.mark.long
async def test_two_starts_have_one_winner(stage: Stage) -> None:
    other = Database(stage.dsn)
    await other.start()
    try:
        for _ in range(200):
            message = await stage.queued()
            (work,) = await stage.claim("lotse")
            stage.mark()
            first, second = await asyncio.gather(
                stage.start(work),
                stage.write("start_run", "lotse", other, run_id=work.run_id, invocation=work.invocation),
            )
            assert (first.code, second.code) == ("ok", "ok")  # one holder: the second is a repeat
            assert first.body == second.body
            assert stage.event_types() == ["run.state_changed running", "message.updated working"]
            assert [len(outcome.effects) for outcome in (first, second)] in ([1, 0], [0, 1])
            assert stage.runs(message["thread_id"])[0]["version"] == 2
            await stage.finish(work)
    finally:
        await other.stop()


async def test_cancel_and_start_at_once(stage: Stage) -> None:
    other = Database(stage.dsn)
    await other.start()
    try:
        for _ in range(50):
            message = await stage.queued()
            (work,) = await stage.claim("lotse")
            started, cancelled = await asyncio.gather(
                stage.start(work), stage.write("cancel_run", "alex", other, run_id=work.run_id)
            )
            (run,) = stage.runs(message["thread_id"])
            if cancelled.code == "ok":  # it says cancelled only when it is
                assert (run["state"], started.code) == ("cancelled", "run_ended")
            else:
                assert (run["state"], started.code, cancelled.code) == ("running", "ok", "accepted")
                await stage.finish(work)
    finally:
        await other.stop()
