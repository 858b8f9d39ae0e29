"""The second writer: sets of rows, never waiting for the lane and never deadlocking with it."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from db import Caller, Database, InternalError
from db.writer import Writer
from tests.fixtures.operations import add_person
from tests.fixtures.waiting import eventually


def ask(sql: Any, statement: str, *values: object) -> list[Any]:
    with sql.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


@pytest.fixture
def runs(sql: Any) -> list[str]:
    """Ids of five registered runs, running, in no order."""
    registrar = add_person(sql, "registrar").principal
    agent = ask(
        sql,
        "INSERT INTO livebox.principals (kind, handle, display_name, billing_mode, tool_class) "
        "VALUES ('agent', 'bot', 'Bot', 'organization', 'standard') RETURNING id::text",
    )[0][0]
    return [
        ask(
            sql,
            "INSERT INTO livebox.runs (id, agent_id, state, state_changed_at, trigger_kind, billing_mode_expected, "
            "queued_at, started_at, registered_at, registered_by, agents) "
            "SELECT gen_random_uuid(), %s, 'running', t, 'registration', 'organization', t, t, t, %s, "
            "ARRAY[%s]::uuid[] FROM (SELECT livebox.clock() - interval '1 hour' AS t) AS past RETURNING id::text",
            agent,
            registrar,
            agent,
        )[0][0]
        for _ in range(5)
    ]


HEARD = "SELECT last_heartbeat_at, last_progress_at, version FROM livebox.runs WHERE id = %s"


async def test_signs_of_life_are_saved_and_raise_no_version(db: Database, sql: Any, runs: list[str]) -> None:
    rows: list[dict[str, Any]] = [{"run_id": run} for run in runs]
    rows[1]["progress"] = True
    assert await db.writer.save("save_signs_of_life", rows) == [{"outcome": "saved"}] * 5
    heard = [ask(sql, HEARD, run)[0] for run in runs]
    assert all(beat is not None and version == 1 for beat, _, version in heard)
    assert [progress is not None for _, progress, _ in heard] == [False, True, False, False, False]


async def test_their_times_only_rise(db: Database, sql: Any, runs: list[str]) -> None:
    run = runs[0]
    await db.writer.save("save_signs_of_life", [{"run_id": run, "age": 5, "progress": True}])
    first = ask(sql, HEARD, run)
    await db.writer.save("save_signs_of_life", [{"run_id": run, "age": 500, "progress": True}])
    assert ask(sql, HEARD, run) == first
    twice = [{"run_id": run, "age": 400}, {"run_id": run, "age": 1, "progress": True}]
    assert await db.writer.save("save_signs_of_life", twice) == [{"outcome": "saved"}] * 2
    beat, progress, _ = ask(sql, HEARD, run)[0]
    assert beat == progress > first[0][0]
    ago = "SELECT extract(epoch FROM livebox.clock() - last_heartbeat_at) >= 1 FROM livebox.runs WHERE id = %s"
    assert ask(sql, ago, run) == [(True,)]


async def test_an_ended_or_unknown_run_takes_none(db: Database, sql: Any, runs: list[str]) -> None:
    ask(
        sql,
        "UPDATE livebox.runs SET state = 'completed', version = 2, version_reserved = 2, "
        "state_changed_at = livebox.clock(), finished_at = livebox.clock() WHERE id = %s RETURNING 1",
        runs[2],
    )
    rows = [{"run_id": runs[1]}, {"run_id": str(uuid.uuid4())}, {"run_id": runs[2]}, {"run_id": runs[0]}]
    saved, ended = {"outcome": "saved"}, {"outcome": "ended"}
    assert await db.writer.save("save_signs_of_life", rows) == [saved, ended, ended, saved]
    assert ask(sql, HEARD, runs[2])[0][0] is None
    assert await db.writer.save("save_signs_of_life", []) == []


async def test_a_locked_row_is_skipped_and_tried_again(db: Database, sql: Any, runs: list[str]) -> None:
    with closing(psycopg2.connect(db.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM livebox.runs WHERE id = %s FOR NO KEY UPDATE", (runs[3],))
        task = asyncio.create_task(db.writer.save("save_signs_of_life", [{"run_id": run} for run in runs]))
        others = "SELECT count(*) FROM livebox.runs WHERE last_heartbeat_at IS NOT NULL"
        await eventually(lambda: ask(sql, others) == [(4,)], "the rows that are free")
        assert await db.writer.save("save_signs_of_life", [{"run_id": runs[0]}]) == [{"outcome": "saved"}]
        assert not task.done()
        other.rollback()
    assert await task == [{"outcome": "saved"}] * 5
    assert ask(sql, others) == [(5,)]


async def test_a_row_that_stays_locked_is_given_up(database_dsn: str, sql: Any, runs: list[str]) -> None:
    writer = Writer(database_dsn, patience=0.05)
    await writer.start()
    with closing(psycopg2.connect(database_dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM livebox.runs WHERE id = %s FOR NO KEY UPDATE", (runs[3],))
        outcomes = await writer.save("save_signs_of_life", [{"run_id": run} for run in runs[2:]])
    assert [outcome["outcome"] for outcome in outcomes] == ["saved", "skipped", "saved"]
    await writer.stop()


async def test_it_does_not_wait_for_the_log(db: Database, sql: Any, runs: list[str]) -> None:
    with closing(psycopg2.connect(db.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT livebox.lock_log()")
        assert await db.writer.save("save_signs_of_life", [{"run_id": runs[0]}]) == [{"outcome": "saved"}]


async def test_lane_and_writer_never_deadlock(db: Database, sql: Any, ada: Caller, runs: list[str]) -> None:
    """The lane locks runs in any order and holds them for its whole batch; so does nobody else."""
    sql.cursor().execute(
        "CREATE FUNCTION livebox.t_touch(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql AS $$ BEGIN "
        "UPDATE livebox.runs SET model = args ->> 'note', version = version + 1, "
        "version_reserved = version_reserved + 1 WHERE id = (args ->> 'run_id')::uuid; RETURN livebox.done('ok', args); END $$"
    )
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

    async def touch(number: int) -> None:
        for turn in range(20):
            run = runs[(number * 3 + turn * 2) % 5]
            answer = await db.lane.submit("t_touch", ada, {"run_id": run, "note": f"{number} {turn}"})
            assert answer.code == "ok"

    async def save() -> None:
        for _ in range(20):
            outcomes = await db.writer.save("save_signs_of_life", [{"run_id": run} for run in runs])
            assert {outcome["outcome"] for outcome in outcomes} == {"saved"}

    await asyncio.gather(*map(touch, range(8)), *(save() for _ in range(4)))
    assert ask(sql, deadlocks) == [(0,)]
    assert ask(sql, "SELECT sum(version) FROM livebox.runs") == [(5 + 160,)]


async def test_killed_at_work_the_save_is_repeated(db: Database, sql: Any, runs: list[str]) -> None:
    """The first attempt waits inside the database, is killed there, and the rows are saved by the second."""
    sql.cursor().execute(
        "CREATE FUNCTION livebox.t_save(rows jsonb) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock(1); RETURN QUERY SELECT * FROM livebox.save_signs_of_life(rows); END $$"
    )
    ask(sql, "SELECT pg_advisory_lock(1)")
    task = asyncio.create_task(db.writer.save("t_save", [{"run_id": runs[0]}]))
    waits = (
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'livebox writer%' AND wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    ((pid,),) = await eventually(lambda: ask(sql, waits), "the wait")
    ask(sql, "SELECT pg_terminate_backend(%s, 10000)", pid)
    ask(sql, "SELECT pg_advisory_unlock(1)")
    assert await task == [{"outcome": "saved"}]


async def test_what_is_no_save_is_an_error(db: Database) -> None:
    with pytest.raises(InternalError):
        await db.writer.save("t_no_such_function", [{}])
    with pytest.raises(ValueError, match="function name"):
        await db.writer.save("x(); --", [{}])
