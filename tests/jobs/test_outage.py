"""An outage of the database is logged when it begins and when it has ended, not at every turn of every job."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from db import DatabaseUnavailable, Overloaded
from livebox.jobs import outage as outage_module
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from tests.fixtures.waiting import eventually

AWAY = DatabaseUnavailable("the database cannot be reached")


class Job:
    """A loop that does its work, or fails as it is told."""

    def __init__(self, name: str, outage: Outage, interval: float = 0.001) -> None:
        self.error: Exception | None = None
        self.turns = 0
        self.loop = Loop(name, interval, self._work, outage=outage)

    async def _work(self) -> None:
        self.turns += 1
        if self.error is not None:
            raise self.error

    async def several(self) -> None:
        """Returns after some more turns."""
        before = self.turns
        await eventually(lambda: self.turns > before + 5, "turns")


def seen(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line["event"], line["job"]) for line in lines]


async def test_it_is_told_once_however_many_jobs_see_it_and_how_often() -> None:
    outage = Outage()
    first, second = Job("first", outage), Job("second", outage)
    with capture_logs() as lines:
        first.loop.start()
        await first.several()
        assert lines == []
        first.error = AWAY
        await first.several()
        second.error = AWAY
        second.loop.start()
        await second.several()
        assert seen(lines) == [("database_away", "first")]
        assert lines[0]["reason"] == str(AWAY)
        assert "exc_info" not in lines[0]
        first.error = None
        await first.several()
        assert seen(lines) == [("database_away", "first")], "the other still misses it"
        second.error = None
        await second.several()
        assert seen(lines) == [("database_away", "first"), ("database_back", "second")]
        first.error = AWAY
        await first.several()
        assert seen(lines)[2:] == [("database_away", "first")], "the next one is told again"
        await first.loop.stop()
        await second.loop.stop()


@pytest.mark.parametrize("error", [Overloaded("busy"), RuntimeError("a bug")], ids=["busy", "bug"])
async def test_what_else_fails_is_told_with_all_that_is_known_and_ends_an_outage(error: Exception) -> None:
    job = Job("one", Outage())
    with capture_logs() as lines:
        job.error = AWAY
        job.loop.start()
        await job.several()
        job.error = error
        await job.several()
        await job.loop.stop()
    told = seen(lines)
    assert told[0] == ("database_away", "one")
    assert told.count(("database_back", "one")) == 1
    failed = [line for line in lines if line["event"] == "job_failed"]
    assert len(failed) > 1
    assert all(line["exc_info"] for line in failed)


async def test_a_job_of_long_pauses_looks_sooner_whether_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livebox.jobs.loop.RETRY", 0.001)
    assert outage_module.RETRY > 1
    job = Job("rare", Outage(), interval=3600)
    with capture_logs() as lines:
        job.error = AWAY
        job.loop.start()
        job.loop.wake()
        await job.several()
        job.error = None
        await eventually(lambda: ("database_back", "rare") in seen(lines), "the end")
        await job.loop.stop()
