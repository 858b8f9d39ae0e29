"""docs/state-machine.svg: the picture of a run's states, drawn from the rows of `run_transitions` in the migrations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = "docs/state-machine.svg"

Transition = tuple[str, str]

_COMMENT = re.compile(r"--[^\n]*")
_INSERT = re.compile(
    r"INSERT\s+INTO\s+livebox\.run_transitions\s*\([^)]*\)\s*VALUES\s*(.*?);", re.IGNORECASE | re.DOTALL
)
_OTHER = re.compile(r"(?:UPDATE|DELETE\s+FROM|TRUNCATE(?:\s+TABLE)?)\s+livebox\.run_transitions\b", re.IGNORECASE)
_ROW = re.compile(r"\(\s*'([a-z_]+)'\s*,\s*'([a-z_]+)'\s*\)")


class DiagramError(Exception):
    """The rows cannot be read or drawn; the text says what to do."""


class Box(NamedTuple):
    """Where a state is drawn, and in which of the three looks."""

    x: int
    y: int
    width: int
    height: int
    look: str


# Active states stand in a row between two bars, so that no two arrows cross.
_PLACES: Final = {
    "failed": Box(20, 20, 720, 44, "failed"),
    "completed": Box(420, 112, 140, 44, "completed"),
    "queued": Box(20, 204, 140, 52, "active"),
    "running": Box(240, 204, 140, 52, "active"),
    "waiting_input": Box(600, 204, 140, 52, "active"),
    "cancelled": Box(20, 316, 720, 44, "cancelled"),
}
_SIZE: Final = (760, 380)
_APART: Final = 10  # half the distance of two arrows that go both ways

_STYLE: Final = """\
text { font: 15px ui-monospace, Menlo, Consolas, monospace; fill: #1f2430; text-anchor: middle }
rect { stroke-width: 1.5; rx: 8px }
.page { fill: #ffffff; stroke: #d5d9e0 }
.active { fill: #e8f0fe; stroke: #3b6fd4 }
.completed { fill: #e4f5e9; stroke: #2d8a4e }
.failed { fill: #fdeaea; stroke: #c43d3d }
.cancelled { fill: #f0f0f2; stroke: #7a8190 }
line { stroke: #4a5160; stroke-width: 1.5; marker-end: url(#tip) }
#tip path { fill: #4a5160 }"""


def pages(root: Path) -> dict[str, str]:
    """The picture by its path from `root`, the root of the repository."""
    migrations = sorted((root / "db" / "migrations").glob("*.sql"))
    return {PAGE: svg(transitions(path.read_text(encoding="utf-8") for path in migrations))}


def transitions(migrations: Iterable[str]) -> tuple[Transition, ...]:
    """The allowed pairs of states, in the order in which the migrations' texts insert them.

    Raises DiagramError when a migration changes the rows in a way this cannot follow, or when there are none.
    """
    pairs: list[Transition] = []
    for text in migrations:
        sql = _COMMENT.sub("", text)
        if _OTHER.search(sql):
            raise DiagramError("a migration changes rows of run_transitions: teach state_diagram.py to follow it")
        for insert in _INSERT.finditer(sql):
            rows = _ROW.findall(insert[1])
            if _ROW.sub("", insert[1]).strip(" \t\r\n,"):
                raise DiagramError("the rows of run_transitions are not a plain list of pairs")
            pairs += rows
    if not pairs:
        raise DiagramError("no migration inserts into run_transitions")
    return tuple(pairs)


def svg(pairs: Sequence[Transition]) -> str:
    """The picture of exactly these pairs. Raises DiagramError for a state that has no place in it."""
    states = list(dict.fromkeys(state for pair in pairs for state in pair))
    for state in states:
        if state not in _PLACES:
            raise DiagramError(f"the state {state} has no place in the picture: give it one in state_diagram.py")
    width, height = _SIZE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title">',
        "<!-- Made by `make generate` from the rows of run_transitions in db/migrations. -->",
        f'<title id="title">{_described(pairs)}</title>',
        f"<style>\n{_STYLE}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 10 5 0 10z"/></marker></defs>',
        f'<rect class="page" x="1" y="1" width="{width - 2}" height="{height - 2}"/>',
    ]
    lines += [_box(state) for state in states]
    lines += [_arrow(pair, (pair[1], pair[0]) in pairs) for pair in pairs]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _described(pairs: Sequence[Transition]) -> str:
    following: dict[str, list[str]] = {}
    for before, after in pairs:
        following.setdefault(before, []).append(after)
    return "States of a run. " + " ".join(
        f"{before} can become {', '.join(after)}." for before, after in following.items()
    )


def _box(state: str) -> str:
    place = _PLACES[state]
    middle = place.x + place.width // 2
    return (
        f'<rect class="{place.look}" x="{place.x}" y="{place.y}" width="{place.width}" height="{place.height}"/>'
        f'<text x="{middle}" y="{place.y + place.height // 2 + 5}">{state}</text>'
    )


def _arrow(pair: Transition, both_ways: bool) -> str:
    start, end = _PLACES[pair[0]], _PLACES[pair[1]]
    if end.width > start.width:  # straight up or down to a bar
        x1 = x2 = start.x + start.width // 2
        down = end.y > start.y
        y1, y2 = (start.y + start.height, end.y) if down else (start.y, end.y + end.height)
    else:
        right = end.x > start.x
        x1, x2 = (start.x + start.width, end.x) if right else (start.x, end.x + end.width)
        shift = (_APART if right else -_APART) if both_ways else 0
        y1, y2 = start.y + start.height // 2 - shift, end.y + end.height // 2 - shift
        if end.y < start.y:  # to the box above, from the corner
            y1, y2 = start.y, end.y + end.height // 2
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"><title>{pair[0]} to {pair[1]}</title></line>'
