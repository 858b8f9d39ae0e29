"""A running run whose holder's gateway session closed ends, unless the holder is heard of again in time."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from tests.jobs.watch import DELIVERY, INTERRUPT, MOMENT, STALE, Watch
from tests.runs.stage import LIMITS, Work

ENDED = ("failed", "interrupted")
FAR = 10_000.0
ABSENT = "01933b7e-0000-7000-8000-00000000dea{}"


async def test_a_run_whose_holder_left(watch: Watch) -> None:
    message, work = await watch.stage.working()
    watch.at(20)
    assert await watch.session(work, open=False) == "saved"
    watch.stage.mark()
    await watch.holds_until(work.run_id, 20 + INTERRUPT, ENDED)
    assert watch.stage.event_types() == ["run.state_changed failed", "message.updated failed"]
    assert watch.stage.message(message["id"])["trigger_state_reason"] == "interrupted"


async def test_it_counts_from_when_the_session_closed(watch: Watch) -> None:
    """However late that could be written."""
    _, work = await watch.stage.working()
    watch.at(30)
    await watch.session(work, open=False, age=10)
    await watch.holds_until(work.run_id, 20 + INTERRUPT, ENDED)


async def test_without_a_session_there_is_nothing_to_interrupt(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.holds_until(work.run_id, STALE, ("failed", "stale"))


async def test_an_open_session_alone_keeps_no_run_alive(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE - MOMENT)
    await watch.session(work, open=True)
    await watch.holds_until(work.run_id, STALE, ("failed", "stale"))


async def beats_elsewhere(watch: Watch, work: Work) -> None:
    await watch.sign(work)


async def moves(watch: Watch, work: Work) -> None:
    await watch.sign(work, progress=True)


async def steps(watch: Watch, work: Work) -> None:
    assert (await watch.stage.step(work)).code in ("ok", "created")


async def sees_the_cancel(watch: Watch, work: Work) -> None:
    await watch.stage.cancel("alex", work.run_id)
    assert (await watch.stage.beat(work, cancel_seen=True)).code == "ok"
    watch.stage.sql(
        "UPDATE livebox.runs SET cancel_deadline = %s, version = version + 1 WHERE id = %s",
        watch.time(FAR),
        work.run_id,
    )


@pytest.mark.parametrize("sign", [beats_elsewhere, moves, steps, sees_the_cancel])
async def test_a_sign_after_it_saves_the_run(watch: Watch, sign: Any) -> None:
    """An agent that goes on over REST needs no session. From then on silence counts, as without one."""
    _, work = await watch.stage.working()
    watch.at(20)
    await watch.session(work, open=False)
    watch.at(20 + INTERRUPT - MOMENT)
    await sign(watch, work)
    watch.at(20 + INTERRUPT)
    assert await watch.reaper.sweep() == 0
    await watch.holds_until(work.run_id, 20 + INTERRUPT - MOMENT + STALE, ("failed", "stale"))


async def test_a_sign_before_it_does_not(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(20)
    await watch.sign(work)
    await watch.session(work, open=False)
    await watch.holds_until(work.run_id, 20 + INTERRUPT, ENDED)


async def test_a_session_that_comes_back_saves_the_run(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(20)
    await watch.session(work, open=False)
    watch.at(20 + INTERRUPT - MOMENT)
    assert await watch.session(work, open=True) == "saved"
    watch.at(20 + INTERRUPT)
    assert await watch.reaper.sweep() == 0
    assert watch.row(work.run_id)["session_closed_at"] is None
    watch.at(100)
    await watch.sign(work)
    await watch.session(work, open=False)
    await watch.holds_until(work.run_id, 100 + INTERRUPT, ENDED)


async def test_an_outage_takes_no_time_from_who_comes_back(watch: Watch) -> None:
    """The server that they would come back to was not there."""
    _, work = await watch.stage.working()
    await watch.session(work, open=False)
    before = watch.row(work.run_id)
    watch.at(FAR, away=True)
    assert (await watch.reap(work.run_id)).code == "no_content"
    await watch.availability.touch()
    watch.at(FAR + INTERRUPT - MOMENT)
    assert await watch.reaper.sweep() == 0
    assert watch.row(work.run_id) == before
    watch.at(FAR + INTERRUPT)
    assert await watch.reaper.sweep() == 1
    assert watch.end(work.run_id) == ENDED


async def test_a_request_to_cancel_that_is_due_comes_first(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.stage.cancel("alex", work.run_id)
    await watch.session(work, open=False)
    watch.at(FAR)
    await watch.reaper.sweep()
    assert watch.end(work.run_id) == ("cancelled", "cancel_timeout")


async def test_a_waiting_run_is_not_interrupted(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.asks(work)
    await watch.session(work, open=False)
    watch.at(5 * INTERRUPT)
    assert await watch.reaper.sweep() == 0
    assert (await watch.stage.resume(work)).code == "ok"
    await watch.holds_until(work.run_id, 5 * INTERRUPT + STALE, ("failed", "stale"))


async def test_its_follow_ups_open_the_next_run(watch: Watch) -> None:
    message, work = await watch.stage.working()
    taken = await watch.stage.say("alex", message["thread_id"], "lotse")
    assert (await watch.stage.ack(work, taken["id"])).code == "ok"
    await watch.session(work, open=False)
    watch.at(INTERRUPT)
    await watch.reaper.sweep()
    assert [run["state"] for run in watch.stage.runs(message["thread_id"])] == ["failed", "queued"]


async def test_a_superseded_claim_s_session_says_nothing(watch: Watch) -> None:
    await watch.stage.queued()
    (late,) = await watch.stage.claim("lotse")
    watch.at(LIMITS["run.claim_lease"])
    (work,) = await watch.stage.claim("lotse")
    assert work.run_id == late.run_id
    before = watch.row(work.run_id)
    assert await watch.session(late, open=False) == "gone"
    assert await watch.session(late, open=True) == "gone"
    assert watch.row(work.run_id) == before


async def test_a_claim_that_changes_under_it_counts_for_nothing(watch: Watch) -> None:
    """The claim is looked at again under the lock: it may have changed since the row was found."""
    await watch.stage.queued()
    (work,) = await watch.stage.claim("lotse")
    claims = [ABSENT.format(1), work.invocation["claim_id"], ABSENT.format(2)]
    rows = [{"run_id": work.run_id, "claim_id": claim, "open": False, "age": n} for n, claim in enumerate(claims)]
    found = watch.stage.sql("SELECT livebox.save_presence(%s::jsonb) AS result", json.dumps(rows))
    outcomes = sorted((row["result"]["position"], row["result"]["outcome"]) for row in found)
    assert outcomes == [(0, "gone"), (1, "saved"), (2, "gone")]
    assert watch.row(work.run_id)["session_closed_at"] == watch.time(watch.now - 1)


async def test_a_new_claim_begins_anew(watch: Watch) -> None:
    await watch.stage.queued()
    (late,) = await watch.stage.claim("lotse")
    assert await watch.session(late, open=False) == "saved"
    watch.at(LIMITS["run.claim_lease"])
    (work,) = await watch.stage.claim("lotse")
    assert watch.row(work.run_id)["session_closed_at"] is None


async def test_of_an_ended_run_nothing_is_written(watch: Watch) -> None:
    _, work = await watch.stage.working()
    await watch.stage.finish(work)
    before = watch.row(work.run_id)
    assert await watch.session(work, open=False) == "gone"
    assert watch.row(work.run_id) == before


async def test_a_locked_run_is_tried_again(watch: Watch) -> None:
    _, work = await watch.stage.working()
    with closing(psycopg2.connect(watch.stage.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM livebox.runs WHERE id = %s FOR NO KEY UPDATE", (work.run_id,))
        rows = f'[{{"run_id": "{work.run_id}", "claim_id": "{work.invocation["claim_id"]}", "open": false}}]'
        assert watch.stage.sql("SELECT livebox.save_presence(%s::jsonb)", rows) == []
    assert await watch.session(work, open=False) == "saved"


async def test_a_waiting_run_stays_with_a_holder_that_is_there(watch: Watch) -> None:
    """An open session is presence enough; when it closed, the run can be handed on after the grace."""
    message, work = await watch.stage.waiting()
    await watch.stage.say("alex", message["thread_id"])
    grace = LIMITS["run.holder_grace"]
    for seconds in range(0, 4 * grace, grace // 4):
        watch.at(seconds)
        await watch.session(work, open=True)
        assert await watch.stage.claim("lotse") == []
    await watch.session(work, open=False)
    watch.at(watch.now + grace - MOMENT)
    assert await watch.stage.claim("lotse") == []
    assert watch.now < DELIVERY
    watch.at(watch.now + MOMENT)
    (taken,) = await watch.stage.claim("lotse")
    assert (taken.run_id, taken.item["kind"]) == (work.run_id, "resume")
