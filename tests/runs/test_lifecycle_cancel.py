"""The receipt of a request to cancel tells the truth, whatever comes at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from db import Database
from tests.runs.stage import LIMITS, Outcome, Stage, Work

ROUNDS = 200


async def test_deadline_is_set_with_the_request_and_stays(stage: Stage) -> None:
    _, work = await stage.working()
    receipt = (await stage.cancel("alex", work.run_id)).body["cancel"]
    row = stage.row(work.run_id)
    assert (row["cancel_deadline"] - row["cancel_requested_at"]).total_seconds() == LIMITS["run.cancel_timeout"]
    stage.later(10)
    again = await stage.cancel("owner", work.run_id)
    assert (again.code, again.body["cancel"]) == ("accepted", receipt)
    assert (await stage.beat(work)).body["cancel"] == receipt
    assert (await stage.run("alex", work.run_id)).body["cancel"] == receipt


async def test_holder_acknowledges_once(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    stage.mark()
    version = stage.row(work.run_id)["version"]
    beat = await stage.beat(work, cancel_seen=True)
    assert (beat.code, beat.body["cancel_requested"], beat.body["version"]) == ("ok", True, version + 1)
    assert beat.body["cancel"]["acknowledged_at"] >= beat.body["cancel"]["requested_at"]
    assert stage.event_types() == ["run.changed"]
    (event,) = stage.events()
    assert event["payload"]["cancel"] == beat.body["cancel"]
    assert event["resource_version"] == version + 1
    stage.mark()
    assert (await stage.beat(work, cancel_seen=True)).body == beat.body
    assert stage.written() == {}
    ended = (await stage.finish(work, "cancelled")).body
    assert ended["cancel"] == {**beat.body["cancel"], "outcome": "acknowledged"}


async def test_nothing_is_acknowledged_that_nobody_asked_for(stage: Stage) -> None:
    _, work = await stage.working()
    version = stage.row(work.run_id)["version"]
    stage.mark()
    beat = await stage.beat(work, cancel_seen=True)
    assert (beat.code, beat.body["cancel_requested"], "cancel" in beat.body) == ("ok", False, False)
    assert stage.row(work.run_id)["version"] == version
    assert stage.written() == {}


@pytest.mark.parametrize(
    ("state", "reason", "outcome"),
    [
        ("cancelled", "cancel_timeout", "forced"),
        ("cancelled", "thread_deleted", "lost_to_cancelled"),
        ("failed", "stale", "lost_to_failed"),
    ],
)
async def test_end_by_the_server_is_told_too(stage: Stage, state: str, reason: str, outcome: str) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    stage.sql(
        "SELECT livebox.transition_run(r, %s, %s, 'server', NULL, '{}', '{}') FROM livebox.runs r WHERE r.id = %s",
        state, reason, work.run_id,
    )  # fmt: skip
    row = stage.row(work.run_id)
    assert (row["cancel_outcome"], row["state_changed_by"]) == (outcome, None)
    late = await stage.finish(work, "cancelled")
    assert (late.code, "changed_by" in late.body["current"]) == ("run_ended", False)
    assert (await stage.cancel("alex", work.run_id)).code == ("ok" if state == "cancelled" else "run_ended")


# Races: two lanes of one database ----------------------------------------------------------------------------------


async def race(
    stage: Stage, other: Database, scene: Callable[[str], Awaitable[Work]], move: Callable[[Work], Awaitable[Any]]
) -> list[tuple[Work, Outcome, Any]]:
    """Each round: a scene, then the move and a cancel at once; what both were told."""
    thread = await stage.thread("owner", "Support/General")
    told = []
    for number in range(ROUNDS):
        work = await scene(thread)
        # Who is first in the queue of its lane alternates; who is first at the log's lock is left to chance.
        calls = [move(work), stage.cancel("alex", work.run_id, other)]
        found = await asyncio.gather(*(calls if number % 2 else reversed(calls)))
        moved, cancelled = found if number % 2 else reversed(found)
        told.append((work, cancelled, moved))
        if stage.row(work.run_id)["finished_at"] is None:
            assert (await stage.finish(work, "cancelled")).code == "ok"
    return told


async def queued(stage: Stage, thread: str) -> Work:
    await stage.say("alex", thread, "lotse")
    (work,) = await stage.claim("lotse")
    return work


async def running(stage: Stage, thread: str) -> Work:
    work = await queued(stage, thread)
    assert (await stage.start(work)).code == "ok"
    return work


def ends(stage: Stage, run: str) -> list[str]:
    """The end events of a run."""
    rows = stage.sql(
        "SELECT payload->'run'->>'state' AS state FROM livebox.events"
        " WHERE type = 'run.state_changed' AND resource_id = %s ORDER BY seq",
        run,
    )
    return [row["state"] for row in rows if row["state"] in ("completed", "failed", "cancelled")]


async def test_cancel_against_finish(stage: Stage, other: Database) -> None:
    told = await race(stage, other, lambda thread: running(stage, thread), lambda work: stage.finish(work))
    for work, cancelled, finished in told:
        row = stage.row(work.run_id)
        assert (finished.code, row["state"]) == ("ok", "completed")
        assert ends(stage, work.run_id) == ["completed"]
        if cancelled.code == "accepted":
            assert row["cancel_outcome"] == "lost_to_completed"
        else:
            assert (cancelled.code, row["cancel_requested_at"]) == ("run_ended", None)


async def test_cancel_against_start(stage: Stage, other: Database) -> None:
    told = await race(stage, other, lambda thread: queued(stage, thread), lambda work: stage.start(work))
    for work, cancelled, started in told:
        row = stage.row(work.run_id)
        assert (row["state"], row["state_reason"]) == ("cancelled", "user_cancelled")
        assert ends(stage, work.run_id) == ["cancelled"]
        if cancelled.code == "ok":  # never "cancelled" and then running
            assert (started.code, row["started_at"], row["cancel_outcome"]) == ("run_ended", None, "before_start")
        else:
            assert (cancelled.code, started.code, row["cancel_outcome"]) == ("accepted", "ok", "acknowledged")


async def test_cancel_against_claim(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", "Support/General")
    for number in range(ROUNDS):
        await stage.say("alex", thread, "lotse")
        (run,) = stage.sql("SELECT id FROM livebox.runs WHERE thread_id = %s AND state = 'queued'", thread)
        calls = [stage.claim("lotse"), stage.cancel("alex", run["id"], other)]
        found = await asyncio.gather(*(calls if number % 2 else reversed(calls)))
        claimed, cancelled = found if number % 2 else reversed(found)
        assert cancelled.code == "ok"
        assert stage.row(run["id"])["state"] == "cancelled"
        assert ends(stage, run["id"]) == ["cancelled"]
        for work in claimed:  # it was handed out before: then it is over
            assert (await stage.start(work)).code == "run_ended"
        assert await stage.claim("lotse") == []


async def test_cancel_against_await(stage: Stage, other: Database) -> None:
    told = await race(stage, other, lambda thread: running(stage, thread), lambda work: stage.ask(work))
    for work, cancelled, asked in told:
        row = stage.row(work.run_id)
        assert (row["state"], row["state_reason"], row["cancel_outcome"]) == (
            "cancelled", "user_cancelled", "while_waiting")  # fmt: skip
        assert asked.code == "ok"
        assert (cancelled.code, asked.body["state"]) in [("accepted", "cancelled"), ("ok", "waiting_input")]
        assert ends(stage, work.run_id) == ["cancelled"]


async def test_late_worker_after_a_cancel(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    await stage.finish(work, "cancelled")
    before = stage.image(work.run_id)
    for outcome in (
        await stage.finish(work), await stage.finish(work, "failed", reason="runtime_error"),
        await stage.step(work), await stage.beat(work), await stage.ask(work), await stage.resume(work),
    ):  # fmt: skip
        assert outcome.code == "run_ended"
        assert outcome.body["current"]["state"] == "cancelled"
    assert stage.image(work.run_id) == before
    assert stage.message(message["id"])["trigger_state"] == "cancelled"
