"""Each deadline: nothing happens just before it, and what is said of it happens at it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from livebox.telemetry import Telemetry
from tests.jobs.watch import CANCEL, DELIVERY, MOMENT, STALE, STALL, Watch

UNAVAILABLE = ("failed", "agent_unavailable")
HOUR = 3600
MONTH = 30 * 86400


def run_of(watch: Watch, message: dict[str, Any]) -> str:
    return str(watch.stage.runs(message["thread_id"])[0]["id"])


# --- delivery ---------------------------------------------------------------------------------------------------------


async def test_a_run_that_nobody_takes(watch: Watch) -> None:
    message = await watch.stage.queued()
    watch.stage.mark()
    await watch.holds_until(run_of(watch, message), DELIVERY, UNAVAILABLE)
    assert watch.stage.event_types() == ["run.state_changed failed", "message.updated failed"]
    row = watch.row(run_of(watch, message))
    assert (row["finished_at"], row["state_changed_by"]) == (watch.time(DELIVERY), None)
    assert watch.stage.message(message["id"])["trigger_state_reason"] == "agent_unavailable"


@pytest.mark.parametrize("claims", [[0], [0, 70, 140, 210, 280], [DELIVERY - MOMENT]])
async def test_claims_do_not_delay_it(watch: Watch, claims: list[float]) -> None:
    message = await watch.stage.queued()
    for seconds in claims:
        watch.at(seconds)
        assert await watch.stage.claim("lotse")
    await watch.holds_until(run_of(watch, message), DELIVERY, UNAVAILABLE)


async def test_a_run_that_began_in_time_is_not_late(watch: Watch) -> None:
    await watch.stage.queued()
    watch.at(DELIVERY - MOMENT)
    (work,) = await watch.stage.claim("lotse")
    await watch.stage.start(work)
    watch.at(DELIVERY + MOMENT)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("running", None)


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_an_answer_that_nobody_takes(watch: Watch) -> None:
    message, work = await watch.stage.working()
    watch.at(10)
    await watch.asks(work)
    watch.at(100)
    await watch.stage.say("alex", message["thread_id"])
    watch.at(200)
    await watch.stage.say("alex", message["thread_id"])  # the oldest counts
    await watch.holds_until(work.run_id, 100 + DELIVERY, UNAVAILABLE)


async def test_an_answer_that_was_taken_and_led_to_nothing(watch: Watch) -> None:
    message, work = await watch.stage.working()
    await watch.asks(work)
    watch.at(100)
    answer = await watch.stage.say("alex", message["thread_id"])
    watch.at(200)
    assert (await watch.stage.ack(work, answer["id"])).code == "ok"
    await watch.holds_until(work.run_id, 100 + DELIVERY, UNAVAILABLE)
    said = watch.stage.message(answer["id"])
    assert (said["trigger_state"], said["trigger_state_reason"]) == UNAVAILABLE


async def test_an_answer_that_was_heard_has_no_deadline(watch: Watch) -> None:
    message, work = await watch.stage.working()
    await watch.asks(work)
    watch.at(100)
    answer = await watch.stage.say("alex", message["thread_id"])
    await watch.stage.resume(work)
    await watch.stage.ack(work, answer["id"])
    await watch.asks(work)  # at the same moment: another question, with no answer
    watch.at(MONTH)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("waiting_input", None)


async def test_a_question_may_wait_for_ever(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.asks(work)
    watch.at(MONTH)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("waiting_input", None)


async def test_a_resumed_run_is_not_late(watch: Watch) -> None:
    message, work = await watch.stage.working()
    await watch.asks(work)
    await watch.stage.say("alex", message["thread_id"])
    watch.at(DELIVERY - MOMENT)
    assert (await watch.stage.control("resume_run", work)).code == "ok"
    watch.at(DELIVERY + MOMENT)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("running", None)


async def test_a_follow_up_of_a_run_at_work_is_no_answer(watch: Watch) -> None:
    message, work = await watch.stage.working()
    await watch.stage.say("alex", message["thread_id"])
    watch.at(DELIVERY + 1)
    await watch.sign(work)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("running", None)


async def test_a_follow_up_that_was_taken_before_the_question_is_no_answer(watch: Watch) -> None:
    message, work = await watch.stage.working()
    sent = await watch.stage.say("alex", message["thread_id"])
    await watch.stage.ack(work, sent["id"])
    await watch.asks(work)  # at the same moment
    watch.at(MONTH)
    assert await watch.reaper.sweep() == 0
    assert watch.end(work.run_id) == ("waiting_input", None)


# --- silence ----------------------------------------------------------------------------------------------------------


async def test_a_run_that_falls_silent(watch: Watch) -> None:
    message, work = await watch.stage.working()
    watch.stage.mark()
    await watch.holds_until(work.run_id, STALE, ("failed", "stale"))
    assert watch.stage.event_types() == ["run.state_changed failed", "message.updated failed"]
    assert watch.stage.message(message["id"])["trigger_state_reason"] == "stale"
    assert (await watch.stage.finish(work)).code == "run_ended"


async def test_silence_counts_from_the_last_sign(watch: Watch) -> None:
    _, work = await watch.stage.working()
    for seconds in (STALE - MOMENT, 1.5 * STALE, 2 * STALE):
        watch.at(seconds)
        await watch.sign(work)
        await watch.reaper.sweep()
    await watch.holds_until(work.run_id, 3 * STALE, ("failed", "stale"))


async def test_a_step_is_a_sign(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE - MOMENT)
    await watch.stage.step(work)
    await watch.holds_until(work.run_id, 2 * STALE - MOMENT, ("failed", "stale"))


async def test_what_this_process_heard_counts_before_it_is_written(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE)
    watch.life.alive(work.run_id)
    await watch.reaper.sweep()
    assert watch.end(work.run_id) == ("running", None)


async def test_what_this_process_heard_counts_however_it_is_judged(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE)
    await watch.sign(work)
    assert (await watch.reap(work.run_id)).code == "no_content"
    watch.at(2 * STALE)
    assert (await watch.reap(work.run_id)).code == "ok"


async def test_a_waiting_run_is_never_stale(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE - MOMENT)
    await watch.asks(work)
    watch.at(MONTH)
    assert await watch.reaper.sweep() == 0
    assert (await watch.reap(work.run_id)).code == "no_content"
    assert watch.end(work.run_id) == ("waiting_input", None)


async def test_a_worker_that_beats_for_another_run_does_not_keep_this_one(watch: Watch) -> None:
    """One worker dies with a run in its hands; its successor of the same name works on another."""
    _, dead = await watch.stage.working()
    _, alive = await watch.stage.working()
    for seconds in (60, STALE):
        watch.at(seconds)
        watch.life.alive(alive.run_id)
        await watch.life.flush()
    await watch.reaper.sweep()
    assert watch.end(dead.run_id) == ("failed", "stale")
    assert watch.end(alive.run_id) == ("running", None)


async def test_a_long_run_with_a_steady_beat(watch: Watch) -> None:
    """Many times longer than every deadline: neither stale nor stalled, and handed out once."""
    _, work = await watch.stage.working()
    for turn in range(1, 40):
        watch.at(turn * STALE / 2)
        watch.life.alive(work.run_id, progress=turn % 6 == 0)
        await watch.reaper.sweep()
        assert await watch.stage.claim("lotse") == []
    row = watch.row(work.run_id)
    assert (row["state"], row["stalled_since"], row["version"]) == ("running", None, 2)


# --- cancel -----------------------------------------------------------------------------------------------------------


async def test_a_request_to_cancel_that_is_not_answered(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(50)
    assert (await watch.stage.cancel("alex", work.run_id)).code == "accepted"
    watch.stage.mark()
    await watch.holds_until(work.run_id, 50 + CANCEL, ("cancelled", "cancel_timeout"))
    assert watch.row(work.run_id)["cancel_outcome"] == "forced"
    assert watch.stage.event_types() == ["run.state_changed cancelled", "message.updated cancelled"]


async def test_a_beating_agent_has_no_more_time_to_cancel(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.stage.cancel("alex", work.run_id)
    watch.at(CANCEL)
    await watch.sign(work, progress=True)
    await watch.reaper.sweep()
    assert watch.end(work.run_id) == ("cancelled", "cancel_timeout")


# --- stalls -----------------------------------------------------------------------------------------------------------


async def stalled(watch: Watch) -> Any:
    """A run that beats and does not move, seen to be stalled."""
    _, work = await watch.stage.working()
    for seconds in (100, 200, 300, STALL - MOMENT):
        watch.at(seconds)
        await watch.sign(work)
        await watch.reaper.sweep()
    assert watch.row(work.run_id)["stalled_since"] is None
    watch.at(STALL)
    watch.stage.mark()
    await watch.reaper.sweep()
    return work


async def test_a_run_that_beats_and_does_not_move(watch: Watch) -> None:
    work = await stalled(watch)
    row = watch.row(work.run_id)
    assert (row["state"], row["version"], row["stalled_since"]) == ("running", 3, watch.time(0))
    (event,) = watch.stage.events()
    assert (event["type"], event["actor_id"], event["resource_version"]) == ("run.changed", None, 3)
    assert event["payload"]["run"]["stalled_since"] == "2026-11-02T12:00:00.000000Z"
    await watch.reaper.sweep()
    assert watch.row(work.run_id)["version"] == 3
    watch.at(STALL + STALE - MOMENT)
    await watch.sign(work)
    await watch.reaper.sweep()
    assert watch.end(work.run_id) == ("running", None)  # however long: a stall is no end


async def moves_by_a_step(watch: Watch, work: Any) -> None:
    await watch.stage.step(work)


async def moves_here(watch: Watch, work: Any) -> None:
    watch.life.alive(work.run_id, progress=True)
    await watch.life.flush()


async def moves_elsewhere(watch: Watch, work: Any) -> None:
    await watch.sign(work, progress=True)
    await watch.reaper.sweep()


@pytest.mark.parametrize("moves", [moves_by_a_step, moves_here, moves_elsewhere])
async def test_a_stall_ends_with_progress(watch: Watch, moves: Any) -> None:
    work = await stalled(watch)
    watch.at(STALL + 10)
    watch.stage.mark()
    await moves(watch, work)
    row = watch.row(work.run_id)
    assert (row["stalled_since"], row["version"]) == (None, 4)
    assert [event["type"] for event in watch.stage.events()] == ["run.changed"]
    assert "stalled_since" not in watch.stage.events()[0]["payload"]["run"]


async def test_a_beat_ends_no_stall(watch: Watch) -> None:
    work = await stalled(watch)
    watch.at(STALL + 10)
    watch.life.alive(work.run_id)
    await watch.reaper.sweep()
    assert watch.row(work.run_id)["stalled_since"] == watch.time(0)


async def test_a_silent_run_that_stalled_is_stale(watch: Watch) -> None:
    work = await stalled(watch)
    await watch.holds_until(work.run_id, STALL - MOMENT + STALE, ("failed", "stale"))


# --- registered runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_registered_runs_have_none_of_these(watch: Watch, state: str) -> None:
    watch.stage.sql(
        "INSERT INTO livebox.runs (id, agent_id, state, state_changed_at, trigger_kind, billing_mode_expected, queued_at, "
        "started_at, registered_at, registered_by, agents) SELECT livebox.new_id(), %s, %s, t, 'registration', 'organization', "
        "t, CASE WHEN %s = 'running' THEN t END, t, %s, '{}' FROM (SELECT livebox.clock() AS t) AS now",
        watch.stage.id("lotse"), state, state, watch.stage.id("alex"),
    )  # fmt: skip
    watch.at(MONTH)
    assert await watch.reaper.sweep() == 0
    assert [run["state"] for run in watch.stage.sql("SELECT state FROM livebox.runs")] == [state]
    (run,) = watch.stage.sql("SELECT id::text FROM livebox.runs")
    assert (await watch.reap(run["id"])).code == "no_content"


async def test_a_registered_run_is_given_up_where_that_is_wanted(watch: Watch) -> None:
    stage = watch.stage
    watch = Watch(stage, registered__stale_after=HOUR)
    for state in ("running", "queued"):
        stage.sql(
            "INSERT INTO livebox.runs (agent_id, state, trigger_kind, billing_mode_expected, queued_at, started_at,"
            " last_progress_at, registered_at, registered_by, agents) SELECT %s, %s, 'registration', 'organization', t,"
            " CASE WHEN %s = 'running' THEN t END, t, t, %s, ARRAY[%s::uuid] FROM (SELECT livebox.clock() AS t) AS now",
            stage.id("lotse"), state, state, stage.id("alex"), stage.id("lotse"),
        )  # fmt: skip
    run = stage.sql("SELECT id::text, version FROM livebox.runs WHERE state = 'running'")[0]
    watch.at(HOUR / 2)
    caller, limits = (
        {"principal": stage.id("lotse")},
        watch.settings.limits(["registered.currency", "event.body_max_bytes"]),
    )
    args = {"run_id": run["id"], "body": {"steps": 1}, "limits": limits}
    stage.sql("SELECT livebox.update_run(%s, %s)", json.dumps(caller), json.dumps(args))
    await watch.holds_until(run["id"], HOUR * 1.5, ("failed", "stale"))
    assert [row["state"] for row in stage.sql("SELECT state FROM livebox.runs ORDER BY state")] == ["failed", "queued"]


# --- what is measured -------------------------------------------------------------------------------------------------


async def test_ends_by_the_server_are_measured(watch: Watch) -> None:
    telemetry = Telemetry(["agent_unavailable", "stale", "cancel_timeout"])
    watch.stage.db.lane.on_effects = telemetry.record
    _, silent = await watch.stage.working()
    _, asked = await watch.stage.working()
    await watch.stage.queued()
    await watch.stage.cancel("alex", asked.run_id)
    watch.at(DELIVERY)
    assert await watch.reaper.sweep() == 3
    lines = telemetry.exposition().decode().splitlines()
    ended = sorted(line for line in lines if line.startswith("livebox_run_finished_total"))
    assert ended == [
        'livebox_run_finished_total{reason="agent_unavailable",state="failed"} 1.0',
        'livebox_run_finished_total{reason="cancel_timeout",state="cancelled"} 1.0',
        'livebox_run_finished_total{reason="stale",state="failed"} 1.0',
    ]
    assert silent.run_id not in "".join(lines)
    telemetry.close()
