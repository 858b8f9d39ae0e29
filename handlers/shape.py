"""The shape of a unit of agent work: its states, and a snapshot that is put together member by member.

What is not known is not there: no null, no empty list, no zero that pretends to be a fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from generated.models import (
    AgentRunSnapshot,
    SnapshotBudget,
    SnapshotOutcome,
    SnapshotRef,
    SnapshotSource,
    SnapshotTerminal,
    UnitState,
)
from handlers import wording

Side = Literal["durable", "live"]

STATES: Final[tuple[UnitState, ...]] = (
    "queued",
    "initializing",
    "running",
    "waiting_model",
    "waiting_tool",
    "waiting_input",
    "paused",
    "stopping",
    "terminal",
)
REFS_MAX: Final = 200
COUNT_MAX: Final = 2**53 - 1


class Unit(NamedTuple):
    """A snapshot, which side each of its members came from, and its place below its owner's in lists."""

    snapshot: AgentRunSnapshot
    sides: dict[str, Side]
    kind: str = ""
    key: str = ""

    def explained(self) -> AgentRunSnapshot:
        """The snapshot with its provenance."""
        return {**self.snapshot, "provenance": self.sides}


def is_terminal(state: UnitState) -> bool:
    """It has ended."""
    return state == "terminal"


def is_paused(state: UnitState) -> bool:
    """It has not ended and does nothing until somebody lets it go on."""
    return state == "paused"


def is_active(state: UnitState) -> bool:
    """It is under way: each state is exactly one of terminal, active and paused."""
    return not is_terminal(state) and not is_paused(state)


class Shape:
    """A snapshot that is being put together, with the side that each member came from."""

    def __init__(self, run_id: str, source: SnapshotSource, side: Side = "durable") -> None:
        self._members: dict[str, Any] = {"run_id": run_id, "source": source}
        self._sides: dict[str, Side] = {"run_id": side, "source": side}
        self._budget: SnapshotBudget = {}
        self._budget_side: Side = "durable"
        self._refs: list[SnapshotRef] = []

    @property
    def open(self) -> bool:
        """It has not ended."""
        return not is_terminal(self._members["state"])

    def put(self, name: str, value: object, side: Side = "durable") -> None:
        """A member, if it is known."""
        if value is not None:
            self._members[name] = value
            self._sides[name] = side

    def state(self, state: UnitState, side: Side) -> None:
        """The state of a unit that has not ended."""
        self.put("state", state, side)

    def end(self, outcome: SnapshotOutcome, ended_at_ms: int | None, detail: str | None) -> None:
        """The end, which is always held for good."""
        terminal: SnapshotTerminal = {"outcome": outcome}
        if ended_at_ms is not None:
            terminal["ended_at_ms"] = ended_at_ms
        if detail is not None:
            terminal["detail"] = detail
        self.put("state", "terminal")
        self.put("terminal", terminal)
        self._sides |= dict.fromkeys(terminal, "durable")

    def count(self, name: str, value: int | None, side: Side = "durable") -> None:
        """A member of the budget, if it is known."""
        if value is not None and value <= COUNT_MAX:
            self._budget[name] = value  # type: ignore[literal-required]  # a name of SnapshotBudget
            self._sides[name] = side
            if side == "live":
                self._budget_side = "live"

    def refs(self, refs: Sequence[SnapshotRef], side: Side = "durable") -> None:
        """References that may be shown."""
        shown = [ref for ref in map(shown_ref, refs) if ref is not None][: REFS_MAX - len(self._refs)]
        if shown:
            self._refs = [*self._refs, *shown]
            self._sides["refs"] = side

    def unit(self, kind: str = "", key: str = "") -> Unit:
        """The whole."""
        self.put("budget", self._budget, self._budget_side)
        if self._refs:
            self._members["refs"] = self._refs
        return Unit(cast("AgentRunSnapshot", self._members), self._sides, kind, key)


def shown_ref(ref: SnapshotRef) -> SnapshotRef | None:
    """A reference as it may be shown: none that is no logical id, no label that says too much."""
    if not wording.reference(ref["reference"]):
        return None
    shown: SnapshotRef = {"kind": ref["kind"], "reference": ref["reference"]}
    if (label := wording.one_line(ref.get("label", ""))) is not None:
        shown["label"] = label
    return shown
