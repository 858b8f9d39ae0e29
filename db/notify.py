"""Waking other processes: that the log has grown, and what concerns live documents.

``NOTIFY`` inside a transaction makes all commits of the cluster wait for one another, so the lane never does it: after
its commit the ``Poker`` sends one on a session of its own, at most so many times a second. What is said in between is
sent together, as JSON objects small enough for PostgreSQL. A poke is a hint and may be lost; who listens also looks by
itself from time to time. Too much to say becomes ``{"all": true}``: look at everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import psycopg2

from .connection import Connection
from .errors import DatabaseError

CHANNEL: Final = "livebox_log"
PER_SECOND: Final = 50
MAX_BYTES: Final = 7000
"""Largest payload; PostgreSQL takes less than 8000 bytes."""
MAX_IDS: Final = 5000
"""Most runs that one turn tells of by name."""

_RETRY: Final = 1.0  # seconds between tries while the database is away
_FRAME_BYTES: Final = 100  # what a payload takes beside the names in it
_ITEM_BYTES: Final = 20  # what a name takes beside itself: quotes, keys, braces
_SEND: Final = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"

_log = logging.getLogger("livebox.db.notify")


class Poke(NamedTuple):
    """What one process tells the others.

    ``seq``: the log has grown up to there. ``runs``: their versions, states or tokens moved. ``watching``: somebody
    looks at them at the sender. ``handover``: (run, owner) pairs: that owner asks for the live document.
    ``everything``: more than fits, or unknown: look at all of it. ``sender``: the name of the poker; empty: none.
    """

    seq: int | None = None
    runs: tuple[str, ...] = ()
    watching: tuple[str, ...] = ()
    handover: tuple[tuple[str, str], ...] = ()
    everything: bool = False
    sender: str = ""


UNKNOWN: Final = Poke(everything=True)
"""Heard when listening begins (again), and for what cannot be read: pokes may have been missed."""


class Poker:
    """Sends pokes as ``sender``; many in a short time become few. ``per_second`` bounds how often some leave."""

    def __init__(self, dsn: str, *, sender: str = "", per_second: float = PER_SECOND) -> None:
        self._connection = Connection(dsn, name="poker")
        self._sender = sender
        self._interval = 1 / per_second
        self._wanted = asyncio.Event()
        self._seq: int | None = None
        self._everything = False
        self._told: dict[str, dict[str, str]] = {"runs": {}, "watching": {}, "handover": {}}
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
        """Says that the log has grown up to ``seq``. Costs nothing and never fails, like all that is said here."""
        self._seq = max(self._seq or 0, seq)
        self._wanted.set()

    def tell(self, kind: str, run_ids: Iterable[str]) -> None:
        """Says something of runs; ``kind`` is runs or watching."""
        self._tell(kind, dict.fromkeys(run_ids, ""))

    def ask(self, run_id: str, to: str) -> None:
        """Asks whoever serves the live document of a run to hand it over to ``to``."""
        self._tell("handover", {run_id: to})

    def _tell(self, kind: str, said: dict[str, str]) -> None:
        told = self._told[kind]
        told |= said
        if sum(map(len, self._told.values())) > MAX_IDS:
            self._everything = True
            for known in self._told.values():
                known.clear()
        self._wanted.set()

    def _payloads(self) -> list[str]:
        """All that is to be said, which is then said."""
        seq, self._seq = self._seq, None
        everything, self._everything = self._everything, False
        told, self._told = self._told, {kind: {} for kind in self._told}
        return [msgspec.json.encode(payload).decode() for payload in _payloads(self._sender, seq, everything, told)]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._connection.reopen(loop.time())
                await self._connection.fetch(_SEND, (CHANNEL, self._payloads()))
                await asyncio.sleep(self._interval)
            except (DatabaseError, psycopg2.Error):
                _log.debug("a poke was lost", exc_info=True)
                await asyncio.sleep(_RETRY)


def _payloads(
    sender: str, seq: int | None, everything: bool, told: dict[str, dict[str, str]]
) -> Iterator[dict[str, Any]]:
    """Objects of at most ``MAX_BYTES`` that say all of it."""
    payload: dict[str, Any] = {"from": sender} if sender else {}
    if seq is not None:
        payload["seq"] = seq
    if everything:
        payload["all"] = True
    size = empty = _FRAME_BYTES + len(sender)
    for kind, run_id, to in ((kind, run_id, to) for kind, runs in told.items() for run_id, to in runs.items()):
        more = len(run_id) + len(to) + _ITEM_BYTES
        if size + more > MAX_BYTES:
            yield payload
            payload, size = ({"from": sender} if sender else {}), empty
        payload.setdefault(kind, []).append({"run": run_id, "to": to} if kind == "handover" else run_id)
        size += more
    yield payload


class Listener:
    """Hears the pokes of all processes, its own too (``Poke.sender`` tells).

    ``heard(poke)`` is called for each, and with ``UNKNOWN`` whenever listening begins (again).
    """

    def __init__(self, dsn: str, heard: Callable[[Poke], None]) -> None:
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
                self._tell(UNKNOWN)
                while True:
                    notice = await self._connection.notifies.get()
                    self._tell(read_poke(notice.payload))
            except (DatabaseError, psycopg2.Error):
                _log.debug("not listening", exc_info=True)
                self._connection.close()
                await asyncio.sleep(_RETRY)

    def _tell(self, poke: Poke) -> None:
        try:
            self._heard(poke)
        except Exception:
            _log.exception("what follows the log failed")


class _Payload(msgspec.Struct):
    """What a poke looks like on its way."""

    seq: int | None = None
    runs: tuple[str, ...] = ()
    watching: tuple[str, ...] = ()
    handover: tuple[dict[str, str], ...] = ()
    all: bool = False
    sender: str = msgspec.field(name="from", default="")


_decode: Final = msgspec.json.Decoder(_Payload).decode


def read_poke(payload: str) -> Poke:
    """A poke from its text. Anybody may notify on the channel, so what makes no sense counts as ``UNKNOWN``."""
    try:
        said = _decode(payload)
        handover = tuple((ask["run"], ask["to"]) for ask in said.handover)
    except (msgspec.DecodeError, KeyError):
        return UNKNOWN
    return Poke(said.seq, said.runs, said.watching, handover, said.all, said.sender)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
