"""Removes what has expired: events below the floor that it raises, idempotency keys, records of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from db import Database
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.settings import Settings

_EVENTS: Final = "SELECT livebox.expire_events(%s, %s)"
_KEYS: Final = "SELECT livebox.prune_idempotency_keys(%s, %s)"


class Retention(Loop):
    """Sweeps every `jobs.retention_interval`, in chunks of `jobs.chunk` rows, so that no sweep holds anybody up."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._database = database
        self._chunk = settings.integer("jobs.chunk")
        self._events = settings.number("events.retention")
        self._keys = settings.number("idempotency.retention")
        self._batches = settings.number("lane.batch_retention")
        super().__init__(
            "retention", settings.number("jobs.retention_interval"), self.sweep, on_turn=on_turn, outage=outage
        )

    async def sweep(self) -> None:
        """Remove everything that has expired by now. Raises `db.DatabaseError`; then the next sweep goes on."""
        await self._drain(_EVENTS, self._events)
        await self._drain(_KEYS, self._keys)
        await self._database.prune_batches(self._batches)

    async def _drain(self, statement: str, seconds: float) -> None:
        removed = self._chunk
        while removed >= self._chunk:
            ((removed,),) = await self._database.writer.run(statement, float(seconds), self._chunk)
