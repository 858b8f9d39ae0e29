"""Work that a process does again and again by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from db import DatabaseError, DatabaseUnavailable
from livebox.jobs.outage import RETRY, Outage
from livebox.log import logger

JITTER: Final = 0.2
"""How far a pause may differ from the interval, as a part of it: processes that started together drift apart."""

_log = logger("jobs")


class Loop:
    """Calls `work` every `interval` seconds, or sooner when it is woken; never twice at once.

    Work that fails is logged and tried again after the next pause: nothing but `stop` ends a loop. `on_turn(name, ok)`
    is told of each call. That the database is away is logged by `outage`, which loops may share.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        work: Callable[[], Awaitable[object]],
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._name = name
        self._interval = interval
        self._work = work
        self._on_turn = on_turn
        self._outage = outage or Outage()
        self._away = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first call comes after one pause."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    def wake(self) -> None:
        """There is work: make the next call now."""
        self._woken.set()

    async def stop(self) -> None:
        """End it; a statement under way runs to its end in the database."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._pause()
            ok = await self._turn()
            if self._on_turn is not None:
                self._on_turn(self._name, ok)

    async def _turn(self) -> bool:
        """Whether the work was done."""
        self._away, ok = False, False
        try:
            await self._work()
            ok = True
        except DatabaseUnavailable as error:
            self._away = True
            self._outage.away(self._name, error)
        except DatabaseError:
            _log.warning("job_failed", job=self._name, exc_info=True)
        except Exception:
            _log.exception("job_failed", job=self._name)
        if not self._away:
            self._outage.there(self._name)
        return ok

    async def _pause(self) -> None:
        interval = min(self._interval, RETRY) if self._away else self._interval
        seconds = interval * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
