"""Signs of life: gathered in memory as they come, written to the rows of their runs in batches.

A sign costs nothing when it comes and a share of one statement per flush. Its time is told as an age, so that the
database's clock alone decides when it was; the process measures ages with a clock that never jumps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple

from db import SYSTEM, Database, DatabaseError
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.log import logger
from livebox.settings import Settings

MAX_RUNS: Final = 200_000
"""Most runs whose signs are kept; beyond it the oldest sign goes. Far above what one process serves."""
REAP_LIMITS: Final = (
    "run.delivery_timeout",
    "run.cancel_timeout",
    "run.interrupt_grace",
    "run.stall_after",
    "run.stale_after",
    "registered.stale_after",
    "service.gap",
    "event.body_max_bytes",
)
"""What the operation `reap_run` needs to judge a run."""

_log = logger("life")


class Sign(NamedTuple):
    """When a run was last heard of, and when it last moved (loop time)."""

    heard: float
    moved: float | None


class Life(Loop):
    """Keeps the latest signs of each run and writes them every `run.life_flush_interval`.

    While the database is away it goes on keeping the latest signs, so it holds at most one entry per run.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        super().__init__("life", settings.number("run.life_flush_interval"), self.flush, on_turn=on_turn, outage=outage)
        self._database = database
        self._chunk = settings.integer("jobs.chunk")
        self._limits = settings.limits(REAP_LIMITS)
        self._signs: dict[str, Sign] = {}
        self._flushing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._signs)

    def alive(self, run_id: str, *, progress: bool = False) -> None:
        """The run was heard of just now, and moved with `progress`. For runs that the caller was found to hold."""
        now = time.monotonic()
        before = self._signs.pop(run_id, None)
        self._signs[run_id] = Sign(now, now if progress else before.moved if before is not None else None)
        if len(self._signs) > MAX_RUNS:
            del self._signs[next(iter(self._signs))]

    async def flush(self) -> None:
        """Write all signs. Raises `db.DatabaseError`; what was not written is kept for the next flush."""
        async with self._flushing:
            signs, self._signs = self._signs, {}
            waiting = iter(list(signs))
            while chunk := list(islice(waiting, self._chunk)):
                try:
                    written = await self._save({run_id: signs[run_id] for run_id in chunk})
                except BaseException:
                    self._keep(signs)
                    raise
                for run_id in written:
                    del signs[run_id]
            self._keep(signs)

    async def end(self) -> None:
        """Stop, and write what is left if the database is there."""
        await self.stop()
        try:
            await self.flush()
        except DatabaseError as error:
            _log.warning("last_flush_failed", signs=len(self), reason=str(error))

    async def _save(self, signs: dict[str, Sign]) -> list[str]:
        """Writes the signs; the runs that need no more of it (written, or ended)."""
        now = time.monotonic()
        rows: list[dict[str, Any]] = []
        for run_id, sign in signs.items():
            rows.append({"run_id": run_id, "age": now - sign.heard})
            if sign.moved is not None:
                rows.append({"run_id": run_id, "age": now - sign.moved, "progress": True})
        results = await self._database.writer.save("save_signs_of_life", rows)
        done = [row["run_id"] for row, result in zip(rows, results, strict=True) if result["outcome"] != "skipped"]
        moving = {row["run_id"] for row, result in zip(rows, results, strict=True) if result.get("moving")}
        for run_id in moving:
            # A stall is part of the version, so it is not taken back here but by an operation of the lane.
            await self._database.lane.submit("reap_run", SYSTEM, {"run_id": run_id, "limits": self._limits})
        return list(dict.fromkeys(done))

    def _keep(self, signs: dict[str, Sign]) -> None:
        """Puts back what was not written, as the older part; a later sign that came meanwhile stands."""
        later, self._signs = self._signs, signs
        for run_id, sign in later.items():
            before = self._signs.pop(run_id, None)
            moved = before.moved if sign.moved is None and before is not None else sign.moved
            self._signs[run_id] = Sign(sign.heard, moved)
        for run_id in list(islice(self._signs, max(0, len(self._signs) - MAX_RUNS))):
            del self._signs[run_id]
