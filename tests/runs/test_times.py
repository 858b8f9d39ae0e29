"""Times of a run: one clock, never backwards, and durations that add up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.runs.stage import Stage

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


class Clock:
    """The database's clock, moved by hand."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        stage.sql("CREATE TABLE public.hands (at timestamptz)")
        stage.sql("INSERT INTO public.hands VALUES (%s)", NOON)
        stage.sql(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE "
            "AS $$ SELECT at FROM public.hands $$"
        )

    def move(self, seconds: float) -> None:
        self._stage.sql("UPDATE public.hands SET at = at + %s", timedelta(seconds=seconds))


def at(run: dict[str, Any], name: str) -> datetime:
    return datetime.fromisoformat(run[name])


async def test_times_of_a_whole_run(stage: Stage) -> None:
    clock = Clock(stage)
    message = await stage.queued()
    clock.move(10)
    (work,) = await stage.claim("lotse")
    clock.move(10)
    started = await stage.start(work)
    clock.move(5)
    await stage.step(work)
    clock.move(1.5)
    ended = await stage.finish(work)
    run = ended.body
    assert at(run, "queued_at") == NOON
    assert at(run, "claimed_at") == NOON + timedelta(seconds=10)
    assert at(run, "started_at") == NOON + timedelta(seconds=20)
    assert at(run, "finished_at") == NOON + timedelta(seconds=26.5)
    assert run["duration_ms"] == 6500
    (step,) = run["steps"].values()
    assert step["duration_ms"] == 1500
    assert started.effects[0]["queued_s"] == 20
    assert ended.effects[0]["duration_s"] == 6.5
    assert stage.message(message["id"])["trigger_state_at"] == NOON + timedelta(seconds=26.5)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_clock_that_goes_back_shortens_nothing_below_zero(stage: Stage, end: str) -> None:
    clock = Clock(stage)
    await stage.queued()
    clock.move(-3600)
    (work,) = await stage.claim("lotse")
    clock.move(-3600)
    await stage.start(work)
    await stage.step(work)
    clock.move(-3600)
    if end == "cancelled":
        await stage.cancel("alex", work.run_id)
    run = (await stage.finish(work, end, **({"reason": "because"} if end == "failed" else {}))).body
    assert at(run, "queued_at") <= at(run, "claimed_at") <= at(run, "started_at") <= at(run, "finished_at")
    assert run["duration_ms"] == 0
    for step in run["steps"].values():
        assert step["started_at"] <= step["finished_at"] == run["finished_at"]


async def test_queued_run_that_is_cancelled_has_no_duration(stage: Stage) -> None:
    clock = Clock(stage)
    message = await stage.queued()
    clock.move(-60)
    run = (await stage.cancel("alex", stage.runs(message["thread_id"])[0]["id"])).body
    assert at(run, "finished_at") == NOON
    assert "duration_ms" not in run
    assert "started_at" not in run


async def test_members_of_time_in_each_state(stage: Stage) -> None:
    await stage.queued()
    queued = (await stage.read("list_active_runs", "alex")).body["items"][0]
    (work,) = await stage.claim("lotse")
    running = (await stage.start(work)).body
    stage.wait(work.run_id)
    waiting = (await stage.run("alex", work.run_id)).body
    for run, started in ((queued, False), (running, True), (waiting, True)):
        assert ("started_at" in run) == started
        assert not {"finished_at", "duration_ms", "state_reason"} & set(run)


async def test_promoted_run_is_queued_when_the_old_one_ended(stage: Stage) -> None:
    clock = Clock(stage)
    message, work = await stage.working()
    await stage.say("alex", message["thread_id"])
    clock.move(-3600)
    await stage.finish(work)
    old, new = sorted(stage.runs(message["thread_id"]), key=lambda run: run["state"])
    assert (old["state"], new["state"]) == ("completed", "queued")
    assert new["queued_at"] >= old["finished_at"]
