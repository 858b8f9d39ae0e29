"""Retention: what has expired goes, what has not stays, and the floor says so."""

from __future__ import annotations

import asyncio
from typing import Any

from db import Database
from livebox.jobs.retention import Retention
from livebox.settings import Settings
from livebox.world import World

HOUR = 3600


def settings(**given: float) -> Settings:
    chosen = {"events.retention": 2 * HOUR, "idempotency.retention": 2 * HOUR, "jobs.chunk": 3}
    return Settings.load({}, chosen | {name.replace("__", "."): value for name, value in given.items()})


def move_clock(sql: Any, seconds: int) -> None:
    with sql.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
            f"$$ SELECT clock_timestamp() + make_interval(secs => {seconds}) $$"
        )


def value(sql: Any, query: str) -> Any:
    with sql.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


async def post(db: Database, world: World, number: int) -> None:
    identity = f"00000000-0000-4000-8000-{number:012}"
    answer = await db.lane.submit(
        "create_message",
        world.caller("owner"),
        {
            "thread_id": world.threads["Engineering/General"],
            "body": {"body": "Good morning", "client_msg_id": identity},
            "limits": {"event.body_max_bytes": 4096, "run.followups_max": 10},
            "idempotency": {"key": identity, "hash": "0" * 64},
        },
    )
    assert answer.code == "created"


async def test_nothing_goes_before_its_time(db: Database, world: World, sql: Any) -> None:
    events, keys = (value(sql, f"SELECT count(*) FROM livebox.{name}") for name in ("events", "idempotency_keys"))
    assert events > 3
    assert keys > 3
    move_clock(sql, 2 * HOUR - 300)
    await Retention(db, settings()).sweep()
    assert value(sql, "SELECT count(*) FROM livebox.events") == events
    assert value(sql, "SELECT count(*) FROM livebox.idempotency_keys") == keys
    assert value(sql, "SELECT floor FROM livebox.log_state") == 0


async def test_what_has_expired_goes_in_chunks_and_the_floor_rises(db: Database, world: World, sql: Any) -> None:
    old = value(sql, "SELECT max(seq) FROM livebox.events")
    move_clock(sql, 2 * HOUR + 300)
    await post(db, world, 1)
    kept = value(sql, f"SELECT array_agg(seq ORDER BY seq) FROM livebox.events WHERE seq > {old}")
    assert kept
    await Retention(db, settings()).sweep()
    assert value(sql, "SELECT floor FROM livebox.log_state") == old
    assert value(sql, "SELECT array_agg(seq ORDER BY seq) FROM livebox.events") == kept
    assert value(sql, "SELECT count(*) FROM livebox.idempotency_keys") == 1
    assert value(sql, "SELECT count(*) FROM livebox.lane_batches") == 1

    owner = world.caller("owner")
    assert (await db.readers.call("list_events", owner, {"after": 0, "limit": 9})).code == "cursor_expired"
    assert (await db.readers.call("list_events", owner, {"after": old, "limit": 9})).code == "ok"


async def test_two_processes_may_sweep_at_once(db: Database, world: World, sql: Any) -> None:
    newest = value(sql, "SELECT max(seq) FROM livebox.events")
    move_clock(sql, 3 * HOUR)
    retention = Retention(db, settings(jobs__chunk=1))
    await asyncio.gather(*(retention.sweep() for _ in range(4)))
    assert value(sql, "SELECT floor FROM livebox.log_state") == newest
    assert value(sql, "SELECT count(*) FROM livebox.events") == 0


async def test_it_sweeps_by_itself_until_it_is_stopped(db: Database, world: World, sql: Any) -> None:
    move_clock(sql, 3 * HOUR)
    swept = asyncio.Event()

    class Watched(Retention):
        async def sweep(self) -> None:
            await super().sweep()
            swept.set()

    retention = Watched(db, settings(jobs__retention_interval=1))
    retention.start()
    await asyncio.wait_for(swept.wait(), 30)
    await retention.stop()
    assert value(sql, "SELECT count(*) FROM livebox.events") == 0
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "retention"]
