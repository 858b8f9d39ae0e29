"""What of sessions comes to the rows of the runs that they hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from db import Database, DatabaseUnavailable
from livebox.gateway.presence import Presence
from livebox.invocations import Invocation
from livebox.key import Value
from livebox.settings import Settings
from tests.fixtures.waiting import eventually
from tests.runs.conftest import other, stage
from tests.runs.stage import Stage, Work

__all__ = ["other", "stage"]


class Device:
    """A session that holds runs."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self.held: dict[str, Invocation] = {}
        presence.begun(self)

    def hold(self, work: Work) -> None:
        self.held[work.run_id] = Invocation(agent_id="", **work.invocation)
        self._presence.holds(self, work.run_id)

    def release(self, run_id: str) -> None:
        del self.held[run_id]

    def close(self) -> None:
        self._presence.ended(self)


def presence_of(stage: Stage, database: Database | None = None, **chosen: Value) -> Presence:
    given = {name.replace("__", "."): value for name, value in chosen.items()}
    return Presence(database or stage.db, Settings.load({}, given))


def closed(stage: Stage, work: Work) -> Any:
    return stage.row(work.run_id)["session_closed_at"]


async def test_the_last_session_that_closes_is_written(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage)
    first, second, idle = Device(presence), Device(presence), Device(presence)
    first.hold(work)
    second.hold(work)
    await presence.write()
    assert closed(stage, work) is None
    first.close()
    idle.close()
    await presence.write()
    assert closed(stage, work) is None
    second.close()
    await presence.write()
    assert closed(stage, work) is not None


async def test_who_comes_back_before_it_is_written_was_never_away(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage)
    first, back = Device(presence), Device(presence)
    first.hold(work)
    await presence.write()
    first.close()
    back.hold(work)
    stage.later(10)
    await presence.write()
    assert closed(stage, work) is None


async def test_who_comes_back_is_there_again(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage)
    first, back = Device(presence), Device(presence)
    first.hold(work)
    first.close()
    await presence.write()
    assert closed(stage, work) is not None
    back.hold(work)
    await presence.write()
    assert closed(stage, work) is None


async def test_an_open_session_is_seen_again_and_again(stage: Stage) -> None:
    """But not written more often than is needed."""
    _, work = await stage.working()
    presence = presence_of(stage, run__holder_grace=1, run__life_flush_interval=0.1, run__interrupt_grace=1)
    device = Device(presence)
    device.hold(work)
    await presence.write()
    seen = stage.row(work.run_id)["holder_seen_at"]
    await presence.write()
    assert stage.row(work.run_id)["holder_seen_at"] == seen
    presence.start()
    await eventually(lambda: stage.row(work.run_id)["holder_seen_at"] > seen, "another look")
    await presence.stop()


async def test_it_is_written_when_it_happens(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage, run__holder_grace=4000, run__interrupt_grace=4000)
    presence.start()
    device = Device(presence)
    device.hold(work)
    device.close()
    await eventually(lambda: closed(stage, work), "the row")
    await presence.stop()


async def test_an_outage_makes_it_late_and_not_wrong(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage)
    device = Device(presence)
    device.hold(work)
    await presence.write()
    (before,) = stage.sql("SELECT livebox.clock() AS at")
    device.close()
    save = stage.db.writer.save

    async def away(function: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise DatabaseUnavailable("away")

    stage.db.writer.save = away  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        await presence.write()
    stage.db.writer.save = save  # type: ignore[method-assign]
    (after,) = stage.sql("SELECT livebox.clock() AS at")
    presence._closed = {hold: at - 100 for hold, at in presence._closed.items()}
    await presence.write()
    late = 100 + (stage.sql("SELECT livebox.clock() AS at")[0]["at"] - before["at"]).total_seconds()
    assert 0 <= (after["at"] - closed(stage, work)).total_seconds() <= late


async def test_what_ended_is_let_go(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage)
    device = Device(presence)
    device.hold(work)
    await stage.finish(work)
    await presence.write()
    assert device.held == {}
    device.close()
    await presence.write()
    assert not presence._closed


async def test_a_claim_that_another_one_replaced_is_let_go(stage: Stage) -> None:
    await stage.queued()
    (late,) = await stage.claim("lotse")
    presence = presence_of(stage)
    device, another = Device(presence), Device(presence)
    device.hold(late)
    stage.later(61)
    (work,) = await stage.claim("lotse")
    another.hold(work)
    await presence.write()
    assert device.held == {}
    assert another.held
    device.close()
    await presence.write()
    assert closed(stage, work) is None


async def test_a_server_that_stops_says_that_its_sessions_closed(stage: Stage) -> None:
    _, work = await stage.working()
    presence = presence_of(stage, run__holder_grace=4000, run__interrupt_grace=4000)
    presence.start()
    await asyncio.sleep(0)
    device = Device(presence)
    device.hold(work)
    device.close()
    await presence.end()
    assert closed(stage, work) is not None


async def test_a_session_of_another_process_is_seen(stage: Stage, other: Database) -> None:
    """One process says that its session closed; the other still has one, and says so within the grace."""
    _, work = await stage.working()
    here, there = presence_of(stage), presence_of(stage, other)
    device, another = Device(here), Device(there)
    device.hold(work)
    another.hold(work)
    await here.write()
    await there.write()
    device.close()
    await here.write()
    there._written.clear()  # the time of the next look has come
    await there.write()
    assert closed(stage, work) is None
