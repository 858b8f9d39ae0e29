"""Who looks at runs: devices of this process, and of others that say so from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

REMEMBERED: Final = 6.0
"""Seconds for which another process that said that somebody looks is believed."""
MAX_WATCHED: Final = 100_000
"""Most runs of which is remembered that other processes look at them."""


class Watchers:
    """Counts who looks at each run. `on_watched(run_id, watched)` hears when somebody begins, and when nobody does."""

    def __init__(self) -> None:
        self.on_watched: Callable[[str, bool], None] = lambda run_id, watched: None
        self._here: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def __call__(self, run_id: str) -> bool:
        """Does anybody look at the run?"""
        return run_id in self._here or run_id in self._until

    def here(self) -> Iterable[str]:
        """The runs that somebody looks at in this process."""
        return self._here.keys()

    def elsewhere(self, run_ids: Iterable[str]) -> list[str]:
        """Those of these runs that somebody looks at in another process."""
        return [run_id for run_id in run_ids if run_id in self._until]

    def come(self, run_id: str) -> None:
        """A device of this process begins to look."""
        before = self(run_id)
        self._here[run_id] = self._here.get(run_id, 0) + 1
        if not before:
            self.on_watched(run_id, True)

    def go(self, run_id: str) -> None:
        """A device of this process looks no more."""
        left = self._here.pop(run_id) - 1
        if left:
            self._here[run_id] = left
        elif not self(run_id):
            self.on_watched(run_id, False)

    def heard(self, run_ids: Iterable[str]) -> None:
        """Another process says that somebody looks at these."""
        until = asyncio.get_running_loop().time() + REMEMBERED
        for run_id in run_ids:
            before = self(run_id)
            self._until.pop(run_id, None)
            self._until[run_id] = until
            if len(self._until) > MAX_WATCHED:
                del self._until[next(iter(self._until))]
            if not before:
                self.on_watched(run_id, True)

    def expire(self) -> None:
        """Forget those of whom nothing was heard for long."""
        now = asyncio.get_running_loop().time()
        for run_id in [run_id for run_id, until in self._until.items() if until <= now]:
            del self._until[run_id]
            if not self(run_id):
                self.on_watched(run_id, False)
