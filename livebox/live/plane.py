"""The live plane: the documents of runs that this process serves or shows, and the one way in which each may change.

A run is in memory as an `Entry` while this process owns its live document or somebody here looks at it. Patches raise
the live version in memory, within versions that the row has reserved. Whatever else raises a run is a row that changed:
this process reads it again (`raised`) and takes it in, and whoever looks is told the difference. All that changes an
entry beside patches happens while its `busy` lock is held; patches wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from db import Caller, Database, DatabaseError
from livebox.invocations import Invocation
from livebox.jobs.life import Life
from livebox.jobs.loop import Loop
from livebox.limits import Limit
from livebox.live import patch as patching
from livebox.live.difference import difference, laid_over
from livebox.live.entry import ACTIVE, Entry, patchable_half
from livebox.live.hold import Hold, Holds
from livebox.live.keeper import Keeper, note_saved
from livebox.live.patch import Applied, Limits, PatchRefused
from livebox.live.request import Request
from livebox.live.rows import CHUNK, Rows
from livebox.live.watchers import Watchers
from livebox.log import logger
from livebox.settings import Settings
from livebox.telemetry import Telemetry

HANDOVER: Final = 0.5
"""Seconds after which to try again where another process serves the run."""
QUIET: Final = 0.25
"""Seconds without a patch after which the owner believes that the holder of the run went to another process."""
TRIES: Final = 5
"""How often something is tried again that was overtaken."""
MAX_OPS: Final = 10_000
"""Operations in one frame; a larger difference is told as the whole document."""
WATCHING: Final = 2.0
"""How often other processes are told what is looked at here, in seconds."""

_encode = msgspec.json.Encoder().encode
_log = logger("live")


class Plane:
    """The live documents of one process, which is called `owner` in the rows.

    `now` are seconds of the epoch by the clock of the database. What others set before `start`: `on_frame(entry, json)`
    gets every frame for those who look at a run, in order; `on_end(entry)` is told of the end of a run; `on_poke(kind,
    run_ids)` tells other processes (`runs`: look at them again, `watching`, `handover`); `watchers.on_watched`.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        life: Life,
        telemetry: Telemetry,
        owner: str,
        now: Callable[[], float],
    ) -> None:
        self.owner = owner
        self.watchers = Watchers()
        self.on_frame: Callable[[Entry, bytes], None] = lambda entry, frame: None
        self.on_end: Callable[[Entry], None] = lambda entry: None
        self.on_poke: Callable[[str, list[str]], None] = lambda kind, run_ids: None
        self._rows = Rows(database)
        self._holds = Holds(database, settings, now)
        self._life = life
        self._telemetry = telemetry
        turn = telemetry.turn
        self._keeper = Keeper(self._rows, settings, owner, self.raised, self._freed, on_turn=turn)
        self._limits = Limits(
            settings.integer("run.document_max_bytes"),
            settings.integer("run.text_max_bytes"),
            settings.integer("run.patch_max_bytes"),
            settings.integer("run.patch_max_ops"),
        )
        self._rate = Limit(settings.number("run.patch_rate"), settings.integer("run.patch_burst"))
        self._entries: dict[str, Entry] = {}
        self._pending: dict[str, None] = {}
        self._absorbing = Loop(
            "live_raises", settings.number("gateway.poll_interval"), self._absorb_pending, on_turn=turn
        )
        self._polling = Loop("live_polls", settings.number("gateway.poll_interval"), self.poll, on_turn=turn)
        self._telling = Loop("live_watching", WATCHING, self._tell_watching, on_turn=turn)

    def __len__(self) -> int:
        return len(self._entries)

    async def start(self) -> None:
        """Begin; what dead processes of this machine served is free when it returns. Raises `db.DatabaseError`."""
        await self._keeper.start()
        for loop in (self._absorbing, self._polling, self._telling):
            loop.start()

    async def stop(self) -> None:
        """Save everything and give it up. No patch may come any more."""
        for loop in (self._absorbing, self._polling, self._telling):
            await loop.stop()
        await self._keeper.stop()
        try:
            await self._absorb_pending()
        except DatabaseError:
            _log.warning("live_documents_not_read", exc_info=True)
        owned = [entry for entry in self._entries.values() if entry.owned]
        await self._keeper.leave(owned)
        for entry in owned:
            entry.owned = False

    # patches

    def patch_now(self, caller: Caller, run_id: str, invocation: Invocation, request: Request) -> int | None:
        """Apply a patch by what is known here: the new version; None when `patch` has to be asked.

        Raises PatchRefused for what is wrong with the patch itself.
        """
        entry = self._entries.get(run_id)
        if (
            entry is None
            or not entry.owned
            or entry.busy.locked()
            or entry.version != request.base_version
            or entry.version >= entry.reserved
            or request.errors
            or not self._holds.known(entry, caller, invocation)
        ):
            return None
        try:
            self._admit(run_id)
            version = self._apply(entry, self._applied(entry, patching.read(request.ops), request))
        except PatchRefused as refused:
            self._telemetry.patched(refused.code)
            raise
        self._telemetry.patched("applied")
        return version

    async def patch(self, caller: Caller, run_id: str, invocation: Invocation, request: Request) -> int:
        """Apply a patch with the rights of now: the new version. Raises PatchRefused or `db.DatabaseError`."""
        try:
            version = await self._patch(caller, run_id, invocation, request)
        except PatchRefused as refused:
            self._telemetry.patched(refused.code)
            raise
        self._telemetry.patched("applied")
        return version

    async def _patch(self, caller: Caller, run_id: str, invocation: Invocation, request: Request) -> int:
        hold = await self._hold(caller, run_id, invocation)
        self._admit(run_id)
        if request.errors:
            raise PatchRefused("validation_failed", request.errors)
        steps = patching.read(request.ops)
        for _ in range(TRIES):
            entry = await self._serving(run_id)
            if entry is not None:
                async with self._alone(entry):
                    if await self._ready(entry, hold):
                        if entry.version != request.base_version:
                            raise self._conflict(entry, hold)
                        return self._apply(entry, self._applied(entry, steps, request))
            hold = await self._hold(caller, run_id, invocation)
        raise PatchRefused("live_elsewhere", wait=HANDOVER)

    async def _hold(self, caller: Caller, run_id: str, invocation: Invocation) -> Hold:
        try:
            return await self._holds.ask(caller, run_id, invocation)
        except PatchRefused as refused:
            entry = self._entries.get(run_id)
            if refused.code != "run_ended" or entry is None or not entry.owned:
                raise
        # What was patched last is told with the end.
        async with self._alone(entry):
            await self._absorb(entry)
        return await self._holds.ask(caller, run_id, invocation)

    def _admit(self, run_id: str) -> None:
        if wait := self._rate.take(run_id):
            raise PatchRefused("rate_limited", wait=wait)

    def _applied(self, entry: Entry, steps: Sequence[patching.Step], request: Request) -> Applied:
        return patching.apply(
            entry.members, steps, self._limits, size=entry.size, raw_size=request.raw_size, late=request.late
        )

    def _conflict(self, entry: Entry, hold: Hold) -> PatchRefused:
        extra = {"current": entry.position(), "run": entry.document} if hold.reads else None
        return PatchRefused("version_conflict", extra=extra)

    def _apply(self, entry: Entry, applied: Applied) -> int:
        base, version = entry.version, entry.version + 1
        entry.version = entry.content = version
        entry.members, entry.size = applied.members, applied.size
        entry.patched_at = asyncio.get_running_loop().time()
        self._life.alive(entry.run_id, progress=True)
        self._keeper.changed(entry)
        if entry.refs:
            self.on_frame(entry, updated(entry.run_id, base, version, applied.ops))
        return version

    async def _ready(self, entry: Entry, hold: Hold) -> bool:
        """Is the entry, whose lock is held, owned, as new as the row was, and with a version to give?"""
        if not entry.owned or not entry.active:
            return False
        if entry.epoch < hold.epoch or entry.version < hold.version:
            await self._absorb(entry)
        if entry.owned and entry.version >= entry.reserved:
            await self._keeper.reserve([entry])
            if entry.version >= entry.reserved:
                await self._absorb(entry)
                await self._keeper.reserve([entry])
        return entry.owned and entry.active and entry.version < entry.reserved

    async def _serving(self, run_id: str) -> Entry | None:
        """The run, owned by this process; None when it cannot be owned. Raises PatchRefused: another process has it."""
        entry = self._entries.get(run_id)
        if entry is not None and entry.owned:
            return entry
        if entry is None:
            entry = self._entries[run_id] = Entry(run_id)
        async with self._alone(entry):
            try:
                if entry.owned:
                    return entry
                asked = {
                    "run_id": run_id,
                    "owner": self.owner,
                    "block": self._keeper.block,
                    "lease": self._keeper.lease,
                }
                (result,) = await self._rows.save("take_live", [asked])
                if result["outcome"] == "taken":
                    await self._absorb(entry)
                    self._poke([run_id])
                elif result["outcome"] != "gone":
                    self.on_poke("handover", [run_id])
                    raise PatchRefused("live_elsewhere", wait=HANDOVER)
            finally:
                self._drop_if_unused(entry)
        return entry if entry.owned else None

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

    def serves(self, run_id: str) -> bool:
        """Is the live document of the run served here?"""
        entry = self._entries.get(run_id)
        return entry is not None and entry.owned

    def is_watched(self, run_id: str) -> bool:
        """Does anybody look at the run, here or elsewhere?"""
        return self.watchers(run_id)

    def watching(self, run_ids: Iterable[str]) -> None:
        """Another process says that somebody looks at these."""
        self.watchers.heard(run_ids)

    async def shown(self, run_id: str, epoch: int, version: int) -> Entry | None:
        """The live document, when this process owns the run at the row's `epoch` and holds more than its `version`.

        What was acknowledged here before is in it, or in the row. Raises `db.DatabaseError`.
        """
        entry = self._entries.get(run_id)
        if entry is None or not entry.owned:
            return None
        if entry.epoch < epoch or entry.version < version:
            async with self._alone(entry):
                if entry.owned and (entry.epoch < epoch or entry.version < version):
                    await self._absorb(entry)
        return entry if entry.server and entry.epoch == epoch and entry.version > version else None

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

    @asynccontextmanager
    async def raising(self, run_id: str) -> AsyncIterator[dict[str, Any]]:
        """Around an operation of the write lane on this run: its newest content for `args.live`, empty if the row has it.

        Patches wait meanwhile. What the operation did is taken in before they go on.
        """
        entry = self._entries.get(run_id)
        if entry is None or not entry.owned:
            yield {}
            return
        async with self._alone(entry):
            live: dict[str, Any] = {}
            if entry.dirty:
                entry.saving = (entry.version, entry.members)
                live = {"run_id": run_id, "epoch": entry.epoch, "version": entry.version, "document": entry.members}
            yield live
            if run_id in self._pending:
                try:
                    await self._absorb(entry)
                except DatabaseError:
                    _log.warning("run_not_read", exc_info=True)
                    self._pending[run_id] = None

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

    async def handover(self, run_ids: Iterable[str]) -> None:
        """Another process asks for these because their holders are there now: save them and give them up."""
        for run_id in run_ids:
            entry = self._entries.get(run_id)
            now = asyncio.get_running_loop().time()
            if entry is None or not entry.owned or now - entry.patched_at < QUIET:
                continue
            async with self._alone(entry):
                if not entry.owned:
                    continue
                if entry.dirty:
                    done = bool(await self._keeper.save_these([entry], release=True))
                else:
                    row = {"run_id": run_id, "epoch": entry.epoch}
                    (result,) = await self._rows.save("release_live", [row])
                    done = result["outcome"] == "released"
                if done:
                    self._disown(entry)
                    self._drop_if_unused(entry)

    async def _absorb_pending(self) -> None:
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


def updated(run_id: str, base: int, version: int, ops: list[dict[str, Any]]) -> bytes:
    """The frame run.updated."""
    return _encode({"type": "run.updated", "run_id": run_id, "base_version": base, "version": version, "ops": ops})


def whole(entry: Entry) -> bytes:
    """The frame run.document."""
    return _encode({"type": "run.document", "run": entry.document})
