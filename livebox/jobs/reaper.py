"""Ends runs whose time is up, and shows which ones do not move.

There is no leader: every process sweeps, each at moments of its own. A sweep asks for the runs that look due and hands
each to the write lane, where it is judged again under its lock and changed like by everybody else. So it does not
matter who sweeps, how often, or how long ago it looked: whatever happened to a run in the meantime wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from db import SYSTEM, Answer, Database, InternalError
from livebox.jobs.life import REAP_LIMITS, Life
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.log import logger
from livebox.settings import Settings

CAUSES: Final = ("uncancelled", "undelivered", "unanswered", "left", "silent", "abandoned", "unmoved", "moving")
"""What `reap_due` can look for, in the order of a sweep."""
TOGETHER: Final = 16
"""Runs that are in the lane at once: a share of a batch, so that others find room in each."""

_DUE: Final = "SELECT due_from::text, run_id::text FROM livebox.reap_due(%s, %s::timestamptz, %s::uuid, %s::jsonb, %s)"
_BEFORE_ALL: Final = (b"-infinity", b"00000000-0000-0000-0000-000000000000")

_log = logger("reaper")


class Reaper(Loop):
    """Sweeps every `jobs.reap_interval`, in chunks of `jobs.chunk` runs."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        life: Life,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        super().__init__("reaper", settings.number("jobs.reap_interval"), self.sweep, on_turn=on_turn, outage=outage)
        self._database = database
        self._life = life
        self._chunk = settings.integer("jobs.chunk")
        self._limits = settings.limits(REAP_LIMITS)

    async def sweep(self) -> int:
        """Do what is due and say about how many runs. Raises `db.DatabaseError`; then the next sweep goes on."""
        await self._life.flush()  # what this process has heard counts before it judges anybody
        return sum([await self._sweep(cause) for cause in CAUSES])

    async def _sweep(self, cause: str) -> int:
        limits = msgspec.json.encode(self._limits).decode()
        after, done = _BEFORE_ALL, 0
        while True:
            values = (cause, after[0].decode(), after[1].decode(), limits, self._chunk)
            rows = await self._database.readers.rows(_DUE, *values)
            runs = list(dict.fromkeys(run_id.decode() for _, run_id in rows))
            for start in range(0, len(runs), TOGETHER):
                done += await self._reap(cause, runs[start : start + TOGETHER])
            if len(rows) < self._chunk:
                return done
            after = rows[-1]

    async def _reap(self, cause: str, runs: Sequence[str]) -> int:
        """One run that cannot be changed does not keep the others from it; a database that is away does."""
        outcomes: list[Answer | BaseException] = await asyncio.gather(
            *(self._database.lane.submit("reap_run", SYSTEM, self._args(run_id)) for run_id in runs),
            return_exceptions=True,
        )
        done = 0
        for run_id, outcome in zip(runs, outcomes, strict=True):
            if isinstance(outcome, InternalError):
                _log.error("reap_failed", run_id=run_id, cause=cause, sqlstate=outcome.sqlstate)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                done += outcome.code == "ok"
        return done

    def _args(self, run_id: str) -> dict[str, Any]:
        return {"run_id": run_id, "limits": self._limits}
