"""Keeps the rows of owned runs up to date: saves their content, sets versions aside, shows that the owner lives.

None of it uses the write lane or writes an event. Each save applies only where this process still owns the run and
nobody raised it meanwhile; else the run is looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from db import DatabaseError
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.live.entry import Entry
from livebox.live.owner import is_dead
from livebox.live.rows import CHUNK, Rows
from livebox.log import logger
from livebox.settings import Settings

TOUCHES: Final = 4
"""How often in the time of a lease its owner says that it is there."""

_log = logger("live")


class Keeper:
    """Saves for the plane. `again(run_ids)` is told of runs that have to be read again, `freed(run_ids)` of those
    whose owner was found dead.
    """

    def __init__(
        self,
        rows: Rows,
        settings: Settings,
        owner: str,
        again: Callable[[Iterable[str]], None],
        freed: Callable[[list[str]], None],
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        more: dict[str, Any] = {"on_turn": on_turn, "outage": outage}
        self._rows = rows
        self._owner = owner
        self._again = again
        self._freed = freed
        self.block = settings.integer("run.version_block")
        self.lease = float(settings.number("run.live_lease"))
        self._unsaved: dict[str, Entry] = {}
        self._low: dict[str, Entry] = {}
        self._saving = asyncio.Lock()
        self._saves = Loop("live_saves", settings.number("run.checkpoint_interval"), self.save, **more)
        self._touches = Loop("live_owner", self.lease / TOUCHES, self.touch, **more)
        self._reserves = Loop("live_versions", 60, self._reserve_low, **more)
        self._loops = (self._saves, self._touches, self._reserves)

    async def start(self) -> None:
        """Say that this process is there, free what dead ones of this machine had, and begin. Raises DatabaseError."""
        await self._rows.touch(self._owner)
        dead = [owner for owner in await self._rows.owners() if owner != self._owner and is_dead(owner)]
        self._freed(await self._rows.free(dead, self.lease))
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """End the loops; nothing is saved."""
        for loop in self._loops:
            await loop.stop()

    async def touch(self) -> None:
        """Say that this process is there, and look who is not."""
        await self._rows.touch(self._owner)
        freed = await self._rows.free([], self.lease)
        if freed:
            self._freed(freed)

    def changed(self, entry: Entry) -> None:
        """The content of an owned run changed: it will be saved, and versions set aside before they run out."""
        self._unsaved[entry.run_id] = entry
        if entry.reserved - entry.version < self.block // 2:
            self.low(entry)

    def low(self, entry: Entry) -> None:
        """Few versions are left for the patches of this run: set more aside soon."""
        if entry.run_id not in self._low:
            self._low[entry.run_id] = entry
            self._reserves.wake()

    def forget(self, entry: Entry) -> None:
        """The run is not owned here any more."""
        self._unsaved.pop(entry.run_id, None)
        self._low.pop(entry.run_id, None)

    async def save(self) -> None:
        """Save all content that is not saved. Raises DatabaseError; what was not saved is kept for the next time."""
        async with self._saving:
            waiting = iter([entry for entry in self._unsaved.values() if entry.dirty])
            while chunk := list(islice(waiting, CHUNK)):
                await self.save_these(chunk)
            for run_id, entry in list(self._unsaved.items()):
                if not entry.dirty:
                    del self._unsaved[run_id]

    async def save_these(self, entries: list[Entry], *, release: bool = False) -> list[Entry]:
        """Save these in one statement; those that were saved. Raises DatabaseError."""
        rows = []
        for entry in entries:
            entry.saving = (entry.version, entry.members)
            rows.append({**self.row(entry, entry.version, entry.members), "release": release})
        taken = [(entry, entry.epoch, entry.version, entry.content, entry.members) for entry in entries]
        results = await self._rows.save("save_live", rows)
        saved = []
        for (entry, epoch, version, content, members), result in zip(taken, results, strict=True):
            if result["outcome"] == "saved" and entry.epoch == epoch:
                note_saved(entry, version, content, members, result.get("reserved", 0))
                saved.append(entry)
            elif result["outcome"] != "skipped":
                self._again([entry.run_id])
        return saved

    def row(self, entry: Entry, version: int, members: dict[str, Any], *, final: bool = False) -> dict[str, Any]:
        """One row for save_live."""
        given = {"run_id": entry.run_id, "epoch": entry.epoch, "version": version, "document": members}
        return {**given, "final": True, "block": 0} if final else {**given, "block": self.block}

    async def reserve(self, entries: list[Entry]) -> None:
        """Set versions aside for these. Raises DatabaseError."""
        rows = [
            {"run_id": entry.run_id, "epoch": entry.epoch, "base": entry.version, "version": entry.version + self.block}
            for entry in entries
        ]
        epochs = [entry.epoch for entry in entries]
        results = await self._rows.save("reserve_versions", rows)
        for entry, epoch, result in zip(entries, epochs, results, strict=True):
            if result["outcome"] == "saved":
                if entry.epoch == epoch:
                    entry.reserved = max(entry.reserved, result["reserved"])
            elif result["outcome"] == "lost":
                self._again([entry.run_id])

    async def _reserve_low(self) -> None:
        low, self._low = self._low, {}
        waiting = iter([entry for entry in low.values() if entry.owned])
        while chunk := list(islice(waiting, CHUNK)):
            await self.reserve(chunk)

    async def leave(self, entries: list[Entry]) -> None:
        """Save and give up everything, at the end of the process; logs what could not be."""
        try:
            dirty = [entry for entry in entries if entry.dirty]
            while chunk := dirty[:CHUNK]:
                del dirty[:CHUNK]
                for entry in await self.save_these(chunk, release=True):
                    entry.owned = False
            rows = [
                {"run_id": entry.run_id, "epoch": entry.epoch} for entry in entries if entry.owned and not entry.dirty
            ]
            while part := rows[:CHUNK]:
                del rows[:CHUNK]
                await self._rows.save("release_live", part)
            await self._rows.free([self._owner], self.lease)
        except DatabaseError:
            _log.warning("live_documents_not_saved", exc_info=True)


def note_saved(entry: Entry, version: int, content: int, members: dict[str, Any], reserved: int) -> None:
    """The row of an owned run now holds this content at this version."""
    entry.row_version = max(entry.row_version, version)
    if content >= entry.saved_content:
        entry.saved_content, entry.saved, entry.saved_at = content, members, version
    entry.reserved = max(entry.reserved, reserved)
