"""Says in the database that the service is there, and keeps what time it is there.

Deadlines count from when agents could reach the service. Each process touches one row; only when nobody had touched it
for `service.gap` does the service count as available since now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from db import Database
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.log import logger
from livebox.settings import Settings

_TOUCH: Final = "SELECT (now_s * 1000000)::bigint, away_s::bigint FROM livebox.touch_service(%s)"

_log = logger("availability")


class Availability(Loop):
    """Touches the row every `run.life_flush_interval`."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        super().__init__(
            "availability", settings.number("run.life_flush_interval"), self.touch, on_turn=on_turn, outage=outage
        )
        self._database = database
        self._gap = float(settings.number("service.gap"))
        self._ahead: float | None = None

    async def touch(self) -> None:
        """Say that this process is there. Raises `db.DatabaseError`."""
        ((now_us, away),) = await self._database.writer.run(_TOUCH, self._gap)
        first, self._ahead = self._ahead is None, now_us / 1e6 - time.monotonic()
        if away is not None and not first:  # before a start nobody is expected to be there
            _log.warning("service_was_away", seconds=away)

    def now(self) -> float:
        """Seconds of the epoch by the database's clock: the time of the last touch and what passed since."""
        assert self._ahead is not None  # noqa: S101  # a server touches before it listens
        return time.monotonic() + self._ahead
