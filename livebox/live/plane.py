"""The live plane: the one way in which the live content of a run changes, and what of it is shown.

Patches raise the live version of a run in memory, within versions that its row has reserved. The first patch of a run
makes this process the owner of its live document; every later save applies only while it still is.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from db import Caller, Database, DatabaseError
from livebox.invocations import Invocation
from livebox.jobs.life import Life
from livebox.jobs.outage import Outage
from livebox.limits import Limit
from livebox.live import patch as patching
from livebox.live.documents import TRIES, Documents
from livebox.live.entry import Entry
from livebox.live.frames import updated
from livebox.live.hold import Hold, Holds
from livebox.live.patch import Applied, Limits, PatchRefused
from livebox.live.request import Request
from livebox.log import logger
from livebox.settings import Settings
from livebox.telemetry import Telemetry

__all__ = ["Plane", "Request"]

HANDOVER: Final = 0.5
"""Seconds after which to try again where another process serves the run."""
QUIET: Final = 0.25
"""Seconds without a patch after which the owner believes that the holder of the run went to another process."""

_log = logger("live")


class Plane(Documents):
    """The live documents of one process. `now` are seconds of the epoch by the clock of the database."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        life: Life,
        telemetry: Telemetry,
        owner: str,
        now: Callable[[], float],
        outage: Outage | None = None,
    ) -> None:
        super().__init__(database, settings, owner, on_turn=telemetry.turn, outage=outage)
        self._holds = Holds(database, settings, now)
        self._life = life
        self._telemetry = telemetry
        self._limits = Limits(
            settings.integer("run.document_max_bytes"),
            settings.integer("run.text_max_bytes"),
            settings.integer("run.patch_max_bytes"),
            settings.integer("run.patch_max_ops"),
        )
        self._rate = Limit(settings.number("run.patch_rate"), settings.integer("run.patch_burst"))

    async def start(self) -> None:
        """Begin; what dead processes of this machine served is free when it returns. Raises `db.DatabaseError`."""
        await self._keeper.start()
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Save everything and give it up. No patch may come any more."""
        for loop in self._loops:
            await loop.stop()
        await self._keeper.stop()
        try:
            await self.absorb_pending()
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
            or run_id in self._pending
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
        entry.patched_at = time.monotonic()
        self._life.alive(entry.run_id, progress=True)
        self._keeper.changed(entry)
        if entry.refs:
            self.on_frame(entry, updated(entry.run_id, base, version, applied.ops))
        return version

    async def _ready(self, entry: Entry, hold: Hold) -> bool:
        """Is the entry, whose lock is held, owned, as new as its row was, and with a version to give?"""
        if not entry.owned or not entry.active:
            return False
        if entry.epoch < hold.epoch or entry.version < hold.version or entry.run_id in self._pending:
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

    @asynccontextmanager
    async def raising(self, run_id: str) -> AsyncIterator[dict[str, Any]]:
        """Around an operation of the write lane on this run: its newest content for `args.live`, or nothing.

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

    async def handover(self, run_ids: Iterable[str]) -> None:
        """Another process asks for these because their holders are there now: save them and give them up."""
        for run_id in run_ids:
            entry = self._entries.get(run_id)
            if entry is None or not entry.owned:
                row = await self._rows.document(run_id)
                if row is None or row.get("owner") != self.owner:
                    continue
                # Owned by its row and not in memory: an answer of the database was lost.
                entry = await self._serving(run_id)
            now = time.monotonic()
            if entry is None or now - entry.patched_at < QUIET:
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

    def content(self, run_id: str, epoch: int) -> Mapping[str, Any] | None:
        """What was patched of a run that is served here since its row had `epoch`, whether or not it is saved."""
        entry = self._entries.get(run_id)
        return entry.members if entry is not None and entry.owned and entry.server and entry.epoch >= epoch else None

    def serves(self, run_id: str) -> bool:
        """Is the live document of the run served here?"""
        entry = self._entries.get(run_id)
        return entry is not None and entry.owned
