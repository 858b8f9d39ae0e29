"""A feed with a view of rights on a database, and what each principal is handed by it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from db import Database
from livebox.gateway.feed import Feed, FeedEvent
from livebox.gateway.rights import Rights
from livebox.settings import Settings

Row = dict[str, Any]


class Tail:
    """What the sessions of a process would get. `views` is what decides: a twin may be put there."""

    def __init__(self, database: Database, **given: float) -> None:
        self.feed = Feed(database, Settings.load({}, {"gateway.poll_interval": 60, **given}))
        self.rights = Rights(database, self.feed)
        self.events: list[FeedEvent] = []
        self.got: dict[str, list[Row]] = {}
        self.gaps: list[int] = []
        self.feed.before_event = self.rights.advance
        self.feed.on_event = self.hand_out
        self.feed.on_gap = self.gap

    async def watch(self, principals: Iterable[str]) -> None:
        """Sessions of these principals begin."""
        for who in principals:
            await self.rights.load(who)
            self.got.setdefault(who, [])

    def hand_out(self, event: FeedEvent) -> None:
        self.events.append(event)
        for who, got in self.got.items():
            shown = self.rights.receives(who, event)
            if shown is not None:
                got.append(json.loads(shown))

    async def gap(self, seq: int) -> None:
        await self.rights.reload(seq)
        self.gaps.append(seq)

    async def follow(self, seq: int) -> None:
        """Returns when the feed has come to `seq`."""
        assert await self.feed.reached(seq, 30)


@asynccontextmanager
async def tail(database: Database, **given: float) -> AsyncIterator[Tail]:
    """A tail that follows from the end of the log."""
    made = Tail(database, **given)
    await made.feed.start()
    try:
        yield made
    finally:
        await made.feed.stop()
