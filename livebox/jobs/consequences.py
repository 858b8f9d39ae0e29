"""Ends the runs that a change of rights or places concerns: somebody disabled, a right taken, a channel read-only, a
thread deleted or moved.

The change and a row of `pending_consequences` commit together, and rights obey from then on; the runs end here, a few
in one operation, so that five thousand of one person hold nobody up. How far it came is in the row: whichever process
goes on, goes on there. There is no leader; a process that made such a change begins at once, the others look every
`jobs.reap_interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from db import Caller, Database, InternalError, StatementTimeout
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.log import logger
from livebox.settings import Settings

EFFECT: Final = "consequence"
"""The kind of the effect by which an operation says that it noted one."""
TOGETHER: Final = 16
"""Most runs that one operation judges and ends: what everybody else's next commit may wait for."""

_CALLER: Final = Caller("consequences", system=True)  # a line of its own in the lane, served in turn with all others
_PENDING: Final = "SELECT id::text FROM livebox.pending_consequences ORDER BY id LIMIT %s"

_log = logger("consequences")


class Consequences(Loop):
    """Begins at once, then looks every `jobs.reap_interval`; an operation looks at up to `jobs.chunk` active runs."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        super().__init__(
            "consequences", settings.number("jobs.reap_interval"), self.sweep, on_turn=on_turn, outage=outage
        )
        self._database = database
        self._rows = settings.integer("jobs.chunk")
        self._args = {
            "chunk": self._rows,
            "most": min(self._rows, TOGETHER),
            "limits": settings.limits(["event.body_max_bytes"]),
        }

    def start(self) -> None:
        """Begin with what an earlier process left."""
        super().start()
        self.wake()

    def heard(self, effects: Iterable[Mapping[str, Any]]) -> None:
        """Begin at once when a committed operation noted something."""
        if any(effect.get("kind") == EFFECT for effect in effects):
            self.wake()

    async def sweep(self) -> int:
        """Take every pending consequence to its end, in turn and step by step; how many steps that were.

        Raises `db.DatabaseError`; then the next sweep goes on. What cannot be done is left to the next sweep too.
        """
        steps, left = 0, set[str]()
        while rows := await self._pending(left):
            for row in rows:
                steps += 1
                if not await self._step(row):
                    left.add(row)
        return steps

    async def _pending(self, left: set[str]) -> list[str]:
        rows = await self._database.readers.rows(_PENDING, self._rows + len(left))
        return [row.decode() for (row,) in rows if row.decode() not in left]

    async def _step(self, row: str) -> bool:
        """Whether this sweep may go on with the row, should it still be there."""
        args = self._args | {"consequence_id": row}
        try:
            answer = await self._database.lane.submit("apply_consequence", _CALLER, args)
        except (InternalError, StatementTimeout):
            _log.exception("consequence_failed", consequence_id=row)
            return False
        return answer.code != "ok"
