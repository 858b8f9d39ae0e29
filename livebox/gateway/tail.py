"""The log, handed to sessions: as it grows to those that follow it, from further back to those that catch up.

Both give the same events in the same order. A session that catches up reads pages by its place in the log and is
attached in the same step in which it finds that it has come to the end, so nothing lies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from db import DatabaseError
from livebox.auth import INVALID
from livebox.gateway import frames
from livebox.gateway.feed import Feed, FeedEvent
from livebox.gateway.frames import Frame
from livebox.gateway.rights import Rights

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub
    from livebox.gateway.session import Session

PAGE: Final = 200
"""Events of one page for a session that catches up."""
_TURNING: Final = frozenset({"thread.moved", "thread.deleted", "message.deleted"})
RETRY: Final = 0.5
"""Seconds between tries while the database is away."""


class Page(msgspec.Struct):
    """A page of `livebox.list_events`."""

    items: list[msgspec.Raw]
    next_after: int
    has_more: bool


class Item(msgspec.Struct):
    """What is to be known of an event that is passed on as it is."""

    seq: int
    at: datetime


class Tail:
    """Takes the events of the feed. `listeners` hear each event after the sessions.

    `turns` counts the changes of rights and places: what was read before one is not told after it.
    """

    def __init__(self, hub: Hub, feed: Feed, rights: Rights) -> None:
        self._hub = hub
        self._feed = feed
        self._rights = rights
        self._following: set[Session] = set()
        self.turns = 0
        self.listeners: list[Callable[[FeedEvent], None]] = []
        feed.before_event = self._before
        feed.on_event = self.deliver
        feed.on_gap = self._gap

    @property
    def silent(self) -> bool:
        """Somebody was told that a right is gone and the feed has not come to it: nothing live may be shown."""
        return self._feed.lagging

    def begin(self, session: Session, start: int, since: int = 0) -> None:
        """Have a session follow the log from `session.seq` on.

        `start` is where it goes on after a `resync`; what is not above `since` does not come as the log grows.
        """
        if session not in self._following:
            self._following.add(session)
            self._hub.spawn(self._follow(session, start, since))

    async def _before(self, event: FeedEvent) -> None:
        for who in await self._rights.advance(event):
            self._changed(who)

    def _changed(self, principal_id: str) -> None:
        self.turns += 1
        for session in [*self._hub.of(principal_id)]:
            self._hub.focus.changed(session)
            if not self._rights.active(principal_id):
                self._hub.refuse(session, INVALID)

    def deliver(self, event: FeedEvent) -> None:
        """Hand an event of the log to everybody who may see it."""
        if event.type in _TURNING:
            self.turns += 1
        self._hub.focus.apply(event)
        whole: Frame | None = None
        for principal_id, sessions in self._hub.by_principal.items():
            body = self._rights.receives(principal_id, event)
            if body is None:
                continue
            if body is event.body:
                frame = whole = whole or frames.event(body)
            else:
                frame = frames.event(body)
            for session in sessions:
                session.send_event(event.seq, frame)
        for listener in self.listeners:
            listener(event)
        written = msgspec.json.decode(event.body, type=Item).at.timestamp()
        self._hub.plant.telemetry.event_lag(self._hub.now() - written)

    async def _gap(self, seq: int) -> None:
        for who in await self._rights.reload(seq):
            self._changed(who)
        for session in [*self._hub.sessions]:
            if session.follows:
                session.seq = seq
                session.send(frames.made("resync", {"after": seq}))
            if session.runs or session.threads:
                self._hub.spawn(self._hub.focus.again(session))

    async def _follow(self, session: Session, start: int, since: int) -> None:
        try:
            while not session.gone:
                if session.seq >= self._feed.position and session.seq >= since:
                    session.follows = True
                    return
                try:
                    await self._page(session, start)
                except DatabaseError:
                    await asyncio.sleep(RETRY)
        finally:
            self._following.discard(session)

    async def _page(self, session: Session, start: int) -> None:
        turns = self.turns
        args = {"after": session.seq, "limit": PAGE}
        answer = await self._hub.plant.database.readers.call("list_events", session.caller, args)
        if answer.code in ("cursor_expired", "cursor_invalid"):
            session.seq = max(start, self._feed.position)
            session.send(frames.made("resync", {"after": session.seq}))
        elif answer.code != "ok" or answer.body is None:
            self._hub.refuse(session, answer.code)
        else:
            page = msgspec.json.decode(answer.body, type=Page)
            for item in page.items:
                await session.room()
                if turns != self.turns:
                    return
                session.send(frames.event(bytes(item)))
                session.seq = msgspec.json.decode(item, type=Item).seq
            if turns == self.turns:
                session.seq = page.next_after
