"""Cancelling: at once where nobody works, asked for where somebody does, and a receipt that tells the truth."""

from __future__ import annotations

import uuid

import pytest

from tests.runs.stage import Stage


async def test_queued_run_ends_at_once_without_an_agent(stage: Stage) -> None:
    message = await stage.queued()
    (run,) = stage.runs(message["thread_id"])
    stage.mark()
    outcome = await stage.cancel("alex", run["id"])
    document = outcome.body
    assert (outcome.code, document["state"], document["state_reason"]) == ("ok", "cancelled", "user_cancelled")
    assert document["version"] == 2
    assert "duration_ms" not in document
    assert document["finished_at"] >= document["queued_at"]
    receipt = document["cancel"]
    assert (receipt["requested_by"], receipt["outcome"]) == (stage.id("alex"), "before_start")
    assert "deadline" not in receipt
    assert stage.event_types() == ["run.state_changed cancelled", "message.updated cancelled"]
    stored = stage.message(message["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"], stored["version"]) == (
        "cancelled", "user_cancelled", 3)  # fmt: skip
    (effect,) = outcome.effects
    assert (effect["from"], effect["to"], effect["reason"]) == ("queued", "cancelled", "user_cancelled")
    assert effect["queued_s"] >= 0


async def test_waiting_run_ends_at_once(stage: Stage) -> None:
    _, work = await stage.working()
    stage.wait(work.run_id)
    outcome = await stage.cancel("alex", work.run_id)
    assert (outcome.code, outcome.body["state"]) == ("ok", "cancelled")
    assert outcome.body["cancel"]["outcome"] == "while_waiting"
    assert outcome.body["duration_ms"] >= 0
    assert "question" not in outcome.body


async def test_running_run_is_asked(stage: Stage) -> None:
    message, work = await stage.working()
    stage.mark()
    outcome = await stage.cancel("alex", work.run_id)
    assert (outcome.code, outcome.body["state"], outcome.body["version"]) == ("accepted", "running", 3)
    assert set(outcome.body["cancel"]) == {"requested_by", "requested_at", "deadline"}
    assert stage.event_types() == ["run.changed"]  # its agent hears of it by heartbeats: work never comes from the log
    (changed,) = stage.events()
    assert changed["payload"]["cancel"] == outcome.body["cancel"]
    assert changed["payload"]["run"]["cancel_requested_at"] == outcome.body["cancel"]["requested_at"]
    assert stage.message(message["id"])["trigger_state"] == "working"


async def test_repeats_change_nothing(stage: Stage) -> None:
    _, work = await stage.working()
    first = await stage.cancel("alex", work.run_id)
    stage.mark()
    for who in ("alex", "owner"):
        again = await stage.cancel(who, work.run_id)
        assert (again.code, again.body) == ("accepted", first.body)
    await stage.finish(work, "cancelled")
    ended = await stage.cancel("alex", work.run_id)
    stage.mark()
    again = await stage.cancel("owner", work.run_id)
    assert (ended.code, again.code, again.body) == ("ok", "ok", ended.body)
    assert stage.written() == {}


@pytest.mark.parametrize(
    ("end", "reason", "outcome"),
    [
        ("cancelled", None, "acknowledged"),
        ("cancelled", "user_cancelled", "acknowledged"),
        ("completed", None, "lost_to_completed"),
        ("failed", "runtime_error", "lost_to_failed"),
    ],
)
async def test_receipt_tells_what_became_of_the_request(
    stage: Stage, end: str, reason: str | None, outcome: str
) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    stage.mark()
    run = (await stage.finish(work, end, **({"reason": reason} if reason else {}))).body
    assert (run["state"], run["cancel"]["outcome"]) == (end, outcome)
    assert run["state_reason"] == "user_cancelled" if end == "cancelled" else True
    assert [kind for kind in stage.event_types() if kind.startswith("run.")] == [f"run.state_changed {end}"]


@pytest.mark.parametrize(
    ("start", "end", "reason", "outcome"),
    [
        ("queued", "cancelled", "user_cancelled", "before_start"),
        ("waiting_input", "cancelled", "user_cancelled", "while_waiting"),
        ("running", "cancelled", "user_cancelled", "acknowledged"),
        ("running", "cancelled", "cancel_timeout", "forced"),
        ("running", "cancelled", "access_revoked", "lost_to_cancelled"),
        ("queued", "cancelled", "agent_disabled", "lost_to_cancelled"),
        ("running", "failed", "stale", "lost_to_failed"),
        ("running", "completed", None, "lost_to_completed"),
        ("running", "waiting_input", None, None),
        ("queued", "running", None, None),
    ],
)
async def test_outcomes(stage: Stage, start: str, end: str, reason: str | None, outcome: str | None) -> None:
    (row,) = stage.sql("SELECT livebox.cancel_outcome_of(%s, %s, %s) AS outcome", start, end, reason)
    assert row["outcome"] == outcome


@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_other_end_is_told(stage: Stage, end: str) -> None:
    _, work = await stage.working()
    await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    stage.mark()
    outcome = await stage.cancel("alex", work.run_id)
    assert outcome.code == "run_ended"
    current = outcome.body["current"]
    assert (current["state"], current["version"], current["allowed"]) == (end, 3, [])
    assert current["changed_by"] == stage.id("lotse")
    assert current.get("state_reason") == ("runtime_error" if end == "failed" else None)
    assert stage.written() == {}


@pytest.mark.parametrize(
    ("who", "code"),
    [("alex", "ok"), ("owner", "ok"), ("sam", "forbidden"), ("robin", "not_found"), ("lotse", "forbidden")],
)
async def test_who_may_cancel(stage: Stage, who: str, code: str) -> None:
    message = await stage.queued("alex", "Support/General")
    (run,) = stage.runs(message["thread_id"])
    stage.mark()
    outcome = await stage.cancel(who, run["id"])
    assert outcome.code == code
    if code != "ok":
        assert outcome.body is None
        assert stage.written() == {}
        assert (await stage.cancel(who, str(uuid.uuid4()))).code == "not_found"


async def test_person_who_triggered_it_and_can_no_longer_read(stage: Stage) -> None:
    message = await stage.queued()
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    assert (await stage.cancel("alex", stage.runs(message["thread_id"])[0]["id"])).code == "not_found"


async def test_start_after_cancel_succeeds_at_once(stage: Stage) -> None:
    message, work = await stage.working()
    stage.wait(work.run_id)
    await stage.cancel("alex", work.run_id)
    again = await stage.say("alex", message["thread_id"])
    assert again["trigger_state"] == "received"
    assert (await stage.finish(work)).code == "run_ended"  # the worker that comes back
    assert [run["state"] for run in stage.runs(message["thread_id"])] == ["cancelled", "queued"]
