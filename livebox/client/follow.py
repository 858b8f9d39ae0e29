"""Run documents that are looked at over one gateway, kept up to date by patches and fetched when one is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from generated.models import Run
from livebox.client.document import Mismatch, apply
from livebox.client.gateway import Gateway
from livebox.client.pauses import Pauses
from livebox.client.problems import GatewayLost, Problem, Unreachable
from livebox.client.rest import ENDED, Rest

BEHIND_MAX: Final = 2000  # patches that are kept while a document is fetched
LOOK_EVERY: Final = 2.0  # seconds between looks at a run that the session cannot focus
# What may change who sees which run: what is looked at is asked for again then.
_RIGHTS: Final = frozenset({"access.changed", "thread.moved", "thread.deleted", "channel.updated"})


class Followed:
    """One run as it is known here. Documents are never changed in place: each version is an object of its own."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.run: Run | None = None
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self.followers = 0
        self.focused = False
        self.gap = asyncio.Event()
        self._behind: list[dict[str, Any]] = []

    def document(self, run: Run) -> None:
        """A whole document came. One that is older than what is known is left out."""
        if self.run is None or run["version"] >= self.run["version"]:
            self.run = run
            self.changed.set()
        behind, self._behind = self._behind, []
        self.gap.clear()
        for frame in behind:
            self.updated(frame)

    def updated(self, frame: dict[str, Any]) -> None:
        """A patch came: it fits, is old, or shows that something is missing."""
        if self.gap.is_set():
            if len(self._behind) < BEHIND_MAX:
                self._behind.append(frame)
            return
        if self.run is not None and frame["version"] <= self.run["version"]:
            return
        if self.run is None or frame["base_version"] != self.run["version"]:
            self._missing(frame)
            return
        try:
            changed = apply(cast(dict[str, Any], self.run), frame["ops"])
        except Mismatch:
            self._missing(frame)
            return
        changed["version"] = frame["version"]
        self.run = cast(Run, changed)
        self.changed.set()

    def failed(self, error: Exception) -> None:
        """Nothing more will come."""
        self.error = error
        self.changed.set()

    def _missing(self, frame: dict[str, Any]) -> None:
        self._behind = [frame]
        self.gap.set()


class Documents:
    """Follows runs for whoever asks, over the one session of `gateway`."""

    def __init__(self, gateway: Gateway, rest: Rest) -> None:
        self._gateway = gateway
        self._rest = rest
        self._followed: dict[str, Followed] = {}
        self._focus_asked = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._healing: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Listen to the gateway."""
        listen = self._gateway.listen
        listen("ready", lambda _: self._focus_asked.set())
        listen("lost", lambda _: self._lost())
        listen("refused", lambda _: self._refused())
        listen("event", self._event)
        listen("run.document", self._document)
        listen("run.updated", self._updated)
        self._tasks = [asyncio.create_task(self._focus()), asyncio.create_task(self._look())]

    async def stop(self) -> None:
        """Follow no more."""
        tasks = [*self._tasks, *self._healing.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def known(self, run_id: str) -> Run | None:
        """The newest document of a run that is followed."""
        followed = self._followed.get(run_id)
        return followed.run if followed is not None else None

    async def follow(self, run_id: str) -> AsyncIterator[Run]:
        """The run now and whenever it has changed, until it has ended; versions that nobody waited for are left out."""
        followed = self.hold(run_id)
        seen = 0
        try:
            if self._gateway.refusal is not None:
                raise self._gateway.refusal
            while True:
                if followed.error is not None:
                    raise followed.error
                run = followed.run
                if run is not None and run["version"] > seen:
                    seen = run["version"]
                    yield run
                    if run["state"] in ENDED:
                        return
                else:
                    followed.changed.clear()
                    await followed.changed.wait()
        finally:
            self.release(run_id)

    def hold(self, run_id: str) -> Followed:
        """Look at a run until `release`."""
        followed = self._followed.get(run_id)
        if followed is None:
            followed = self._followed[run_id] = Followed(run_id)
            self._focus_asked.set()
        followed.followers += 1
        return followed

    def release(self, run_id: str) -> None:
        """Look at it no more, when nobody else does."""
        followed = self._followed[run_id]
        followed.followers -= 1
        if followed.followers == 0:
            del self._followed[run_id]
            healing = self._healing.pop(run_id, None)
            if healing is not None:
                healing.cancel()
            self._focus_asked.set()

    def _document(self, frame: dict[str, Any]) -> None:
        followed = self._followed.get(frame["run"]["id"])
        if followed is not None:
            followed.document(frame["run"])
            self._heal_if_needed(followed)

    def _updated(self, frame: dict[str, Any]) -> None:
        followed = self._followed.get(frame["run_id"])
        if followed is not None:
            followed.updated(frame)
            self._heal_if_needed(followed)

    def _event(self, frame: dict[str, Any]) -> None:
        if frame["event"]["type"] in _RIGHTS and self._followed:
            self._focus_asked.set()

    def _lost(self) -> None:
        for followed in self._followed.values():
            followed.focused = False

    def _refused(self) -> None:
        for followed in self._followed.values():
            followed.failed(self._gateway.refusal or GatewayLost("refused"))

    async def _focus(self) -> None:
        """Tell the gateway what is looked at, whenever that changes and with each session."""
        pauses = Pauses()
        while True:
            await self._focus_asked.wait()
            if self._gateway.ready is None:  # the next session asks again
                self._focus_asked.clear()
                continue
            self._focus_asked.clear()
            wanted = list(self._followed)[: self._gateway.ready["limits"]["focus_max"]]
            try:
                result = await self._gateway.request({"type": "focus", "run_ids": wanted})
                pauses.reset()
            except GatewayLost:
                continue
            except Problem as problem:
                await asyncio.sleep(pauses.next(problem.retry_after))
                self._focus_asked.set()
                continue
            focused = set(result.get("run_ids", ()))
            for run_id in wanted:
                followed = self._followed.get(run_id)
                if followed is not None:
                    followed.focused = run_id in focused
                    if not followed.focused:
                        self._heal(followed)

    async def _look(self) -> None:
        """What the session may not focus, or no longer: ask for it from time to time, and hear when it is gone."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for followed in list(self._followed.values()):
                if not followed.focused and followed.error is None:
                    self._heal(followed)

    def _heal_if_needed(self, followed: Followed) -> None:
        if followed.gap.is_set():
            self._heal(followed)

    def _heal(self, followed: Followed) -> None:
        task = self._healing.get(followed.run_id)
        if task is None or task.done():
            self._healing[followed.run_id] = asyncio.create_task(self._fetch(followed))

    async def _fetch(self, followed: Followed) -> None:
        """Fetch the document until nothing is missing any more."""
        pauses = Pauses(longest=LOOK_EVERY)
        while True:
            try:
                followed.document(await self._rest.get_run(followed.run_id))
            except Problem as problem:
                if problem.status < 500 and problem.status != 429:
                    followed.failed(problem)
                    return
            except Unreachable:
                pass  # the gateway tells when the server is back
            if not followed.gap.is_set():
                return
            await asyncio.sleep(pauses.next())
