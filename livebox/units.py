"""Units of agent work on a terminal: a tree in which each stands below its parent, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rich.text import Text
from rich.tree import Tree

from generated.models import AgentRunSnapshot
from livebox.printable import printable

DEEPEST: Final = 8  # levels that are indented; what is deeper stands below its level and names its parent
STYLES: Final = {
    **dict.fromkeys(("running", "initializing", "waiting_model", "waiting_tool"), "cyan"),
    **{"queued": "dim", "waiting_input": "magenta", "paused": "yellow", "stopping": "yellow"},
    **{"completed": "green", "failed": "red", "cancelled": "yellow", "interrupted": "red", "budget_exhausted": "red"},
}


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of units beside their snapshots: by id the name of who works, and what it works on."""

    workers: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)


class Placed(NamedTuple):
    """A unit in the order of the tree. `level` counts from 0, `shown` says whether its parent stands right above it."""

    unit: AgentRunSnapshot
    level: int
    shown: bool


def arranged(units: Sequence[AgentRunSnapshot]) -> list[Placed]:
    """The units as a tree: each once, below its parent where that is among them, whatever order they came in.

    Publishers choose ids and parents, so two may have the same id, and parents may go in a circle: none is lost.
    """
    children: dict[str, list[int]] = {}
    ids = {unit["run_id"] for unit in units}
    for place, unit in enumerate(units):
        if unit.get("parent") in ids:
            children.setdefault(unit["parent"], []).append(place)
    placed: list[Placed] = []
    done: set[int] = set()
    roots = [place for place, unit in enumerate(units) if unit.get("parent") not in ids]
    for root in (*roots, *range(len(units))):  # what no root leads to goes in a circle
        waiting = [(root, 0)]
        while waiting:
            place, level = waiting.pop()
            if place in done:
                continue
            done.add(place)
            placed.append(Placed(units[place], level, level > 0))
            below = children.pop(units[place]["run_id"], [])
            waiting += [(each, level + 1) for each in reversed(below)]
    return placed


def tree(units: Sequence[AgentRunSnapshot], names: Names, *, explain: bool = False) -> Tree:
    """The units as lines of a tree, as wide as the terminal is."""
    root = Tree("", hide_root=True, guide_style="dim")
    branches = [root]
    for unit, level, shown in arranged(units):
        del branches[min(level, DEEPEST) + 1 :]
        label = _label(unit, names, explain=explain)
        if "parent" in unit and (not shown or level > DEEPEST):
            label.append(f"  below {printable(unit['parent'], 80)}", "dim")
        branches.append(branches[-1].add(label))
    return root


def rows(units: Sequence[AgentRunSnapshot], names: Names) -> list[tuple[str, ...]]:
    """The same in COLUMNS."""
    return [
        (
            *(printable(unit["run_id"], 300), printable(unit.get("parent", ""), 300), str(level)),
            *(unit["source"], unit["state"], unit["terminal"]["outcome"] if "terminal" in unit else ""),
            printable(names.workers.get(unit["run_id"], "")),
            *(str(unit["budget"].get(name, "")) for name in ("steps_taken", "tokens_used", "duration_ms")),
            printable(names.titles.get(unit["run_id"], "")),
            " ".join(live(unit)),
        )
        for unit, level, _ in arranged(units)
    ]


COLUMNS: Final = ("id", "parent", "level", "source", "state", "outcome", "who", "steps", "tokens", "ms", "what", "live")


def numbers(unit: AgentRunSnapshot) -> str:
    """Steps, tokens and time, as far as they are known, and what they may be."""
    budget = unit["budget"]
    found = []
    if "steps_taken" in budget:
        most = f" of {budget['max_steps']:,}" if "max_steps" in budget else ""
        found.append(f"{budget['steps_taken']:,}{most} step{'' if budget['steps_taken'] == 1 and not most else 's'}")
    if "tokens_used" in budget:
        most = f" of {budget['token_budget']:,}" if "token_budget" in budget else ""
        found.append(f"{budget['tokens_used']:,}{most} tokens")
    elif "token_budget" in budget:
        found.append(f"at most {budget['token_budget']:,} tokens")
    if "duration_ms" in budget:
        found.append(f"{budget['duration_ms'] / 1000:,.1f} s")
    return " · ".join(found)


def live(unit: AgentRunSnapshot) -> list[str]:
    """The members that say what was told live and is not stored for good; known when the unit was asked to explain."""
    return [name for name, side in unit.get("provenance", {}).items() if side == "live"]


def _label(unit: AgentRunSnapshot, names: Names, *, explain: bool) -> Text:
    run_id, terminal = unit["run_id"], unit.get("terminal")
    told = terminal["outcome"] if terminal is not None else unit["state"]
    label = Text()
    worker, title = names.workers.get(run_id, ""), names.titles.get(run_id, "")
    label.append(printable(worker or (title if title else run_id), 80), "bold")
    label.append(f" {unit['source']} ", "dim")
    label.append(told, STYLES.get(told, ""))
    facts = numbers(unit)
    if facts:
        label.append(f"  {facts}")
    if worker and title:
        label.append(f"  {printable(title, 100)}")
    if terminal is not None and "detail" in terminal:
        label.append(f"  {printable(terminal['detail'], 100)}", "italic")
    if explain and live(unit):
        label.append(f"  live: {', '.join(live(unit))}", "yellow")
    if worker or title:
        label.append(f"  {printable(run_id, 300)}", "dim")
    return label
