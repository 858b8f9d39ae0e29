"""Reads: every call is answered or refused in time, whatever becomes of the sessions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from db import Caller, Database, InternalError, Overloaded, StatementTimeout
from db.readers import Readers
from tests.fixtures.waiting import eventually

SLOW = "SELECT pg_sleep(%s)"
MINE = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'livebox reader%'"


def ask(sql: Any, statement: str, *values: object) -> list[Any]:
    with sql.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


async def test_a_read_gives_its_answer(db: Database, ada: Caller) -> None:
    assert (await db.readers.call("t_refuse", ada, {})).code == "forbidden"
    assert (await db.readers.call("t_sleep", ada, {"seconds": 0})).body == b'{"seconds": 0}'
    assert await db.readers.rows("SELECT 1, 'é'::text, NULL::text WHERE %s", True) == [(1, "é".encode(), None)]


async def test_a_reader_cannot_write(db: Database, sql: Any, ada: Caller) -> None:
    with pytest.raises(InternalError):
        await db.readers.call("t_apply", ada, {"key": "x"})
    assert ask(sql, "SELECT count(*) FROM livebox.t_applied") == [(0,)]


@pytest.mark.parametrize("name", ["get_run(); DROP TABLE x", "a b", "", '"x"'])
async def test_a_name_that_is_none_is_refused(db: Database, ada: Caller, name: str) -> None:
    with pytest.raises(ValueError, match="function name"):
        await db.readers.call(name, ada, {})


async def test_four_times_as_many_calls_as_sessions_are_all_answered(db: Database, ada: Caller) -> None:
    calls = [db.readers.call("t_sleep", ada, {"seconds": 0.02}) for _ in range(16)]
    answers = await asyncio.gather(*calls)
    assert [answer.code for answer in answers] == ["ok"] * 16


async def test_sessions_that_were_killed_idle_are_not_noticed(db: Database, sql: Any, ada: Caller) -> None:
    for _ in range(3):
        assert ask(sql, f"SELECT count(*), count(pg_terminate_backend(pid, 10000)) {MINE}") == [(4, 4)]
        answers = await asyncio.gather(*(db.readers.call("t_refuse", ada, {}) for _ in range(8)))
        assert {answer.code for answer in answers} == {"forbidden"}
        await eventually(lambda: ask(sql, f"SELECT count(*) {MINE}") == [(4,)], "four sessions")


async def test_a_session_that_was_killed_at_work_is_not_noticed(db: Database, sql: Any, ada: Caller) -> None:
    lock = "SELECT pg_advisory_lock(1)"
    ask(sql, lock)
    call = asyncio.create_task(db.readers.rows("SELECT pg_advisory_lock(1), 7"))
    pid = await eventually(lambda: ask(sql, f"SELECT pid {MINE} AND wait_event_type = 'Lock'"), "the wait")
    ask(sql, "SELECT pg_terminate_backend(%s, 10000)", pid[0][0])
    ask(sql, "SELECT pg_advisory_unlock(1)")
    assert (await call)[0][1] == 7


async def test_a_slow_read_times_out_and_its_session_lives_on(database_dsn: str, sql: Any) -> None:
    readers = Readers(database_dsn, size=1, statement_timeout=0.1)
    await readers.start()
    pids = ask(sql, f"SELECT pid {MINE}")
    for _ in range(3):
        with pytest.raises(StatementTimeout):
            await readers.rows(SLOW, 60)
    await readers.ping()
    assert ask(sql, f"SELECT pid {MINE}") == pids
    await readers.stop()


async def test_a_timeout_is_no_cancellation_to_a_task_group(database_dsn: str) -> None:
    """The driver says CancelledError, which a group would take for its own and swallow."""
    readers = Readers(database_dsn, size=1, statement_timeout=0.1)
    await readers.start()
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(readers.rows(SLOW, 60))
    assert caught.group_contains(StatementTimeout)
    await readers.stop()


async def test_a_call_does_not_wait_for_a_session_for_ever(database_dsn: str, sql: Any) -> None:
    readers = Readers(database_dsn, size=1, patience=0.05)
    await readers.start()
    ask(sql, "SELECT pg_advisory_lock(1)")
    busy = asyncio.create_task(readers.rows("SELECT pg_advisory_lock(1)"))
    await eventually(lambda: ask(sql, f"SELECT {MINE} AND wait_event_type = 'Lock'"), "the wait")
    waiting = asyncio.create_task(readers.ping())
    since = time.monotonic()
    await eventually(lambda: time.monotonic() > since + 0.05, "the end of its patience")
    ask(sql, "SELECT pg_advisory_unlock(1)")
    await busy
    with pytest.raises(Overloaded):
        await waiting
    await readers.ping()
    await readers.stop()


async def test_a_caller_that_went_away_frees_its_place(database_dsn: str, sql: Any) -> None:
    readers = Readers(database_dsn, size=1)
    await readers.start()
    ask(sql, "SELECT pg_advisory_lock(1)")
    busy = asyncio.create_task(readers.rows("SELECT pg_advisory_lock(1)"))
    await eventually(lambda: ask(sql, f"SELECT {MINE} AND wait_event_type = 'Lock'"), "the wait")
    waiting = [asyncio.create_task(readers.rows(SLOW, 60)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in (busy, *waiting):
        task.cancel()
    await asyncio.wait([busy, *waiting])
    pids = ask(sql, f"SELECT pid {MINE}")
    ask(sql, "SELECT pg_advisory_unlock(1)")
    await readers.ping()
    assert ask(sql, f"SELECT pid {MINE}") == pids  # the statement of the caller that left was not cut off
    await readers.stop()
