"""Which runs have somebody at the other end: sessions that hold runs, written to the rows of these runs.

While a session of the present claim is open its holder counts as present (`holder_seen_at`); when the last one closes
the row says since when (`session_closed_at`), and the time of `run.interrupt_grace` begins. Only the process that a
session was open at can say that it closed; where one dies without a word, runs are found by their silence. Times are
told as ages, so that the clock of the database alone decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from db import Database, DatabaseError
from livebox.invocations import Invocation
from livebox.jobs.loop import Loop
from livebox.log import logger
from livebox.settings import Settings

PART: Final = 4
"""So many times within the shortest grace it is written that a session is open."""
PUNCTUAL: Final = 0.5
"""Part of the interval after which a row is written again."""

_log = logger("presence")


class Holding(Protocol):
    """A session: the runs that it holds, each with the token that it showed last."""

    @property
    def held(self) -> Mapping[str, Invocation]:
        """By run."""
        ...

    def release(self, run_id: str) -> None:
        """It holds the run no longer: that has ended, or somebody else holds it."""
        ...


class Hold(NamedTuple):
    """One claim of one run."""

    run_id: str
    claim_id: str


class Presence(Loop):
    """Told of sessions by the hub. What changed is written at once, what stays as it is from time to time."""

    def __init__(
        self, database: Database, settings: Settings, *, on_turn: Callable[[str, bool], None] | None = None
    ) -> None:
        shortest = min(settings.number("run.holder_grace"), settings.number("run.interrupt_grace"))
        super().__init__("presence", shortest / PART, self.write, on_turn=on_turn)
        self._database = database
        self._chunk = settings.integer("jobs.chunk")
        self._again = PUNCTUAL * shortest / PART
        self._sessions: set[Holding] = set()
        self._written: dict[Hold, float] = {}
        self._closed: dict[Hold, float] = {}
        self._writing = asyncio.Lock()

    def begun(self, session: Holding) -> None:
        """A session has begun: it holds nothing yet."""

    def told(self, session: Holding) -> None:
        """How much work a session wants says nothing here."""

    def acknowledged(self, session: Holding, frame: Mapping[str, Any]) -> None:
        """Neither does what it acknowledges."""

    def holds(self, session: Holding, run_id: str) -> None:
        """A session holds a run from now on."""
        self._sessions.add(session)
        self.wake()

    def ended(self, session: Holding) -> None:
        """A session is over: it has left the runs that it held."""
        if session not in self._sessions:
            return
        self._sessions.discard(session)
        left = set(_holds(session))  # what another one holds is found out when it is written
        now = asyncio.get_running_loop().time()
        self._closed |= dict.fromkeys(left, now)
        self.wake()

    async def end(self) -> None:
        """Stop, and write what closed if the database is there. After the last session has ended."""
        await self.stop()
        try:
            await self.write()
        except DatabaseError:
            _log.warning("last_presence_failed", closed=len(self._closed), exc_info=True)

    async def write(self) -> None:
        """Write what is not written yet. Raises `db.DatabaseError`; what was not written is written the next time."""
        async with self._writing:
            now = asyncio.get_running_loop().time()
            held = self._open()
            for hold in held & self._closed.keys():
                del self._closed[hold]
            self._written = {hold: at for hold, at in self._written.items() if hold in held}
            due = [hold for hold in held if self._written.get(hold, 0.0) <= now - self._again]
            rows = iter([*((hold, True) for hold in due), *((hold, False) for hold in self._closed)])
            while chunk := list(islice(rows, self._chunk)):
                await self._save(chunk)

    async def _save(self, chunk: list[tuple[Hold, bool]]) -> None:
        now = asyncio.get_running_loop().time()
        rows = [
            {**hold._asdict(), "open": held, "age": 0.0 if held else max(0.0, now - self._closed.get(hold, now))}
            for hold, held in chunk
        ]
        results = await self._database.writer.save("save_presence", rows)
        for (hold, held), result in zip(chunk, results, strict=True):
            if result["outcome"] == "skipped":
                continue
            if not held:
                self._closed.pop(hold, None)
            elif result["outcome"] == "saved":
                self._written[hold] = now
            else:
                self._gone(hold)

    def _gone(self, hold: Hold) -> None:
        """The run has ended, or another claim holds it."""
        for session in [*self._sessions]:
            invocation = session.held.get(hold.run_id)
            if invocation is not None and invocation.claim_id == hold.claim_id:
                session.release(hold.run_id)

    def _open(self) -> set[Hold]:
        return {hold for session in self._sessions for hold in _holds(session)}


def _holds(session: Holding) -> Iterator[Hold]:
    return (Hold(run_id, invocation.claim_id) for run_id, invocation in session.held.items())
