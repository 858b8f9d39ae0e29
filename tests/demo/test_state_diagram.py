"""The picture of the states shows exactly what the migrations allow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from livebox.codegen.state_diagram import PAGE, DiagramError, pages, svg, transitions

ROOT = Path(__file__).resolve().parents[2]
INSERT = "INSERT INTO livebox.run_transitions (from_state, to_state) VALUES {};"


def arrows(picture: str) -> set[tuple[str, ...]]:
    return {tuple(title.split(" to ")) for title in re.findall(r"<line .*?<title>(.*?)</title>", picture)}


def test_the_committed_picture_is_the_one_that_the_migrations_give() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == pages(ROOT)[PAGE]


def test_the_picture_shows_the_rows_of_the_migrated_database(sql: Any) -> None:
    with sql.cursor() as cursor:
        cursor.execute("SELECT from_state, to_state FROM livebox.run_transitions")
        rows = set(cursor.fetchall())
    assert arrows(pages(ROOT)[PAGE]) == rows


def test_a_row_less_is_an_arrow_less() -> None:
    pairs = transitions([INSERT.format("('queued', 'running'), -- ('queued', 'failed')\n ('running', 'completed')")])
    assert pairs == (("queued", "running"), ("running", "completed"))
    picture = svg(pairs)
    assert arrows(picture) == set(pairs)
    assert ">cancelled<" not in picture


def test_rows_of_a_later_migration_are_drawn_too() -> None:
    pairs = transitions([INSERT.format("('queued', 'running')"), INSERT.format("('running', 'failed')")])
    assert pairs == (("queued", "running"), ("running", "failed"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        INSERT.format("('queued', 'running')") + "DELETE FROM livebox.run_transitions WHERE to_state = 'running';",
        INSERT.format("('queued', lower('RUNNING'))"),
    ],
)
def test_what_cannot_be_followed_is_refused(text: str) -> None:
    with pytest.raises(DiagramError):
        transitions([text])


def test_a_state_without_a_place_is_refused() -> None:
    with pytest.raises(DiagramError, match="paused"):
        svg([("running", "paused")])
