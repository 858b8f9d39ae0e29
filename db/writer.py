"""The second writer: sets of rows without events, beside the lane and without the lock of the log.

A function it calls is ``livebox.<name>(rows jsonb) RETURNS SETOF jsonb`` and keeps three rules:

- it locks the rows it changes in the order of their ids and skips those that are locked (``SKIP LOCKED``), so that it
  neither waits for the lane nor deadlocks with it;
- it gives one object per row it dealt with, ``{"position": <index into rows>, "outcome": ...}``, and none for a row it
  skipped: that one is tried again;
- it can be repeated: what is stored already as asked for counts as saved.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from .sessions import Sessions

PATIENCE: Final = 5.0
"""Seconds to go on trying rows that others hold locked, and to wait for a session."""

_FIRST_PAUSE: Final = 0.01
_LAST_PAUSE: Final = 0.5


class Writer:
    """One session for set-based writes. See the rules for their functions above."""

    def __init__(self, dsn: str, *, queue_max: int = 1024, patience: float = PATIENCE) -> None:
        self._sessions = Sessions(dsn, "writer", size=1, queue_max=queue_max, patience=patience, read_only=False)
        self._patience = patience

    async def start(self) -> None:
        """Opens the session. Raises ``DatabaseUnavailable`` or ``UnsuitableServer``."""
        await self._sessions.start()

    async def stop(self) -> None:
        """Ends the session; who still waits gets ``DatabaseUnavailable``."""
        await self._sessions.stop()

    async def save(self, function: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Saves the rows and gives one result for each, in their order; ``outcome`` says what became of it.

        ``skipped``: others held the row locked all the time. Raises ``DatabaseUnavailable``, ``Overloaded``,
        ``StatementTimeout`` or ``InternalError``; a save may be repeated after each of them.
        """
        if not function.isidentifier():
            raise ValueError(f"{function!r} is no function name")
        statement = f"SELECT result::text FROM livebox.{function}(%s::jsonb) AS result"  # noqa: S608 - an identifier
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        deadline = loop.time() + self._patience
        results: list[dict[str, Any]] = [{"outcome": "skipped"} for _ in rows]
        left = list(range(len(rows)))
        while left:
            given = msgspec.json.encode([rows[index] for index in left]).decode()
            for (text,) in await self._sessions.fetch("", statement, (given,)):
                result: dict[str, Any] = msgspec.json.decode(text)
                results[left[result.pop("position")]] = result
            left = [index for index in left if results[index]["outcome"] == "skipped"]
            if left:
                if loop.time() + pause > deadline:
                    break
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
        return results

    async def run(self, statement: str, *values: object) -> list[Any]:
        """Runs a repeatable statement of ours that appends no events, and gives its rows."""
        return await self._sessions.fetch("", statement, values)
