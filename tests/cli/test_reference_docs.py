"""The generated pages tell every key with its bounds and every problem code with who answers it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from livebox.codegen.reference_docs import pages
from livebox.keys import KEYS, Key

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = yaml.safe_load((ROOT / "openapi.yaml").read_text(encoding="utf-8"))
PAGES = pages(CONTRACT)


def test_the_committed_pages_are_the_generated_ones() -> None:
    for path, text in PAGES.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_key_has_its_row(key: Key) -> None:
    rows = [line for line in PAGES["docs/configuration.md"].splitlines() if line.startswith(f"| `{key.name}` |")]
    assert len(rows) == 1
    assert f"`{key.variable}`" in rows[0]
    assert key.purpose in rows[0]
    assert rows[0].count("|") == 6


def test_quantities_are_told_in_units_for_people() -> None:
    page = PAGES["docs/configuration.md"]
    for text in ("| 1 MiB | 1 KiB to 64 MiB |", "| 15 min | 10 s to 1 d |", "| 200/s |", "| 0.25 | 0.01 to 1 |"):
        assert text in page


def test_every_problem_code_has_its_row() -> None:
    rows = {line.split("`")[1]: line for line in PAGES["docs/errors.md"].splitlines() if line.startswith("| `")}
    assert set(rows) == set(CONTRACT["x-problem-codes"])
    assert "| 410 |" in rows["cursor_expired"]
    assert "`listEvents`" in rows["cursor_expired"]
    assert "most operations" in rows["not_found"]
    assert "any request" in rows["method_not_allowed"]
