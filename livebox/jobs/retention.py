"""Removes what has expired: events below the floor that it raises, idempotency keys, records of batches."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from db import Database, DatabaseError
from livebox.log import logger
from livebox.settings import Settings

_EVENTS: Final = "SELECT livebox.expire_events(%s, %s)"
_KEYS: Final = "SELECT livebox.prune_idempotency_keys(%s, %s)"
_JITTER: Final = 0.2  # processes that started together do not sweep together

_log = logger("retention")


class Retention:
    """Sweeps every `jobs.retention_interval`, in chunks of `jobs.chunk` rows, so that no sweep holds anybody up."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._interval = settings.number("jobs.retention_interval")
        self._chunk = settings.integer("jobs.chunk")
        self._events = settings.number("events.retention")
        self._keys = settings.number("idempotency.retention")
        self._batches = settings.number("lane.batch_retention")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep, the first time after one interval."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def stop(self) -> None:
        """End the sweeping; a statement under way runs to its end in the database."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def sweep(self) -> None:
        """Remove everything that has expired by now. Raises `db.DatabaseError`; then the next sweep goes on."""
        await self._drain(_EVENTS, self._events)
        await self._drain(_KEYS, self._keys)
        await self._database.prune_batches(self._batches)

    async def _drain(self, statement: str, seconds: float) -> None:
        removed = self._chunk
        while removed >= self._chunk:
            ((removed,),) = await self._database.writer.run(statement, float(seconds), self._chunk)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret
            try:
                await self.sweep()
            except DatabaseError:
                _log.warning("sweep_failed", exc_info=True)
