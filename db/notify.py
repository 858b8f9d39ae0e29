"""Waking other processes that follow the log.

``NOTIFY`` inside a transaction makes all commits of the cluster wait for one another, so the lane never does it: after
its commit the ``Poker`` sends one on a session of its own, at most so many times a second. A poke is a hint and may be
lost; who listens also looks by itself from time to time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import psycopg2

from .connection import Connection
from .errors import DatabaseError

CHANNEL: Final = "livebox_log"
PER_SECOND: Final = 50

_RETRY: Final = 1.0  # seconds between tries while the database is away

_log = logging.getLogger("livebox.db.notify")


class Poker:
    """Sends pokes; many in a short time become one. ``per_second`` bounds how many leave."""

    def __init__(self, dsn: str, *, per_second: float = PER_SECOND) -> None:
        self._connection = Connection(dsn, name="poker")
        self._interval = 1 / per_second
        self._wanted = asyncio.Event()
        self._seq = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def backend_pid(self) -> int | None:
        """The pid that this process's own pokes come from."""
        return self._connection.backend[0] if self._connection.backend else None

    async def start(self) -> None:
        """Begins to send. The session is opened with the first poke."""
        self._task = asyncio.create_task(self._run(), name="db poker")

    async def stop(self) -> None:
        """Stops sending; a poke not yet sent is lost."""
        await _end(self._task)
        self._task = None
        self._connection.close()

    def poke(self, seq: int) -> None:
        """Says that the log has grown up to ``seq``. Costs nothing and never fails."""
        self._seq = max(self._seq, seq)
        self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._connection.reopen(loop.time())
                await self._connection.fetch("SELECT pg_notify(%s, %s)", (CHANNEL, str(self._seq)))
                await asyncio.sleep(self._interval)
            except (DatabaseError, psycopg2.Error):
                _log.debug("a poke was lost", exc_info=True)
                await asyncio.sleep(_RETRY)


class Listener:
    """Hears the pokes of all processes.

    ``heard(seq)`` is called for each, and with ``None`` whenever listening begins (again): pokes may have been missed.
    """

    def __init__(self, dsn: str, heard: Callable[[int | None], None]) -> None:
        self._connection = Connection(dsn, name="listener")
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to listen, and goes on through every loss of the connection."""
        self._task = asyncio.create_task(self._run(), name="db listener")

    async def stop(self) -> None:
        """Stops listening."""
        await _end(self._task)
        self._task = None
        self._connection.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._connection.reopen(loop.time())
                await self._connection.fetch(f"LISTEN {CHANNEL}")
                self._tell(None)
                while True:
                    notice = await self._connection.notifies.get()
                    self._tell(int(notice.payload) if notice.payload.isdecimal() else None)
            except (DatabaseError, psycopg2.Error):
                _log.debug("not listening", exc_info=True)
                self._connection.close()
                await asyncio.sleep(_RETRY)

    def _tell(self, seq: int | None) -> None:
        try:
            self._heard(seq)
        except Exception:
            _log.exception("what follows the log failed")


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
