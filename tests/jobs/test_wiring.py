"""A whole server watches by itself: it starts with everything, hears over HTTP, and writes what it heard at its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy

SLOW = 3600


def test_what_was_heard_is_written_when_the_server_stops(world_copy: WorldCopy, tmp_path: Path) -> None:
    with live_server(
        world_copy,
        tmp_path,
        run__life_flush_interval=SLOW,
        run__delivery_timeout=86400,
        run__cancel_timeout=86400,
        run__holder_grace=86400,
        run__stall_after=86400,
        run__stale_after=86400,
        run__interrupt_grace=86400,
        service__gap=4 * SLOW,
        jobs__reap_interval=SLOW,
    ) as live:
        stage = Stage(live)
        held = stage.running()
        written = "SELECT last_heartbeat_at FROM livebox.runs WHERE id = %s"
        before = stage.sql(written, held.id)
        stage.as_("lotse").call("heartbeatRun", {}, headers=held.headers, run_id=held.id).ok()
        assert stage.sql(written, held.id) == before
    assert stage.sql(written, held.id) > before
    stage.close()


async def test_a_server_flushes_touches_and_reaps_by_itself(own_live: Live) -> None:
    stage = Stage(own_live)
    held = stage.running()
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
        "$$ SELECT clock_timestamp() + interval '25 s' $$"
    )
    for job in (own_live.app._availability, own_live.app.life):
        own_live.loop.call_soon_threadsafe(job.wake)
    touched = "SELECT 1 FROM livebox.service WHERE touched_at > clock_timestamp() + interval '20 s'"
    await eventually(lambda: stage.sql(touched), "a touch")
    for late in range(50, 201, 25):
        stage.sql(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
            f"$$ SELECT clock_timestamp() + interval '{late} s' $$"
        )
        own_live.loop.call_soon_threadsafe(own_live.app._availability.wake)
        await eventually(lambda late=late: stage.sql(touched.replace("20 s", f"{late - 5} s")), "a touch")
    own_live.loop.call_soon_threadsafe(own_live.app._reaper.wake)
    ended = "SELECT state_reason FROM livebox.runs WHERE id = %s AND state = 'failed'"
    assert await eventually(lambda: stage.sql(ended, held.id), "the end") == [("stale",)]
    names = {task.get_name() for task in asyncio.all_tasks(own_live.loop)}
    assert {"availability", "life", "reaper", "retention"} <= names
    stage.close()
