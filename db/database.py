"""The database as the rest of the process sees it: one lane, a few readers, the second writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .connection import STATEMENT_TIMEOUT
from .lane import BATCH_MAX, QUEUE_MAX, Lane
from .lane import PATIENCE as LANE_PATIENCE
from .readers import PATIENCE as READ_PATIENCE
from .readers import Readers
from .writer import Writer


class Database:
    """Everything one process holds of one database. The schema must be there already (``db.migrate``).

    ``readers``: how many sessions read. The other arguments are those of ``Lane`` and ``Readers``.
    """

    def __init__(
        self,
        dsn: str,
        *,
        readers: int = 4,
        batch_max: int = BATCH_MAX,
        queue_max: int = QUEUE_MAX,
        lane_patience: float = LANE_PATIENCE,
        read_patience: float = READ_PATIENCE,
        statement_timeout: float = STATEMENT_TIMEOUT,
        on_batch: Callable[[int, list[float]], None] | None = None,
        on_commit: Callable[[int | None], None] | None = None,
        on_effects: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> None:
        self.dsn = dsn
        self.lane = Lane(
            dsn,
            batch_max=batch_max,
            queue_max=queue_max,
            patience=lane_patience,
            statement_timeout=statement_timeout,
            on_batch=on_batch,
            on_commit=on_commit,
            on_effects=on_effects,
        )
        self.readers = Readers(
            dsn, size=readers, queue_max=queue_max, patience=read_patience, statement_timeout=statement_timeout
        )
        self.writer = Writer(dsn, queue_max=queue_max)

    async def start(self) -> None:
        """Opens all sessions. Raises ``DatabaseUnavailable`` or ``UnsuitableServer``; then none is left open."""
        try:
            await self.lane.start()
            await self.readers.start()
            await self.writer.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Commits what the lane accepted, then ends all sessions."""
        await self.lane.stop()
        await self.writer.stop()
        await self.readers.stop()

    async def ping(self) -> None:
        """Returns when the database answers; raises ``DatabaseUnavailable`` or another of ``db.errors``."""
        await self.readers.ping()

    async def prune_batches(self, older_than: float) -> int:
        """Removes records of batches older than so many seconds and says how many: far past any question about them."""
        rows = await self.writer.run("SELECT livebox.prune_lane_batches(%s)", older_than)
        return int(rows[0][0])
