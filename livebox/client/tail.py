"""The durable events of the log, one after the other: caught up by pages, then as they happen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from generated.models import Event
from livebox.client.gateway import Gateway
from livebox.client.pauses import Pauses
from livebox.client.problems import Problem, Unreachable
from livebox.client.rest import Rest

KEPT: Final = 1000  # events that wait for a reader before they are left to be read from the log again


class Tail:
    """The log after a position, in its order, each event once."""

    def __init__(self, gateway: Gateway, rest: Rest, after: int | None) -> None:
        self._gateway = gateway
        self._rest = rest
        self._after = after
        self._fresh: deque[Event] = deque()
        self._behind = True  # what is kept does not follow what was read: read pages first
        self._changed = asyncio.Event()

    async def follow(self) -> AsyncIterator[Event]:
        """Every event; waits for those that have not happened yet. Raises Problem `cursor_expired` when the log does
        not reach back so far: take a snapshot then."""
        listen = self._gateway.listen
        ends = [
            listen("event", self._event),
            listen("resync", lambda _: self._lost_track()),
            listen("refused", lambda _: self._changed.set()),
        ]
        try:
            ready = await self._gateway.connected()
            if self._after is None:
                self._after = ready["seq"]
                self._behind = False
            while True:
                self._changed.clear()
                if self._behind:
                    async for event in self._pages():
                        yield event
                while self._fresh and not self._behind:
                    event = self._fresh.popleft()
                    if event["seq"] > self._after:
                        self._after = event["seq"]
                        yield event
                if self._gateway.refusal is not None:
                    raise self._gateway.refusal
                if not self._behind:
                    await self._changed.wait()
        finally:
            for end in ends:
                end()

    def _event(self, frame: dict[str, Any]) -> None:
        if len(self._fresh) >= KEPT:
            self._lost_track()
        else:
            self._fresh.append(frame["event"])
        self._changed.set()

    def _lost_track(self) -> None:
        self._fresh.clear()
        self._behind = True
        self._changed.set()

    async def _pages(self) -> AsyncIterator[Event]:
        """From the log up to where it is; events that happen meanwhile are kept."""
        pauses = Pauses()
        more = True
        self._behind = False
        while more:
            try:
                page = await self._rest.list_events(self._after or 0)
            except (Problem, Unreachable) as error:
                if isinstance(error, Problem) and error.status < 500 and error.status != 429:
                    raise
                await asyncio.sleep(pauses.next())
                continue
            for event in page["items"]:
                self._after = event["seq"]
                yield event
            self._after = max(self._after or 0, page["next_after"])
            more = page["has_more"]
