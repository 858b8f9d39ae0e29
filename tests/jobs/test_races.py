"""The watch against everybody else: what happens to a run first wins, and each run ends once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import closing
from typing import Any

import msgspec
import psycopg2
import pytest

from db import Database, InternalError
from tests.fixtures.waiting import eventually
from tests.jobs.watch import DELIVERY, STALE, Watch
from tests.runs.stage import Stage, Work

ROUNDS = 200
LOCK_OF_SWEEPS = 7813573131204158317


async def works(watch: Watch, count: int) -> list[Work]:
    """So many runs at work."""
    for _ in range(count):
        await watch.stage.queued()
    taken: list[Work] = []
    while len(taken) < count:
        taken += await watch.stage.claim("lotse", limit=100)
    for work in taken:
        assert (await watch.stage.start(work)).code == "ok"
    return taken


def ends(stage: Stage) -> Counter[str]:
    """How often each run ended, by its events."""
    rows = stage.sql(
        "SELECT resource_id FROM livebox.events WHERE type = 'run.state_changed' "
        "AND payload->'run'->>'state' IN ('completed', 'failed', 'cancelled')"
    )
    return Counter(row["resource_id"] for row in rows)


async def test_a_fresh_sign_of_life_wins(watch: Watch, db_of_another: Database) -> None:
    """Both at once, again and again, from two processes: never a run that was heard and is stale."""
    held = await works(watch, ROUNDS)
    watch.at(STALE)

    async def late(work: Work, judged: bool) -> None:
        for _ in range(random.randrange(6)):
            await asyncio.sleep(0)
        await (watch.reap(work.run_id) if judged else watch.sign(work, database=db_of_another))

    for start in range(0, ROUNDS, 20):
        chosen = held[start : start + 20]
        await asyncio.gather(*(late(work, judged) for work in chosen for judged in random.sample([True, False], 2)))
    found = Counter()
    for work in held:
        row = watch.row(work.run_id)
        heard = row["last_heartbeat_at"] == watch.time(STALE)
        found[row["state"]] += 1
        assert (row["state"], row["state_reason"]) == (("running", None) if heard else ("failed", "stale"))
    assert found["running"] + found["failed"] == ROUNDS
    assert min(found["running"], found["failed"]) > 0, "each of them came first at times"
    assert await watch.reaper.sweep() == 0
    assert set(ends(watch.stage).values()) <= {1}


async def test_a_sign_that_is_being_written_is_waited_for(watch: Watch, db_of_another: Database) -> None:
    """The reaper has already found the run when the sign comes; it looks again when it holds the row."""
    _, work = await watch.stage.working()
    watch.at(STALE)
    with closing(psycopg2.connect(watch.stage.dsn)) as other, other.cursor() as cursor:
        cursor.execute(
            "SELECT livebox.save_signs_of_life(%s::jsonb)", (msgspec.json.encode([{"run_id": work.run_id}]).decode(),)
        )
        sweep = asyncio.create_task(watch.another(db_of_another).sweep())
        await eventually(
            lambda: watch.stage.sql(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'livebox lane' "
                "AND wait_event_type = 'Lock'"
            ),
            "the reaper at the row",
        )
        other.commit()
    assert await sweep == 0
    assert watch.end(work.run_id) == ("running", None)


@pytest.mark.parametrize("rival", ["start", "cancel", "finish"])
async def test_whoever_is_first_against_the_watch(watch: Watch, db_of_another: Database, rival: str) -> None:
    """A start against the delivery, a person's cancel and an agent's finish against silence: one end, said by one."""
    if rival == "start":
        for _ in range(ROUNDS):
            await watch.stage.queued()
        held: list[Work] = []
        while len(held) < ROUNDS:
            held += await watch.stage.claim("lotse", limit=100)
    else:
        held = await works(watch, ROUNDS)
    watch.at(DELIVERY)
    codes: Counter[str] = Counter()

    async def act(work: Work) -> None:
        if rival == "start":
            outcome = await watch.stage.start(work)
        elif rival == "cancel":
            outcome = await watch.stage.cancel("alex", work.run_id)
        else:
            outcome = await watch.stage.finish(work)
        codes[outcome.code] += 1
        state, reason = watch.end(work.run_id)
        if outcome.code == "ok":  # who is told that it was done was first
            assert state == ("running" if rival == "start" else "completed")
        elif outcome.code == "run_ended":
            assert reason == ("agent_unavailable" if rival == "start" else "stale")

    for start in range(0, ROUNDS, 20):
        both = [
            what for work in held[start : start + 20] for what in (act(work), watch.reap(work.run_id, db_of_another))
        ]
        random.shuffle(both)
        await asyncio.gather(*both)
    assert set(codes) <= {"accepted" if rival == "cancel" else "ok", "run_ended"}
    ended = ends(watch.stage)
    for work in held:
        state, reason = watch.end(work.run_id)
        allowed = {
            "start": {("running", None), ("failed", "agent_unavailable")},
            "cancel": {("failed", "stale")},  # asked for or not: it is silent
            "finish": {("completed", None), ("failed", "stale")},
        }[rival]
        assert (state, reason) in allowed
        assert ended[work.run_id] == (state != "running")


async def test_two_processes_that_sweep_at_once_end_each_run_once(watch: Watch, db_of_another: Database) -> None:
    held = await works(watch, 50)
    watch.at(STALE)
    other = watch.another(db_of_another)
    done = sum(await asyncio.gather(*(reaper.sweep() for reaper in [watch.reaper, other] * 3)))
    done += await watch.reaper.sweep()
    assert done == 50
    assert ends(watch.stage) == {work.run_id: 1 for work in held}
    assert {watch.row(work.run_id)["version"] for work in held} == {3}


async def test_one_looks_at_a_time(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE)
    with closing(psycopg2.connect(watch.stage.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_OF_SWEEPS,))
        assert await watch.reaper.sweep() == 0
        other.rollback()
    assert await watch.reaper.sweep() == 1
    assert watch.end(work.run_id) == ("failed", "stale")


@pytest.mark.parametrize("chunk", [1, 2, 100])
async def test_a_run_that_cannot_be_ended_stops_nobody_else(stage: Stage, chunk: int) -> None:
    watch = Watch(stage, jobs__chunk=chunk)
    held = await works(watch, 5)
    broken = {held[0].run_id, held[2].run_id}
    stage.sql(
        "CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.id = ANY (TG_ARGV[0]::uuid[]) THEN RAISE EXCEPTION 'broken'; END IF; RETURN NEW; END $$"
    )
    stage.sql(
        "CREATE TRIGGER broken BEFORE UPDATE OF state ON livebox.runs FOR EACH ROW "
        f"EXECUTE FUNCTION public.broken('{{{','.join(broken)}}}')"
    )
    watch.at(STALE)
    assert await watch.reaper.sweep() == 3
    for work in held:
        assert watch.end(work.run_id)[0] == ("running" if work.run_id in broken else "failed")
    with pytest.raises(InternalError):
        await watch.reap(held[0].run_id)


async def test_chunks_are_as_large_as_they_are_said_to_be(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(stage, jobs__chunk=3)
    await works(watch, 8)
    watch.at(STALE)
    seen: list[int] = []
    rows = stage.db.readers.rows

    async def counted(statement: str, *values: object) -> list[Any]:
        found = await rows(statement, *values)
        if "silent" in values:
            seen.append(len(found))
        return found

    monkeypatch.setattr(stage.db.readers, "rows", counted)
    assert await watch.reaper.sweep() == 8
    assert seen == [3, 3, 2]


async def test_nothing_is_due_for_an_unknown_run(watch: Watch) -> None:
    watch.at(STALE)
    assert (await watch.reap("01933b7e-0000-7000-8000-000000000051")).code == "no_content"
