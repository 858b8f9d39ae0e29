"""A reader that has seen an event never later sees one before it; without the lock of the log it would."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from typing import Any

import psycopg2

from db import Caller, Database
from tests.fixtures.waiting import eventually

WRITERS, EVENTS = 8, 25  # in each of two processes

OTHER_PROCESS = """
import asyncio, sys
from db import Caller, Database

async def main(dsn, principal, writers, events):
    database = Database(dsn)
    await database.start()
    async def write(number):
        for _ in range(events):
            answer = await database.lane.submit("t_append", Caller(principal), {"key": f"other {number}"})
            assert answer.code == "ok", answer
    await asyncio.gather(*map(write, range(writers)))
    await database.stop()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


def ask(sql: Any, statement: str, *values: object) -> list[Any]:
    with sql.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


async def test_a_polling_reader_misses_nothing_of_sixteen_writers_in_two_processes(
    db: Database, sql: Any, ada: Caller
) -> None:
    seen: list[int] = []

    async def write(number: int) -> None:
        for _ in range(EVENTS):
            assert (await db.lane.submit("t_append", ada, {"key": f"own {number}"})).code == "ok"

    async def follow() -> None:
        after = 0
        while len(seen) < 2 * WRITERS * EVENTS:
            for (seq,) in await db.readers.rows("SELECT seq FROM livebox.events WHERE seq > %s ORDER BY seq", after):
                seen.append(seq)
                after = seq

    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, db.dsn, ada.principal, str(WRITERS), str(EVENTS)
    )
    follower = asyncio.create_task(follow())
    await asyncio.gather(*map(write, range(WRITERS)))
    assert await other.wait() == 0
    everything = [seq for (seq,) in ask(sql, "SELECT seq FROM livebox.events ORDER BY seq")]
    assert len(everything) == 2 * WRITERS * EVENTS
    async with asyncio.timeout(60):
        await follower
    assert seen == everything


def interleaved(dsn: str, reader: Any, table: str, insert: str) -> tuple[list[int], list[int]]:
    """What a reader saw and what there is, when the writer that began first commits last (if it can)."""
    seen: list[int] = []

    def poll() -> None:
        for (seq,) in ask(reader, f"SELECT seq FROM {table} WHERE seq > %s ORDER BY seq", max(seen, default=0)):
            seen.append(seq)

    with closing(psycopg2.connect(dsn)) as early, closing(psycopg2.connect(dsn)) as late:
        early.cursor().execute(insert)
        cursor = late.cursor()
        cursor.execute("SET lock_timeout = '100ms'")
        late.commit()
        try:
            cursor.execute(insert)
            late.commit()
        except psycopg2.errors.LockNotAvailable:
            late.rollback()
            early.commit()
            poll()
            cursor.execute(insert)
            late.commit()
        poll()
        early.commit()
        poll()
    return seen, [seq for (seq,) in ask(reader, f"SELECT seq FROM {table} ORDER BY seq")]


def test_the_log_makes_the_second_writer_wait_for_the_first(database_dsn: str, sql: Any) -> None:
    seen, everything = interleaved(
        database_dsn,
        sql,
        "livebox.events",
        "INSERT INTO livebox.events (type, resource_kind, resource_id, receive_action, payload) "
        "VALUES ('space.created', 'space', 'x', 'space.read', '{}')",
    )
    assert seen == everything
    assert len(seen) == 2


def test_a_plain_sequence_loses_an_event_to_its_reader(database_dsn: str, sql: Any) -> None:
    """The naive twin: what the lock of the log is for."""
    sql.cursor().execute("CREATE TABLE naive (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)")
    seen, everything = interleaved(database_dsn, sql, "naive", "INSERT INTO naive (note) VALUES ('x')")
    assert everything == [1, 2]
    assert seen == [2]


async def test_a_batch_sees_all_that_was_committed_before_its_turn(db: Database, sql: Any, ada: Caller) -> None:
    """Its statement began before it got the lock; what it reads must not be older than the lock."""
    sql.cursor().execute(
        "CREATE FUNCTION livebox.t_count(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql AS $$ "
        "BEGIN RETURN livebox.done('ok', to_jsonb((SELECT count(*) FROM livebox.t_applied))); END $$"
    )
    with closing(psycopg2.connect(db.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT livebox.lock_log()")
        task = asyncio.create_task(db.lane.submit("t_count", ada, {}))
        waiting = (
            "SELECT FROM pg_stat_activity WHERE application_name = 'livebox lane' AND wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
        await eventually(lambda: ask(sql, waiting), "the wait for the log")
        cursor.execute("INSERT INTO livebox.t_applied (key) VALUES ('x')")
        other.commit()
    assert (await task).body == b"1"
