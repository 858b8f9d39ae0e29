"""Sends the changes of a draft: few patches, each the difference to what the server has, whatever it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from generated.models import PatchOp, Run
from livebox.client.document import apply, coarse, difference, members
from livebox.client.pauses import Pauses
from livebox.client.problems import GatewayLost, Problem, Unreachable

EVERY: Final = 0.1  # seconds between patches while somebody looks, or that is not known
UNWATCHED: Final = 5.0  # seconds between patches while nobody looks
MANY: Final = 50  # operations above which whole members are sent
# Somebody else serves the run just now, or there is too much to do: the same patch may pass later.
_LATER: Final = frozenset({"live_elsewhere", "rate_limited", "overloaded", "timeout", "unavailable", "internal_error"})

_log = logging.getLogger("livebox.client")

Send = Callable[[int, list[PatchOp]], Awaitable[int]]


class Patches:
    """Keeps the server's document as the draft is, patch after patch, while `keep` runs.

    `shown` gives the members as they should be; `send(base_version, ops)` gives the new version, or raises what the
    server answered; `reload` gives the run as the server has it; `heard` is told of each document that came back.
    """

    def __init__(
        self,
        run: Run,
        shown: Callable[[], dict[str, Any]],
        send: Send,
        reload: Callable[[], Awaitable[Run]],
        heard: Callable[[Run], None],
        *,
        every: float = EVERY,
        unwatched: float = UNWATCHED,
    ) -> None:
        self._shown = shown
        self._send = send
        self._reload = reload
        self._heard = heard
        self._every = every
        self._unwatched = unwatched
        self._version = run["version"]
        self._known = members(run)
        self._refused: dict[str, Any] = {}  # members as the server would not have them
        self._sending = asyncio.Lock()
        self._dirty = asyncio.Event()
        self._hurry = asyncio.Event()
        self._last = float("-inf")
        self._watched: bool | None = None
        self._doubtful = False

    @property
    def watched(self) -> bool | None:
        """Whether somebody looks; None while that is not known."""
        return self._watched

    @watched.setter
    def watched(self, watched: bool | None) -> None:
        if watched and not self._watched:
            self._hurry.set()  # who begins to look sees what is now
        self._watched = watched

    def changed(self) -> None:
        """The draft has changed."""
        self._dirty.set()

    def doubt(self) -> None:
        """The server may have fallen, and lost what it had not saved: look at what it has before anything is sent."""
        self._doubtful = True
        self._dirty.set()

    def learn(self, run: Run) -> None:
        """What the server has now."""
        if run["version"] >= self._version:
            self._version = run["version"]
            self._known = members(run)

    async def keep(self) -> None:
        """Send what changes, until RunLost."""
        while True:
            await self._dirty.wait()
            await self._rest()
            async with self._sending:
                await self._once()

    async def flush(self) -> None:
        """Send until the server has what is shown now, or will not have it."""
        async with self._sending:
            while self._doubtful or self._ops():
                await self._once()

    async def _once(self) -> None:
        """One patch with all that differs, made again until it passes."""
        pauses = Pauses(longest=2.0)
        conflicts = 0
        while True:
            self._dirty.clear()
            if self._doubtful and not await self._look():
                await asyncio.sleep(pauses.next())
                continue
            ops = self._ops()
            if not ops:
                return
            self._last = asyncio.get_running_loop().time()
            try:
                version = await self._send(self._version, ops)
            except Problem as problem:
                if problem.code == "version_conflict":
                    conflicts += 1
                    if conflicts > 1:  # the first is told with the document, and is made again at once
                        await asyncio.sleep(pauses.next())
                await self._answer(problem, ops, pauses)
            except (GatewayLost, Unreachable):
                await asyncio.sleep(pauses.next())
            else:
                self._known = apply(self._known, ops)
                self._version = version
                return

    async def _look(self) -> bool:
        """Take what the server has; False when it does not say."""
        try:
            run = await self._reload()
        except (Problem, Unreachable) as error:
            _log.debug("the run could not be looked at: %s", error)
            return False
        self._doubtful = False
        self._take(run)
        return True

    async def _rest(self) -> None:
        """Let changes gather: the first after quiet leaves at once."""
        loop = asyncio.get_running_loop()
        while True:
            every = self._unwatched if self.watched is False else self._every
            left = self._last + every - loop.time()
            if left <= 0:
                return
            self._hurry.clear()
            try:
                async with asyncio.timeout(left):
                    await self._hurry.wait()
            except TimeoutError:
                return

    def _ops(self) -> list[PatchOp]:
        shown = self._shown()
        for name, value in list(self._refused.items()):
            if shown.get(name) == value:  # as it was when it was refused
                shown.pop(name, None)
                if name in self._known:
                    shown[name] = self._known[name]
            else:
                del self._refused[name]
        ops = difference(self._known, shown)
        return ops if len(ops) <= MANY else coarse(self._known, shown)

    async def _answer(self, problem: Problem, ops: list[PatchOp], pauses: Pauses) -> None:
        if problem.code == "version_conflict" and problem.run is not None:
            self._take(problem.run)
        elif problem.code in _LATER or problem.status in (429, 503):
            await asyncio.sleep(pauses.next(problem.retry_after))
        elif problem.code == "version_conflict" or _misses_its_target(problem):
            await asyncio.sleep(pauses.next())
            with suppress(GatewayLost, Unreachable):
                self._take(await self._reload())
        else:
            await self._refuse(problem, ops)

    def _take(self, run: Run) -> None:
        """The server's document, whatever we thought."""
        self._version = run["version"]
        self._known = members(run)
        self._heard(run)

    async def _refuse(self, problem: Problem, ops: list[PatchOp]) -> None:
        """The server will not have these values: leave out the members that hold them, so that the others pass."""
        names = list(dict.fromkeys(op["path"].split("/")[1] for op in ops))
        shown = self._shown()
        if len(ops) > 1:
            await self._one_by_one(names, shown)
        else:
            _log.warning("%s is not shown: %s", names[0], problem)
            self._refused[names[0]] = shown.get(names[0])

    async def _one_by_one(self, names: list[str], shown: dict[str, Any]) -> None:
        """Send each member alone, and leave out those that are refused."""
        for name in names:
            only = {**self._known}
            only.pop(name, None)
            if name in shown:
                only[name] = shown[name]
            ops = coarse(self._known, only)
            if not ops:
                continue
            try:
                version = await self._send(self._version, ops)
            except Problem as problem:
                if problem.status in (400, 413):
                    _log.warning("%s is not shown: %s", name, problem)
                    self._refused[name] = shown.get(name)
                    continue
                return  # something else came between: the whole is made again
            except (GatewayLost, Unreachable):
                return
            self._known = apply(self._known, ops)
            self._version = version


def _misses_its_target(problem: Problem) -> bool:
    return any(error["code"] == "patch_target_missing" for error in problem.errors)
