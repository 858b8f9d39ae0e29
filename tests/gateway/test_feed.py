"""The feed hands out the log once and in order, whoever writes and whatever becomes of the database."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from db import Caller, Database
from db.embedded import Server
from db.migrate import migrate
from livebox.gateway.feed import BATCH, FeedEvent
from tests.db.test_log_order import OTHER_PROCESS, ask
from tests.fixtures.database import connect
from tests.fixtures.operations import add_operations
from tests.fixtures.waiting import eventually
from tests.gateway.feed_stand import tail

WRITERS, EVENTS = 10, 30  # in each of two processes


def top(sql: Any) -> int:
    return int(ask(sql, "SELECT livebox.last_seq()")[0][0])


def all_of(sql: Any) -> list[int]:
    return [seq for (seq,) in ask(sql, "SELECT seq FROM livebox.events ORDER BY seq")]


async def append(db: Database, who: Caller, count: int = 1) -> None:
    for _ in range(count):
        assert (await db.lane.submit("t_append", who, {})).code == "ok"


async def test_twenty_writers_in_two_processes(db: Database, sql: Any, ada: Caller) -> None:
    """What is handed out is the log: nothing twice, nothing missed, never a smaller seq after a greater one."""
    async with tail(db, **{"gateway.poll_interval": 0.05}) as made:
        db.lane.on_commit = made.feed.wake

        async def write() -> None:
            await append(db, ada, EVENTS)

        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OTHER_PROCESS, db.dsn, ada.principal, str(WRITERS), str(EVENTS)
        )
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        assert await other.wait() == 0
        await made.follow(top(sql))
        assert [event.seq for event in made.events] == all_of(sql)
        assert len(made.events) == 2 * WRITERS * EVENTS


async def test_more_than_a_batch_at_once(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        sql.cursor().execute(
            "INSERT INTO livebox.events (type, resource_kind, resource_id, receive_action, payload)"
            " SELECT 'space.created', 'space', 'x', 'space.read', '{}' FROM generate_series(1, %s)",
            (2 * BATCH,),
        )
        await made.follow(top(sql))
        assert [event.seq for event in made.events] == all_of(sql)


async def test_it_begins_where_it_is_told_to(db: Database, sql: Any, ada: Caller) -> None:
    await append(db, ada, 3)
    first, *rest = all_of(sql)
    async with tail(db) as made:
        assert made.feed.position == rest[-1]
        await made.feed.stop()
        await made.feed.start(first)
        await made.follow(rest[-1])
        assert [event.seq for event in made.events] == rest


async def test_it_looks_without_being_woken(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db, **{"gateway.poll_interval": 0.05}) as made:
        await append(db, ada)
        await eventually(lambda: made.events, "the event")


async def test_woken_for_what_is_new_only(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        await append(db, ada)
        made.feed.wake(made.feed.position)
        assert not made.feed._woken.is_set()
        made.feed.wake(top(sql))
        await eventually(lambda: made.events, "the event")
        made.feed.wake(None)
        assert made.feed._woken.is_set()


async def test_nobody_waits_for_what_is_there(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        await append(db, ada)
        await made.follow(top(sql))
        assert await made.feed.reached(top(sql), 0)
        assert not made.feed.lagging


async def test_an_event_counts_when_it_is_handed_out_and_not_before(db: Database, sql: Any, ada: Caller) -> None:
    """Who was answered before the feed had come there knows: lagging, until it has."""
    async with tail(db) as made:
        gate, at = asyncio.Event(), asyncio.Event()

        async def before(event: FeedEvent) -> None:
            at.set()
            await gate.wait()

        caught: list[int] = []
        made.feed.before_event = before
        made.feed.on_caught_up = lambda: caught.append(made.feed.position)
        await append(db, ada)
        seq = top(sql)
        waiting = asyncio.create_task(made.feed.reached(seq, 30))
        await at.wait()
        assert not await made.feed.reached(seq, 0.01)
        assert made.feed.lagging
        assert not waiting.done()
        gate.set()
        assert await waiting
        assert not made.feed.lagging
        assert caught == [seq]
        assert [event.seq for event in made.events] == [seq]


async def test_a_hook_that_fails_stops_nothing(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        seen: list[int] = []

        def fail(event: FeedEvent) -> None:
            seen.append(event.seq)
            raise ValueError

        made.feed.on_event = fail
        await append(db, ada, 3)
        await made.follow(top(sql))
        assert seen == all_of(sql)


async def test_rights_that_cannot_be_brought_up_hold_the_event_back(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        tries: list[int] = []

        async def before(event: FeedEvent) -> None:
            tries.append(event.seq)
            if len(tries) < 3:
                raise ValueError

        made.feed.before_event = before
        await append(db, ada)
        await made.follow(top(sql))
        assert tries == 3 * all_of(sql)
        assert [event.seq for event in made.events] == all_of(sql)


def expire(sql: Any, seconds: float = -1) -> None:
    ask(sql, "SELECT livebox.expire_events(%s, 1000)", seconds)


async def test_a_log_that_was_cut_above_the_position_says_so(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        await append(db, ada, 3)
        await made.follow(top(sql))
        expire(sql)
        await append(db, ada)
        await made.follow(top(sql))
        assert made.gaps == [], "what was handed out may go"

        await made.feed.stop()
        await append(db, ada, 2)
        expire(sql)
        cut = top(sql)
        await append(db, ada)
        await made.feed.start(made.feed.position)
        await made.follow(top(sql))
        assert made.gaps == [cut]
        assert [event.seq for event in made.events][-1] == top(sql)


async def test_a_log_that_ends_before_the_position_says_so(db: Database, sql: Any, ada: Caller) -> None:
    await append(db, ada, 2)
    async with tail(db) as made:
        await made.feed.stop()
        await made.feed.start(top(sql) + 1000)
        await eventually(lambda: made.gaps == [top(sql)], "the gap")
        await append(db, ada)
        await made.follow(top(sql))
        assert [event.seq for event in made.events] == [top(sql)]


async def test_a_gap_is_told_until_it_is_heard(db: Database, sql: Any, ada: Caller) -> None:
    async with tail(db) as made:
        await made.feed.stop()
        await append(db, ada, 2)
        expire(sql)
        heard: list[int] = []

        async def gap(seq: int) -> None:
            heard.append(seq)
            if len(heard) < 3:
                raise ValueError

        made.feed.on_gap = gap
        await made.feed.start(0)
        await eventually(lambda: len(heard) == 3, "the gap")
        await eventually(lambda: made.feed.position == top(sql), "the position")


@pytest.mark.parametrize("cut", [True, False], ids=["terminated", "stopped"])
async def test_an_outage_of_the_database_loses_nothing(own_server: Server, cut: bool) -> None:
    dsn = own_server.dsn()
    migrate(dsn)
    sql = connect(dsn)
    ada = add_operations(sql)
    database = Database(dsn)
    await database.start()
    async with tail(database, **{"gateway.poll_interval": 0.05}) as made:
        await append(database, ada)
        if cut:
            ask(
                sql,
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'livebox reader%%'",
            )
        else:
            sql.close()
            await asyncio.to_thread(own_server.stop)
            await eventually(lambda: made.feed._task is not None and not made.feed._task.done(), "still there")
            await asyncio.to_thread(own_server.start)
            sql = connect(dsn)

        async def written() -> bool:
            try:
                await append(database, ada)
            except Exception:
                return False
            return True

        await eventually(written, "a write")
        await made.follow(top(sql))
        assert [event.seq for event in made.events] == all_of(sql)
    await database.stop()
    sql.close()
