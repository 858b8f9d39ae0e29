"""Since when the service is there: an outage takes no run's time, and one process of several moves nothing."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import datetime
from typing import Any

import msgspec
import psycopg2
import pytest

from db import Database
from livebox.jobs.availability import Availability
from livebox.jobs.life import REAP_LIMITS
from tests.fixtures.waiting import eventually
from tests.jobs.watch import CANCEL, DELIVERY, GAP, MOMENT, NOON, STALE, STALL, Watch
from tests.runs.stage import LIMITS, Work

FAR = 10 * STALL


def service(watch: Watch) -> dict[str, Any]:
    return watch.stage.sql("SELECT available_since, touched_at FROM livebox.service")[0]


def since(watch: Watch) -> datetime:
    found: datetime = service(watch)["available_since"]
    return found


async def test_short_gaps_move_nothing(watch: Watch) -> None:
    before = since(watch)
    for seconds in (GAP, 2 * GAP, 3 * GAP - 1):
        watch.at(seconds, away=True)
        await watch.availability.touch()
        assert service(watch) == {"available_since": before, "touched_at": watch.time(seconds)}


async def test_a_longer_one_makes_it_now(watch: Watch) -> None:
    watch.at(GAP + MOMENT, away=True)
    await watch.availability.touch()
    assert service(watch) == {"available_since": watch.time(watch.now), "touched_at": watch.time(watch.now)}
    watch.at(2 * GAP, away=True)
    await watch.availability.touch()
    assert since(watch) == watch.time(GAP + MOMENT)


async def test_one_of_several_processes_starts_and_stops(watch: Watch, db_of_another: Database) -> None:
    other = Availability(db_of_another, watch.settings)
    before = since(watch)
    for turn in range(1, 9):
        watch.at(turn * GAP / 2, away=True)
        await watch.availability.touch()
        if turn in (2, 3, 8):  # comes, goes for long, comes again
            await other.touch()
    assert since(watch) == before


async def test_many_that_return_at_once_agree(watch: Watch, db_of_another: Database) -> None:
    other = Availability(db_of_another, watch.settings)
    watch.at(FAR, away=True)
    await asyncio.gather(*(one.touch() for one in [watch.availability, other] * 10))
    assert since(watch) == watch.time(FAR)


async def test_the_first_that_returns_says_since_when(watch: Watch) -> None:
    watch.at(FAR, away=True)
    with closing(psycopg2.connect(watch.stage.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT livebox.touch_service(%s)", (float(GAP),))
        watch.at(FAR + 1, away=True)
        touch = asyncio.create_task(watch.availability.touch())
        await eventually(
            lambda: watch.stage.sql(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'livebox writer%' "
                "AND wait_event_type = 'Lock'"
            ),
            "the second at the row",
        )
        other.commit()
    await touch
    assert service(watch) == {"available_since": watch.time(FAR), "touched_at": watch.time(FAR + 1)}


async def test_a_clock_that_goes_back_a_little_opens_no_gap(watch: Watch) -> None:
    before = service(watch)
    watch.at(-GAP / 2, away=True)
    await watch.availability.touch()
    assert service(watch) == before


async def test_a_clock_that_came_back_from_ahead_leaves_no_deadline_waiting(watch: Watch) -> None:
    watch.at(FAR, away=True)
    await watch.availability.touch()
    watch.at(GAP, away=True)
    await watch.availability.touch()
    assert service(watch) == {"available_since": watch.time(GAP), "touched_at": watch.time(GAP)}


async def asked(watch: Watch, work: Work) -> None:
    await watch.stage.cancel("alex", work.run_id)


async def answered(watch: Watch, work: Work) -> None:
    await watch.asks(work)
    await watch.stage.say("alex", str(watch.row(work.run_id)["thread_id"]))


async def nothing(watch: Watch, work: Work) -> None:
    pass


@pytest.mark.parametrize(
    ("prepare", "deadline", "end"),
    [
        (nothing, STALE, ("failed", "stale")),
        (asked, CANCEL, ("cancelled", "cancel_timeout")),
        (answered, DELIVERY, ("failed", "agent_unavailable")),
    ],
)
async def test_an_outage_takes_no_time_from_a_run(watch: Watch, prepare: Any, deadline: float, end: Any) -> None:
    """Whoever looks first after it, nothing has passed until somebody says that the service is back."""
    _, work = await watch.stage.working()
    await prepare(watch, work)
    before = watch.row(work.run_id)
    watch.at(FAR, away=True)
    assert await watch.reaper.sweep() == 0
    assert (await watch.reap(work.run_id)).code == "no_content"
    await watch.availability.touch()
    watch.at(FAR + deadline - MOMENT)
    await watch.reaper.sweep()
    assert watch.row(work.run_id) == before
    watch.at(FAR + deadline)
    await watch.reaper.sweep()
    assert watch.end(work.run_id) == end


async def test_after_an_outage_nothing_is_even_looked_at(watch: Watch) -> None:
    """Very many runs look due then; judging them all would keep the lane busy when it is needed most."""
    await watch.stage.working()
    limits = msgspec.json.encode(watch.settings.limits(REAP_LIMITS)).decode()
    look = "SELECT run_id FROM livebox.reap_due('silent', '-infinity', livebox.new_id(), %s::jsonb, 10)"
    watch.at(FAR, away=True)
    assert watch.stage.sql(look, limits) == []
    await watch.availability.touch()
    assert watch.stage.sql(look, limits) == []
    watch.at(FAR + STALE)
    assert len(watch.stage.sql(look, limits)) == 1


async def test_an_outage_takes_no_time_from_a_queued_run(watch: Watch) -> None:
    message = await watch.stage.queued()
    run = str(watch.stage.runs(message["thread_id"])[0]["id"])
    watch.at(FAR, away=True)
    assert (await watch.reap(run)).code == "no_content"
    await watch.availability.touch()
    watch.at(FAR + DELIVERY - MOMENT)
    assert await watch.reaper.sweep() == 0
    watch.at(FAR + DELIVERY)
    assert await watch.reaper.sweep() == 1
    assert watch.end(run) == ("failed", "agent_unavailable")


async def test_a_run_does_not_show_as_stalled_for_an_outage(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(FAR, away=True)
    await watch.availability.touch()
    watch.at(FAR + STALE - MOMENT)
    await watch.sign(work)
    watch.at(FAR + STALL - MOMENT - STALE / 2)
    await watch.sign(work)
    watch.at(FAR + STALL - MOMENT)
    assert await watch.reaper.sweep() == 0
    watch.at(FAR + STALL)
    assert await watch.reaper.sweep() == 1
    assert watch.row(work.run_id)["stalled_since"] == NOON


async def test_an_agent_that_beats_after_an_outage_goes_on(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(5 * STALE, away=True)
    await watch.availability.touch()
    watch.at(6 * STALE - MOMENT)
    await watch.sign(work)
    watch.at(6 * STALE + 1)
    assert await watch.reaper.sweep() == 0
    assert (await watch.stage.finish(work)).code == "ok"


async def test_a_token_that_expired_in_an_outage_can_still_be_renewed(watch: Watch) -> None:
    """A holder that could not renew in time because nobody was there goes on."""
    _, work = await watch.stage.working()
    ttl, grace = LIMITS["invocation.ttl"], LIMITS["run.renew_grace"]
    work.invocation["expires_at"] = watch.time(ttl).timestamp()
    watch.at(FAR, away=True)
    assert ttl + grace < FAR
    await watch.availability.touch()
    watch.at(FAR + grace - MOMENT)
    assert (await watch.stage.finish(work)).code == "token_expired"
    assert (await watch.stage.control("renew_invocation_token", work)).code == "ok"
    watch.at(FAR + grace)
    assert (await watch.stage.control("renew_invocation_token", work)).code == "token_expired"


async def test_it_knows_the_time_of_the_database(watch: Watch) -> None:
    watch.at(FAR)
    await watch.availability.touch()
    passed = watch.availability.now() - watch.time(FAR).timestamp()
    assert 0 <= passed < 3600
