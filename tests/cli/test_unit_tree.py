"""Units as a tree on a terminal: each once, below its parent, at any width, whatever ids publishers choose."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from livebox.units import DEEPEST, Names, arranged, numbers, rows, tree


def unit(run_id: str, parent: str | None = None, state: str = "running", **more: Any) -> Any:
    return {
        **{"run_id": run_id, "source": "fleet", "state": state, "budget": {}},
        **({"parent": parent} if parent else {}),
        **more,
    }


def drawn(units: list[Any], names: Names | None = None, width: int = 100, **options: Any) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(tree(units, names or Names(), **options))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_children_stand_below_their_parents_whatever_came_first() -> None:
    units = [unit("c", "b"), unit("b", "a"), unit("x"), unit("a"), unit("d", "a")]
    assert [(each.unit["run_id"], each.level) for each in arranged(units)] == [
        *(("x", 0), ("a", 0), ("b", 1), ("c", 2), ("d", 1)),
    ]
    assert drawn(units) == [
        *("x fleet running", "a fleet running", "├── b fleet running", "│   └── c fleet running"),
        "└── d fleet running",
    ]


def test_what_is_known_is_said_and_nothing_else() -> None:
    ended = unit(
        *("r", None, "terminal"),
        terminal={"outcome": "budget_exhausted", "detail": "Out of tokens"},
        budget={"tokens_used": 4000, "token_budget": 4000, "steps_taken": 1, "duration_ms": 12340},
    )
    names = Names({"r": "Lotse"}, {"r": "weekly [bold]report"})
    assert drawn([ended], names, width=200) == [
        "Lotse fleet budget_exhausted  1 step · 4,000 of 4,000 tokens · 12.3 s  weekly [bold]report  Out of tokens  r"
    ]
    assert numbers(unit("r")) == ""
    assert numbers(unit("r", budget={"token_budget": 5, "max_steps": 3, "steps_taken": 1})) == (
        "1 of 3 steps · at most 5 tokens"
    )
    live = unit("r", provenance={"state": "live", "budget": "durable"})
    assert drawn([live], explain=True) == ["r fleet running  live: state"]
    assert drawn([live]) == ["r fleet running"]


def test_a_parent_that_is_not_shown_is_named() -> None:
    assert drawn([unit("b", "hidden")]) == ["b fleet running  below hidden"]


def test_a_circle_is_shown_once_and_says_what_it_hangs_below() -> None:
    assert drawn([unit("a", "b"), unit("b", "a")]) == ["a fleet running  below b", "└── b fleet running"]


def test_what_is_deep_stays_within_the_width() -> None:
    units = [unit("0")] + [unit(str(number), str(number - 1)) for number in range(1, 40)]
    lines = drawn(units, width=60)
    assert len(lines) == 40
    assert lines[DEEPEST].endswith("8 fleet running")
    assert lines[20].strip("│├└─ ") == "20 fleet running  below 19"


def test_text_of_others_cannot_draw_on_the_terminal() -> None:
    nasty = unit("a\x1b[31m", terminal={"outcome": "failed", "detail": "two\nlines\x07"}, state="terminal")
    (line,) = drawn([nasty], Names({}, {"a\x1b[31m": "ti\rtle"}))
    assert "\x1b" not in line
    assert "\x07" not in line


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.sampled_from("abcdefg")), max_size=12),
    st.integers(20, 120),
)
def test_each_unit_is_shown_once_at_any_width(pairs: list[tuple[str, str | None]], width: int) -> None:
    units = [unit(run_id, parent) for run_id, parent in pairs]
    placed = arranged(units)
    assert sorted(id(each.unit) for each in placed) == sorted(map(id, units))
    assert len(rows(units, Names())) == len(units)
    lines = drawn(units, width=width)
    assert sum("fleet" in line for line in lines) == len(units) or width < 60
    assert all(len(line) <= width for line in lines)
