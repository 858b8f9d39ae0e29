"""Follow-ups of a run: those that wait, and taking them into the work one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from generated.models import Message, RunFollowupMessage
from livebox.client.holder import Holder
from livebox.client.problems import RunLost


class Mailbox:
    """What came for the run and was not taken yet. `taking` is held by who takes, so that no answer goes to another."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._pending: dict[str, int] = {}  # position by message id
        self._seen: set[str] = set()
        self._early: deque[Message] = deque()  # taken, but not handed out
        self._arrived = asyncio.Event()
        self._end: RunLost | None = None
        self._closed = False
        self.taking = asyncio.Lock()

    def add(self, frame: dict[str, Any] | RunFollowupMessage) -> None:
        """A follow-up was told of, maybe again."""
        followup = frame["followup"]
        if followup["state"] == "pending" and followup["message_id"] not in self._seen:
            self._pending[followup["message_id"]] = followup["position"]
            self._arrived.set()

    async def fetch(self) -> None:
        """Ask the server what waits."""
        for followup in await self._holder.followups():
            self.add(followup)

    def close(self, end: RunLost | None = None) -> None:
        """Nothing more is taken; whoever waits gets `end`."""
        self._closed = True
        self._end = self._end or end
        self._arrived.set()

    async def wait(self, *, early: bool = False) -> bool:
        """Wait until something is there to take (with `early` also what was taken and kept); False when nothing will
        be. Raises RunLost when the run is lost."""
        while not self._pending and not (early and self._early):
            if self._closed:
                if self._end is not None:
                    raise self._end
                return False
            self._arrived.clear()
            await self._arrived.wait()
        return True

    async def take_all(self) -> list[Message]:
        """Take everything that waits, in order. `taking` has to be held."""
        taken: list[Message] = []
        while self._pending:
            message = await self._take_first()
            if message is not None:
                taken.append(message)
        return taken

    async def take_early(self) -> None:
        """Take everything that waits and keep it for `next`. `taking` has to be held."""
        await self.fetch()
        self._early.extend(await self.take_all())
        self._arrived.set()

    async def next(self) -> Message | None:
        """The next follow-up, taken; None when there will be none."""
        while await self.wait(early=True):
            async with self.taking:
                if self._early:
                    return self._early.popleft()
                if self._pending:
                    await self.fetch()  # so that one whose push was lost is not passed over
                    message = await self._take_first()
                    if message is not None:
                        return message
        return None

    async def _take_first(self) -> Message | None:
        message_id = min(self._pending, key=self._pending.__getitem__)
        taken = await self._holder.take(message_id)
        self._pending.pop(message_id, None)
        self._seen.add(message_id)
        return taken.get("message") if taken is not None else None
