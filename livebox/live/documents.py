"""The documents of runs in memory, and how what happened to their rows comes in.

A run is here as an `Entry` while this process owns its live document or somebody here looks at it. Whatever raises a
run but a patch is a row that changed: it is read again (`raised`) and taken in, and whoever looks is told the
difference. All that changes an entry beside patches happens while its `busy` lock is held; patches wait for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from db import Database
from livebox.jobs.loop import Loop
from livebox.jobs.outage import Outage
from livebox.live.difference import difference, laid_over
from livebox.live.entry import ACTIVE, Entry, patchable_half
from livebox.live.frames import MAX_OPS, updated, whole
from livebox.live.keeper import Keeper, note_saved
from livebox.live.rows import CHUNK, Rows
from livebox.live.watchers import Watchers
from livebox.log import logger
from livebox.settings import Settings

TRIES: Final = 5
"""How often something is tried again that was overtaken."""
WATCHING: Final = 2.0
"""How often other processes are told what is looked at here, in seconds."""

_log = logger("live")


class Documents:
    """The runs that one process, called `owner` in the rows, serves or shows.

    What others set before `start`: `on_frame(entry, json)` gets every frame for those who look at a run, in order;
    `on_end(entry)` is told of the end of a run; `on_poke(kind, run_ids)` tells other processes (`runs`: look at them
    again, `watching`, `handover`); `watchers.on_watched`.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        owner: str,
        *,
        on_turn: Callable[[str, bool], None] | None = None,
        outage: Outage | None = None,
    ) -> None:
        self.owner = owner
        self.watchers = Watchers()
        self.on_frame: Callable[[Entry, bytes], None] = lambda entry, frame: None
        self.on_end: Callable[[Entry], None] = lambda entry: None
        self.on_poke: Callable[[str, list[str]], None] = lambda kind, run_ids: None
        self._rows = Rows(database)
        self._keeper = Keeper(self._rows, settings, owner, self.raised, self._freed, on_turn=on_turn, outage=outage)
        self._entries: dict[str, Entry] = {}
        self._pending: dict[str, None] = {}
        pause = settings.number("gateway.poll_interval")
        self._absorbing = Loop("live_raises", pause, self.absorb_pending, on_turn=on_turn, outage=outage)
        self._polling = Loop("live_polls", pause, self.poll, on_turn=on_turn, outage=outage)
        self._telling = Loop("live_watching", WATCHING, self._tell_watching, on_turn=on_turn)
        self._loops = (self._absorbing, self._polling, self._telling)

    def __len__(self) -> int:
        return len(self._entries)

    # who looks

    async def open(self, run_id: str) -> Entry | None:
        """The run, for somebody who looks at it until `release`; None when it is not there.

        What `on_frame` gives after it returned leads on from the document that the entry holds then. Raises
        `db.DatabaseError`.
        """
        entry = self._entries.get(run_id)
        if entry is None:
            entry = self._entries[run_id] = Entry(run_id)
        entry.refs += 1
        try:
            if not entry.server:
                async with self._alone(entry):
                    if not entry.server:
                        await self._absorb(entry)
        except BaseException:
            entry.refs -= 1
            self._drop_if_unused(entry)
            raise
        if not entry.server:
            entry.refs -= 1
            self._drop_if_unused(entry)
            return None
        self.watchers.come(run_id)
        if not entry.owned:
            self.on_poke("watching", [run_id])
        return entry

    def release(self, run_id: str) -> None:
        """Somebody looks no more."""
        entry = self._entries[run_id]
        entry.refs -= 1
        self.watchers.go(run_id)
        self._drop_if_unused(entry)

    def is_watched(self, run_id: str) -> bool:
        """Does anybody look at the run, here or elsewhere?"""
        return self.watchers(run_id)

    def watching(self, run_ids: Iterable[str]) -> None:
        """Another process says that somebody looks at these."""
        self.watchers.heard(run_ids)

    # what others did

    def committed(self, effects: Iterable[Mapping[str, Any]]) -> None:
        """The write lane of this process committed; what it raised is looked at again, here and elsewhere."""
        for effect in effects:
            if effect.get("kind") == "run.raised":
                self.raised(effect["runs"])
                self.on_poke("runs", effect["runs"])

    def raised(self, run_ids: Iterable[str]) -> None:
        """The rows of these runs have changed. Costs nothing for runs that are not here."""
        for run_id in run_ids:
            if run_id in self._entries:
                self._pending[run_id] = None
        if self._pending:
            self._absorbing.wake()

    async def poll(self) -> None:
        """Find runs whose rows moved without a word having come. Raises `db.DatabaseError`."""
        self.watchers.expire()
        known = [entry for entry in self._entries.values() if entry.server]
        moved = await self._rows.versions([entry.run_id for entry in known])
        behind = []
        for entry in known:
            row = moved.get(entry.run_id)
            if row is None or self._entries.get(entry.run_id) is not entry:
                continue
            tokens = entry.invocation_jti + entry.renewed_from_jti
            if row.version > entry.version or row.epoch > entry.epoch or row.tokens != tokens:
                behind.append(entry.run_id)
        self.raised(behind)

    async def absorb_pending(self) -> None:
        """Read again what was raised. A run that is busy is left to whoever has it."""
        while True:
            free = [
                run_id
                for run_id in self._pending
                if run_id in self._entries and not self._entries[run_id].busy.locked()
            ]
            self._pending = {run_id: None for run_id in self._pending if run_id in self._entries}
            if not free:
                return
            entries = [self._entries[run_id] for run_id in free[:CHUNK]]
            for entry in entries:
                await entry.busy.acquire()  # it is free: this does not wait
                self._pending.pop(entry.run_id, None)
            left = list(entries)
            try:
                rows = await self._rows.documents([entry.run_id for entry in entries])
                while left:
                    await self._absorb(left[0], rows.get(left[0].run_id), read=True)
                    left.pop(0).busy.release()
            except BaseException:
                for entry in left:
                    self._pending[entry.run_id] = None
                    entry.busy.release()
                raise

    @asynccontextmanager
    async def _alone(self, entry: Entry) -> AsyncIterator[None]:
        """The entry for oneself; a raise that came meanwhile is looked at afterwards."""
        try:
            async with entry.busy:
                yield
        finally:
            if entry.run_id in self._pending:
                self._absorbing.wake()

    async def _absorb(self, entry: Entry, row: dict[str, Any] | None = None, *, read: bool = False) -> None:
        """Take in the row of an entry whose lock is held, and tell who looks. `read`: `row` was read after the lock.

        Content that the row does not have is saved on top of what others did. Raises `db.DatabaseError`.
        """
        for _ in range(TRIES):
            if not read:
                self._pending.pop(entry.run_id, None)
                row = await self._rows.document(entry.run_id)
            read = False
            if row is None:
                self._drop(entry)
                return
            if await self._take_in(entry, row):
                return
        self._pending[entry.run_id] = None

    async def _take_in(self, entry: Entry, row: dict[str, Any]) -> bool:
        run = row["run"]
        ended = run["state"] not in ACTIVE
        if entry.owned and row["epoch"] != entry.epoch:
            if entry.dirty:
                _log.warning("live_content_lost", run_id=entry.run_id)
            self._disown(entry)
        saved = row.get("live_version", 0)
        if entry.saving is not None and entry.saving[0] == saved:
            note_saved(entry, saved, min(saved, entry.content), entry.saving[1], 0)
        members, version = patchable_half(run), run["version"]
        if entry.owned and entry.content > saved and not row["final"]:
            if version <= entry.version:  # nobody raised it: the content is saved when its time comes
                members, version = entry.members, entry.version
            else:
                # What others wrote into the content since it was saved (the end of a run has metrics) stays.
                theirs = difference(entry.saved, members, ignored=frozenset()) if entry.saved_at == saved else []
                members = laid_over(entry.members, theirs)
                version += 1
                given = self._keeper.row(entry, version, members, final=ended)
                entry.saving = (version, members)
                (result,) = await self._rows.save("save_live", [given])
                if result["outcome"] != "saved":
                    return False
                row["reserved"] = max(row["reserved"], result.get("reserved", version))
                entry.content, saved = version, version
        elif not entry.owned or version >= entry.version:
            entry.content = saved
        ends = ended and bool(entry.server) and entry.active
        self._settle(entry, row, members, version, saved)
        if ended:
            self._disown(entry)
            if ends:
                self.on_end(entry)
            self._drop_if_unused(entry)
        elif row.get("owner") == self.owner and not entry.owned:
            entry.owned = True
        return True

    def _settle(self, entry: Entry, row: dict[str, Any], members: dict[str, Any], version: int, saved: int) -> None:
        before, base, size = entry.document if entry.refs and entry.server else None, entry.version, entry.size
        same_content = members is entry.members
        entry.put(row, members, version)
        if same_content:
            entry.size = size
        if saved >= entry.content:
            entry.saved, entry.saved_content, entry.saved_at = members, saved, saved
            entry.saving = None
        if entry.owned and entry.reserved <= entry.version:
            self._keeper.low(entry)
        if before is not None and version > base:
            ops = difference(before, entry.document)
            frame = updated(entry.run_id, base, version, ops) if len(ops) <= MAX_OPS else whole(entry)
            self.on_frame(entry, frame)
            self._poke(self.watchers.elsewhere([entry.run_id]))

    # entries

    def _disown(self, entry: Entry) -> None:
        entry.owned = False
        entry.saving = None
        self._keeper.forget(entry)

    def _drop_if_unused(self, entry: Entry) -> None:
        if not entry.refs and not entry.owned:
            self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        self._disown(entry)
        if self._entries.get(entry.run_id) is entry and not entry.refs:
            del self._entries[entry.run_id]

    def _freed(self, run_ids: list[str]) -> None:
        self.raised(run_ids)
        self._poke(run_ids)

    def _poke(self, run_ids: list[str]) -> None:
        if run_ids:
            self.on_poke("runs", run_ids)

    async def _tell_watching(self) -> None:
        """Say what is looked at here and served elsewhere."""
        run_ids = [run_id for run_id in self.watchers.here() if not self._entries[run_id].owned]
        if run_ids:
            self.on_poke("watching", run_ids)
