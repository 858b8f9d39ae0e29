"""Fencing: which token passes when, what a renewal changes, and that a replaced holder changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.runs.stage import LIMITS, Outcome, Stage, Work

TTL = LIMITS["invocation.ttl"]
GRACE = LIMITS["run.renew_grace"]


def operations() -> dict[str, dict[str, Any]]:
    """Each operation of run control with arguments that a running run takes."""
    step = str(uuid.uuid4())
    return {
        "start_run": {},
        "heartbeat_run": {},
        "beat_run": {"body": {"cancel_seen": True}},
        "renew_invocation_token": {},
        "record_run_step": {"step_id": step, "body": {"kind": "tool", "name": "read"}},
        "update_run_step": {"step_id": step, "body": {"title": "x"}},
        "ack_followup": {"message_id": step},
        "await_run_input": {"body": {"prompt": "?"}},
        "resume_run": {},
        "finish_run": {"body": {"state": "completed"}},
    }


async def call(stage: Stage, operation: str, work: Work, **args: Any) -> Outcome:
    how = stage.read if operation == "heartbeat_run" else stage.write
    return await how(operation, work.agent, run_id=work.run_id, invocation=work.invocation, **args)


def other_claim(work: Work) -> Work:
    """The same run under the token of a holder before."""
    return replace(work, invocation={**work.invocation, "jti": str(uuid.uuid4()), "claim_id": str(uuid.uuid4())})


def other_token(work: Work) -> Work:
    """A token of the same holder that was renewed long ago."""
    return replace(work, invocation={**work.invocation, "jti": str(uuid.uuid4())})


def other_run(work: Work) -> Work:
    return replace(work, invocation={**work.invocation, "run_id": str(uuid.uuid4())})


def expired(work: Work) -> Work:
    return replace(work, invocation={**work.invocation, "expires_at": 1})


async def refusals(stage: Stage, work: Work, shown: Work, operation: str, args: dict[str, Any]) -> Outcome:
    """The operation under the shown token must be refused and leave every byte as it was."""
    before = stage.image(work.run_id)
    stage.mark()
    how = stage.read if operation == "heartbeat_run" else stage.write
    outcome = await how(operation, work.agent, run_id=work.run_id, invocation=shown.invocation, **args)
    assert stage.image(work.run_id) == before, operation
    assert stage.written() == {}
    assert outcome.effects == []
    return outcome


TOKENS: dict[str, tuple[Callable[[Work], Work], str]] = {
    "a holder before": (other_claim, "invocation_superseded"),
    "renewed": (other_token, "token_renewed"),
    "another run": (other_run, "invalid_token"),
    "expired": (expired, "token_expired"),
    "expired, of a holder before": (lambda work: expired(other_claim(work)), "token_expired"),
}


@pytest.mark.parametrize("kind", TOKENS)
async def test_token_that_does_not_hold_the_run(stage: Stage, kind: str) -> None:
    shown, code = TOKENS[kind]
    stage.sql(
        "UPDATE livebox.service SET available_since = livebox.clock() - interval '1 day', touched_at = livebox.clock()"
    )
    _, work = await stage.working()
    for operation, args in operations().items():
        outcome = await refusals(stage, work, shown(work), operation, args)
        assert outcome.code == code, operation
        if code in ("invocation_superseded", "token_renewed"):
            assert outcome.body["current"]["state"] == "running"
        else:
            assert outcome.body is None


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_after_the_end_everything_is_refused(stage: Stage, end: str) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    for operation, args in operations().items():
        if operation == "finish_run":
            args = {"body": {"state": "completed", "summary": "late"}}
        outcome = await refusals(stage, work, work, operation, args)
        assert outcome.code == "run_ended", operation
        assert outcome.body["current"]["state"] == end
        assert outcome.body["current"]["changed_by"] == stage.id("lotse")


# Renewal -------------------------------------------------------------------------------------------------------------


async def test_both_pass_until_the_new_one_is_used(stage: Stage) -> None:
    _, old = await stage.working()
    version = stage.row(old.run_id)["version"]
    stage.mark()
    new = await stage.renew(old)
    assert new.invocation["jti"] != old.invocation["jti"]
    assert new.invocation["claim_id"] == old.invocation["claim_id"]
    assert stage.written() == {}
    assert stage.row(old.run_id)["version"] == version
    assert (await stage.step(old)).code == "ok"
    assert (await stage.beat(old)).code == "ok"
    assert (await stage.renew(old)).invocation == new.invocation  # the answer was lost
    assert (await stage.step(new)).code == "ok"
    for operation, args in operations().items():
        assert (await refusals(stage, old, old, operation, args)).code == "token_renewed", operation
    assert (await stage.finish(new)).code == "ok"


@pytest.mark.parametrize(
    "use",
    [
        lambda stage, work: stage.beat(work),
        lambda stage, work: stage.beat(work, cancel_seen=True),
        lambda stage, work: stage.step(work),
        lambda stage, work: stage.ask(work),
        lambda stage, work: stage.control("renew_invocation_token", work),
    ],
    ids=["heartbeat", "cancel_seen", "step", "await", "renewal"],
)
async def test_any_use_of_the_new_one_ends_the_old(stage: Stage, use: Callable[[Stage, Work], Any]) -> None:
    _, old = await stage.working()
    new = await stage.renew(old)
    assert (await use(stage, new)).code == "ok"
    assert (await stage.beat(old)).code == "token_renewed"
    assert (await stage.control("renew_invocation_token", old)).code == "token_renewed"


async def test_acknowledging_ends_the_old_one_too(stage: Stage) -> None:
    message, old = await stage.working()
    sent = await stage.say("alex", message["thread_id"])
    new = await stage.renew(old)
    assert (await stage.ack(new, sent["id"])).code == "ok"
    assert (await stage.beat(old)).code == "token_renewed"


async def test_end_under_the_new_token_is_told_to_the_old_one(stage: Stage) -> None:
    _, old = await stage.working()
    new = await stage.renew(old)
    first = await stage.finish(new)
    assert (await stage.finish(new)).body == first.body
    assert (await stage.finish(old)).code == "token_renewed"


async def test_repeats_compare_the_holder_and_not_the_token(stage: Stage) -> None:
    await stage.queued()
    (old,) = await stage.claim("lotse")
    new = await stage.renew(old)
    started = await stage.start(old, model="a")
    assert (await stage.start(new, model="a")).body == started.body
    third = await stage.renew(new)
    asked = await stage.ask(new)
    assert (await stage.ask(third)).body == asked.body
    fourth = await stage.renew(third)
    resumed = await stage.resume(third)
    assert (await stage.resume(fourth)).body == resumed.body
    fifth = await stage.renew(fourth)
    finished = await stage.finish(fourth, summary="done")
    assert (await stage.finish(fifth, summary="done")).body == finished.body


async def test_chain_of_renewals_has_one_overlap(stage: Stage) -> None:
    _, first = await stage.working()
    second = await stage.renew(first)
    third = await stage.renew(second)
    assert (await stage.beat(first)).code == "token_renewed"
    assert (await stage.beat(second)).code == "ok"
    assert (await stage.renew(second)).invocation == third.invocation
    assert (await stage.beat(third)).code == "ok"
    assert (await stage.beat(second)).code == "token_renewed"


async def test_repeated_claim_after_a_renewal_gives_the_newest_token(stage: Stage) -> None:
    _, old = await stage.working()
    new = await stage.renew(old)
    (again,) = await stage.claim("lotse", old.invocation["claim_id"])
    assert again.invocation == new.invocation


async def test_renewed_token_lasts_from_its_renewal(stage: Stage) -> None:
    _, old = await stage.working()
    stage.later(TTL / 2)
    new = await stage.renew(old)
    assert new.invocation["expires_at"] - old.invocation["expires_at"] == pytest.approx(TTL / 2, abs=2)
    stage.later(TTL + 1)
    assert (await stage.step(old)).code == "token_expired"
    beat = await stage.beat(new)
    assert beat.code == "ok"


async def test_expired_token_can_still_be_renewed_for_a_while_and_do_nothing_else(stage: Stage) -> None:
    _, old = await stage.working()
    stage.later(TTL + GRACE / 2)
    for operation, args in operations().items():
        if operation != "renew_invocation_token":
            assert (await refusals(stage, old, old, operation, args)).code == "token_expired", operation
    new = await stage.renew(old)
    assert (await stage.beat(new)).code == "ok"


async def test_grace_ends(stage: Stage) -> None:
    _, old = await stage.working()
    stage.later(TTL + GRACE + 2)
    assert (await refusals(stage, old, old, "renew_invocation_token", {})).code == "token_expired"


async def test_grace_counts_from_when_the_service_could_be_reached(stage: Stage) -> None:
    _, old = await stage.working()
    stage.later(10 * TTL)
    stage.sql("UPDATE livebox.service SET available_since = livebox.clock()")  # it was away all the while
    assert (await stage.step(old)).code == "token_expired"
    new = await stage.renew(old)
    assert (await stage.step(new)).code == "ok"


async def test_replaced_holder_cannot_renew(stage: Stage) -> None:
    await stage.queued()
    (old,) = await stage.claim("lotse")
    stage.later(LIMITS["run.claim_lease"] + 1)
    (new,) = await stage.claim("lotse")
    assert new.run_id == old.run_id
    for operation, args in operations().items():
        outcome = await refusals(stage, old, old, operation, args)
        assert outcome.code == "invocation_superseded", operation
    assert (await stage.start(new)).code == "ok"


# Signs of life -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "progress"),
    [
        (lambda stage, work: stage.beat(work, cancel_seen=True), False),
        (lambda stage, work: stage.control("renew_invocation_token", work), False),
        (lambda stage, work: stage.step(work), True),
        (lambda stage, work: stage.ask(work), True),
        (lambda stage, work: stage.finish(work), True),
    ],
    ids=["cancel_seen", "renewal", "step", "await", "finish"],
)
async def test_what_an_agent_does_is_a_sign_of_life(
    stage: Stage, use: Callable[[Stage, Work], Any], progress: bool
) -> None:
    _, work = await stage.working()
    before = stage.row(work.run_id)
    stage.later(30)
    assert (await use(stage, work)).code == "ok"
    after = stage.row(work.run_id)
    for column in ("holder_seen_at", "last_heartbeat_at"):
        assert (after[column] - before[column]).total_seconds() > 29, column
    moved = (after["last_progress_at"] - before["last_progress_at"]).total_seconds()
    assert (moved > 29) == progress


async def test_acknowledging_is_a_sign_of_life(stage: Stage) -> None:
    message, work = await stage.working()
    sent = await stage.say("alex", message["thread_id"])
    before = stage.row(work.run_id)
    stage.later(30)
    assert (await stage.ack(work, sent["id"])).code == "ok"
    after = stage.row(work.run_id)
    assert (after["holder_seen_at"] - before["holder_seen_at"]).total_seconds() > 29


async def test_beat_is_read_and_not_written(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.say("alex", message["thread_id"])
    before = stage.image(work.run_id)
    beat = await stage.beat(work)
    assert beat.body == {
        "run_id": work.run_id,
        "state": "running",
        "version": 3,
        "cancel_requested": False,
        "followups_pending": 1,
        "token_expires_at": work.item["expires_at"],
    }
    assert stage.image(work.run_id) == before


async def test_step_of_a_stalled_run_says_that_it_goes_on(stage: Stage) -> None:
    _, work = await stage.working()
    stage.sql(
        "UPDATE livebox.runs SET stalled_since = livebox.clock(), version = version + 1, "
        "version_reserved = version_reserved + 1 WHERE id = %s",
        work.run_id,
    )
    stage.mark()
    await stage.step(work)
    assert stage.event_types() == ["run.changed"]
    assert "stalled_since" not in stage.events()[0]["payload"]["run"]
