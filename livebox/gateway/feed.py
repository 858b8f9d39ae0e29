"""The log as this process follows it: once for all sessions, strictly in order, through every outage of the database.

The feed is woken by local commits and by pokes of other processes, and looks by itself every `gateway.poll_interval`.
Each event goes first to `before_event`, which brings the view of rights up to it, then to `on_event`. Numbers of the
log are given under its lock, so a reader that has seen one never later sees a smaller one: the position is all there is
to remember. Where the log was cut above the position (retention) or ends below it (put back from a copy), what was lost
cannot be told any more: `on_gap` hears of it and every session has to begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from db import Database, DatabaseError
from livebox.log import logger
from livebox.settings import Settings

BATCH: Final = 200
"""Events of one read."""
RETRY: Final = 0.2
"""Seconds between tries while the database is away."""

_COLUMNS: Final = (
    "log_floor, log_top, seq, type, space_id, channel_id, thread_id, audience_principal, audience_group,"
    " resource_kind, resource_id, gone, readers, body, elsewhere, arrived"
)
_READ: Final = f"SELECT {_COLUMNS} FROM livebox.feed_events(%s, %s)"  # noqa: S608 - names of ours
_TOP: Final = "SELECT livebox.last_seq()"

_log = logger("feed")


class FeedEvent(NamedTuple):
    """One event of the log. `body` is its whole envelope as JSON; `elsewhere` and `arrived` are what is shown instead.

    `elsewhere`: to who does not see the place that it speaks of (thread.moved, access.changed); `arrived`: to who sees
    where a thread is and not where it came from. `readers`: who is named in a run without a thread. `gone`: its thread
    is deleted.
    """

    seq: int
    type: str
    space_id: str | None
    channel_id: str | None
    thread_id: str | None
    audience_principal: str | None
    audience_group: str | None
    readers: frozenset[str] | None
    payload: Mapping[str, Any]
    body: bytes
    resource_kind: str
    resource_id: str
    gone: bool = False
    elsewhere: bytes | None = None
    arrived: bytes | None = None


class Feed:
    """Hands out each event once, in order. The hooks are set before `start`.

    `on_event` must not raise; what it raises is logged and the next event follows. `before_event` may be repeated for
    one event after an outage. `on_gap(seq)`: events up to `seq` are lost, the next is after it; it is repeated until it
    succeeds. `on_caught_up()`: what `lagging` told of is over.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._interval = settings.number("gateway.poll_interval")
        self.before_event: Callable[[FeedEvent], Awaitable[object]] | None = None
        self.on_event: Callable[[FeedEvent], None] | None = None
        self.on_gap: Callable[[int], Awaitable[object]] | None = None
        self.on_caught_up: Callable[[], None] | None = None
        self.position = 0
        """The seq of the last event that was handed out."""
        self._owed = 0
        self._woken = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def lagging(self) -> bool:
        """Somebody was answered without the feed having come to their commit: nothing may be shown until it has."""
        return self.position < self._owed

    async def start(self, position: int | None = None) -> None:
        """Follow the log from `position`, or from its end. Raises `db.DatabaseError`."""
        if position is None:
            ((position,),) = await self._database.readers.rows(_TOP)
        self.position = position
        self._task = asyncio.create_task(self._run(), name="feed")

    async def stop(self) -> None:
        """End it. Who still waits in `reached` hears that it was not."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        waiting, self._waiting = self._waiting, []
        for _, outcome in waiting:
            outcome.cancel()

    def wake(self, seq: int | None = None) -> None:
        """The log has grown up to `seq`, or perhaps (None)."""
        if seq is None or seq > self.position:
            self._woken.set()

    async def reached(self, seq: int, within: float) -> bool:
        """Wait until every event up to `seq` is handed out. False after `within` seconds: then `lagging` holds."""
        if self.position >= seq:
            return True
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (seq, outcome)
        self._waiting.append(waiter)
        self._woken.set()
        try:
            async with asyncio.timeout(within):
                await asyncio.wait([outcome])
        except TimeoutError:
            pass
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if self.position >= seq:
            return True
        self._owed = max(self._owed, seq)
        return False

    async def _run(self) -> None:
        while True:
            try:
                while await self._turn():
                    pass
            except DatabaseError:
                _log.warning("feed_waits", position=self.position, exc_info=True)
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                _log.exception("feed_failed", position=self.position)
                await asyncio.sleep(RETRY)
                continue
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._interval):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _turn(self) -> bool:
        """Reads and hands out what there is, a batch at most; whether there may be more."""
        self._woken.clear()
        rows = await self._database.readers.rows(_READ, self.position, BATCH)
        floor, top = rows[0][:2]
        if floor > self.position or top < self.position:
            _log.warning("feed_gap", position=self.position, floor=floor, top=top)
            await self._gap(floor if floor > self.position else top)
            return True
        for row in rows:
            if row[2] is not None:
                await self._hand_out(read_event(row))
        return len(rows) == BATCH

    async def _gap(self, seq: int) -> None:
        if self.on_gap is not None:
            await self.on_gap(seq)
        self._owed = min(self._owed, seq) if seq < self.position else self._owed
        self._advance(seq)

    async def _hand_out(self, event: FeedEvent) -> None:
        if self.before_event is not None:
            await self.before_event(event)
        if self.on_event is not None:
            try:
                self.on_event(event)
            except Exception:
                _log.exception("feed_event_failed", seq=event.seq, type=event.type)
        self._advance(event.seq)

    def _advance(self, seq: int) -> None:
        lagged = self.lagging
        self.position = seq
        for wanted, outcome in self._waiting:
            if wanted <= seq and not outcome.done():
                outcome.set_result(None)
        if lagged and not self.lagging and self.on_caught_up is not None:
            self.on_caught_up()


def read_event(row: Any) -> FeedEvent:
    """An event from a row of `livebox.feed_events`."""
    _, _, seq, kind, space, channel, thread, principal, group, resource, identity, gone, readers, body, *other = row
    return FeedEvent(
        seq,
        kind.decode(),
        _text(space),
        _text(channel),
        _text(thread),
        _text(principal),
        _text(group),
        None if readers is None else frozenset(msgspec.json.decode(readers)),
        msgspec.json.decode(body)["payload"],
        body,
        resource.decode(),
        identity.decode(),
        gone,
        *other,
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
