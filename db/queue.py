"""A bounded queue that is fair: who has much waiting does not delay who has little."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from .errors import Overloaded

Item = TypeVar("Item")

FULL: Final = "too much is waiting already"


class FairQueue(Generic[Item]):
    """One line per key, served in turn; first in, first out within a line. ``limit`` bounds all lines together.

    A full queue is fair too: who has little waiting takes the last place of who has most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._lines: dict[str, deque[Item]] = {}
        self._turns: deque[str] = deque()
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return self._size

    def put(self, key: str, item: Item) -> Item | None:
        """Adds an item to the line of its key, and gives the item that lost its place for it, if one did.

        Raises ``Overloaded`` when the queue is full and no other line is longer than this one would become.
        """
        displaced = self._make_room(key) if self._size >= self._limit else None
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque((item,))
            self._turns.append(key)
        else:
            line.append(item)
        self._size += 1
        self._wake()
        return displaced

    def _make_room(self, key: str) -> Item:
        longest = max(self._lines.values(), key=len, default=None)
        if longest is None or len(longest) <= len(self._lines.get(key, ())) + 1:
            raise Overloaded(FULL)
        self._size -= 1
        return longest.pop()

    def take(self) -> Item:
        """Removes the next item in turn. Raises ``IndexError`` when there is none."""
        key = self._turns.popleft()
        line = self._lines[key]
        item = line.popleft()
        if line:
            self._turns.append(key)
        else:
            del self._lines[key]
        self._size -= 1
        return item

    async def wait(self) -> None:
        """Returns once there is something to take, or at the end. Of several who wait, one is woken per item."""
        while not self._size and not self._closed:
            sleeper = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            try:
                await sleeper
            except asyncio.CancelledError:
                if sleeper.done() and not sleeper.cancelled() and self._size:
                    self._wake()
                raise

    def close(self) -> None:
        """From now on nobody waits: what is left can be taken."""
        self._closed = True
        while self._sleepers:
            self._wake()

    def _wake(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return
