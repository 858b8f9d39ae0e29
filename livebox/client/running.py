"""Running now: the active runs that a person may see, kept up to date from a snapshot, events and live documents."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from generated.models import Run, RunSummary, Snapshot
from livebox.client.follow import Documents, Followed
from livebox.client.gateway import Gateway
from livebox.client.pauses import Pauses
from livebox.client.problems import Problem, Unreachable
from livebox.client.rest import ENDED, Rest

_CHANGES: Final = frozenset({"run.state_changed", "run.changed"})
# After these the list of before says nothing about who may see what now.
_RIGHTS: Final = frozenset({"access.changed", "thread.moved", "thread.deleted", "channel.updated"})
_LIVE: Final = ("state", "version", "started_at", "step_count", "headline", "stalled_since", "cost")


class Running:
    """The list, newest first. With `live` it also looks at the runs, so that headline, steps and version move."""

    def __init__(self, gateway: Gateway, rest: Rest, documents: Documents, *, live: bool) -> None:
        self._gateway = gateway
        self._rest = rest
        self._documents = documents
        self._live = live
        self._runs: dict[str, RunSummary] = {}
        self._looked_at: dict[str, Followed] = {}
        self._as_of = -1  # events up to this position are in the list already
        self._events: deque[dict[str, Any]] = deque()
        self._stale = False
        self._changed = asyncio.Event()

    async def follow(self) -> AsyncIterator[list[RunSummary]]:
        """The list now and whenever it has changed."""
        listen = self._gateway.listen
        ends = [
            listen("ready", self._ready),
            listen("event", self._event),
            listen("resync", lambda _: self._outdated()),
            listen("run.document", lambda _: self._changed.set()),
            listen("run.updated", lambda _: self._changed.set()),
            listen("refused", lambda _: self._changed.set()),
        ]
        shown: list[RunSummary] | None = None
        try:
            ready = await self._gateway.connected()
            if self._as_of < 0:  # the session began before this did
                if self._gateway.seq == ready["seq"]:
                    self._ready(cast(dict[str, Any], ready))
                else:  # and has told of things since that nobody here heard
                    self._outdated()
            while True:
                self._changed.clear()
                if self._stale:
                    await self._renew()
                while self._events:
                    self._apply(self._events.popleft())
                self._look()
                runs = self._shown()
                if runs != shown:
                    shown = runs
                    yield runs
                if self._gateway.refusal is not None:
                    raise self._gateway.refusal
                await self._changed.wait()
        finally:
            for end in ends:
                end()
            for run_id in self._looked_at:
                self._documents.release(run_id)

    def _ready(self, frame: dict[str, Any]) -> None:
        self._fill(frame["active_runs"], frame["seq"])

    def _outdated(self) -> None:
        self._stale = True
        self._changed.set()

    def _event(self, frame: dict[str, Any]) -> None:
        event = frame["event"]
        if event["type"] in _RIGHTS:
            self._outdated()
        elif event["type"] in _CHANGES:
            self._events.append(event)
            self._changed.set()

    def _fill(self, runs: list[RunSummary], seq: int) -> None:
        self._runs = {run["id"]: run for run in runs}
        self._as_of = seq
        self._changed.set()

    def _apply(self, event: dict[str, Any]) -> None:
        run: RunSummary = event["payload"]["run"]
        known = self._runs.get(run["id"])
        if event["seq"] <= self._as_of or (known is not None and known["version"] > run["version"]):
            return
        if run["state"] in ENDED:
            self._runs.pop(run["id"], None)
        else:
            self._runs[run["id"]] = run

    async def _renew(self) -> None:
        """The list from a new snapshot."""
        pauses = Pauses()
        while self._stale:
            self._stale = False
            try:
                snapshot: Snapshot = await self._rest.get_snapshot()
            except (Problem, Unreachable) as error:
                if isinstance(error, Problem) and error.status < 500 and error.status != 429:
                    raise
                self._stale = True
                await asyncio.sleep(pauses.next())
                continue
            self._fill(snapshot["active_runs"], snapshot["seq"])

    def _look(self) -> None:
        """Look at exactly the runs of the list."""
        if not self._live:
            return
        for run_id in [run_id for run_id in self._looked_at if run_id not in self._runs]:
            del self._looked_at[run_id]
            self._documents.release(run_id)
        for run_id in self._runs:
            if run_id not in self._looked_at:
                self._looked_at[run_id] = self._documents.hold(run_id)

    def _shown(self) -> list[RunSummary]:
        shown = [_with_live(run, self._documents.known(run["id"])) for run in self._runs.values()]
        return sorted(
            (run for run in shown if run["state"] not in ENDED),
            key=lambda run: (run["queued_at"], run["id"]),
            reverse=True,
        )


def _with_live(run: RunSummary, document: Run | None) -> RunSummary:
    """The summary with what the newer document says."""
    if document is None or document["version"] < run["version"]:
        return run
    merged = cast(dict[str, Any], dict(run))
    for name in _LIVE:
        merged.pop(name, None)
        if name in document:
            merged[name] = document[name]
    return cast(RunSummary, merged)
