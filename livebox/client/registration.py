"""The operations of registered runs, of their spend, and of the neutral snapshots of all work."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

from generated.models import (
    AgentRunSnapshot,
    LiveSnapshot,
    PublishedSnapshot,
    RecordSpendRequest,
    RegisterRunRequest,
    Run,
    RunSpend,
    SnapshotSource,
    SpendEntry,
    UpdateRunRequest,
)
from livebox.client.connection import Connection


class Registration(Connection):
    """Registers runs that no message opens, reports on them, and shows every unit of work.

    A part of `Rest`. `RegisteredRun` has the same by run, for who works on one.
    """

    async def register_run(self, request: RegisterRunRequest, *, idempotency_key: str | None = None) -> Run:
        """Create a run, once; for services, agents and owners.

        What is registered is never changed. A request whose answer was lost is repeated under one key, and then gives
        the run that the first one made; give an `idempotency_key` of your own to repeat it from another process.

        Raises AlreadyRegistered when there is a run of this id, ExternalIdTaken, and Problem `not_found` when the
        parent is not there or may not be seen.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return cast(Run, (await self.call("registerRun", headers=headers, body=request)).body)

    async def update_run(self, run_id: str, request: UpdateRunRequest, *, idempotency_key: str | None = None) -> Run:
        """Report on a registered run. `steps` is how many steps the caller itself has taken, `cost_micros` is in
        millionths of the run's currency.

        Raises NotFound for a run that nobody registered, StatusNotYours when another agent than the entry agent ends
        it, RunEnded for anything but steps after the end, CostOwnedByLedger, and Problem `validation_failed` with
        `field_write_once` in its errors for what was registered; then nothing of the request was applied.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return cast(Run, (await self.call("updateRun", path={"run_id": run_id}, headers=headers, body=request)).body)

    async def record_spend(
        self, run_id: str, request: RecordSpendRequest, *, entry_id: str | None = None
    ) -> SpendEntry:
        """Add an entry to the ledger of a registered run, for good: millionths of the currency, and tokens.

        One `entry_id` counts once, however often it is sent; one is made up when none is given. Also after the end.

        Raises CurrencyMismatch, SpendIdReused, and NotFound for a run that nobody registered.
        """
        path = {"run_id": run_id, "entry_id": entry_id or str(uuid.uuid4())}
        return cast(SpendEntry, (await self.call("recordSpend", path=path, body=request)).body)

    async def get_run_spend(self, run_id: str) -> RunSpend:
        """What a run has cost: itself and with all runs below it, in all, by agent and by registered dimension."""
        return cast(RunSpend, (await self.call("getRunSpend", path={"run_id": run_id})).body)

    def list_agent_run_snapshots(
        self,
        *,
        source: SnapshotSource | None = None,
        active: bool | None = None,
        parent: str | None = None,
        explain: bool = False,
    ) -> AsyncIterator[AgentRunSnapshot]:
        """Every unit of work that one may see: runs, newest first, each followed by what belongs to it.

        `active` True leaves out what has ended or is paused, False leaves out the others; `parent` asks for what is
        directly below a unit. With `explain` each says in `provenance` which side its members came from.
        """
        query = {"source": source, "active": _flag(active), "parent": parent, "explain": _flag(explain or None)}
        return self._items("listAgentRunSnapshots", {}, query)

    def list_run_snapshots(self, run_id: str, *, explain: bool = False) -> AsyncIterator[AgentRunSnapshot]:
        """A run and the units of work under it; `parent` tells what is below what. Raises NotFound for one that may not
        be seen."""
        return self._items("listRunSnapshots", {"run_id": run_id}, {"explain": _flag(explain or None)})

    async def put_agent_run_snapshot(
        self, snapshot_id: str, snapshot: PublishedSnapshot, live: LiveSnapshot | None = None
    ) -> AgentRunSnapshot:
        """Publish a unit of work of one's own under an id of one's own, or replace it; gives it as it is shown.

        `snapshot` is what holds for good, `live` what it does this second. Raises Problem `validation_failed` for one
        that does not hang together, SnapshotEnded for one that has ended.
        """
        body: dict[str, Any] = {"snapshot": snapshot, **({"live": live} if live else {})}
        answer = await self.call("putAgentRunSnapshot", path={"snapshot_id": snapshot_id}, body=body)
        return cast(AgentRunSnapshot, answer.body)


def _flag(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()
