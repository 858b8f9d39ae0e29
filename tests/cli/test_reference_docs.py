"""The generated pages tell every key with its bounds and every problem code with who answers it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from livebox.codegen.reasons import ReasonsError, page
from livebox.codegen.reference_docs import pages
from livebox.key import Key
from livebox.keys import KEYS

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


def test_the_reasons_of_the_page_are_those_of_database_and_contract(sql: Any) -> None:
    with sql.cursor() as cursor:
        cursor.execute("SELECT code, state, setter FROM livebox.run_reasons")
        reasons = set(cursor.fetchall())
        cursor.execute("SELECT code FROM livebox.rejection_reasons")
        rejections = {code for (code,) in cursor.fetchall()}
    text = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    cells = [
        tuple(line.strip("| ").replace("`", "").split(" | ")) for line in text.splitlines() if line.startswith("| `")
    ]
    assert {row[:3] for row in cells if len(row) == 4} == reasons
    assert {row[0] for row in cells if len(row) == 2} == rejections
    schemas = CONTRACT["components"]["schemas"]
    assert set(schemas["RunReason"]["enum"]) == {code for code, _, _ in reasons}
    assert set(schemas["RejectionReason"]["enum"]) == rejections


def test_a_reason_without_a_meaning_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db" / "migrations").mkdir(parents=True)
    migration = tmp_path / "db" / "migrations" / "0001_x.sql"
    with pytest.raises(ReasonsError, match="run_reasons"):
        page(tmp_path)
    migration.write_text(
        "INSERT INTO livebox.run_reasons (code, state, setter) VALUES ('odd', 'failed', 'both');\n"
        "INSERT INTO livebox.rejection_reasons (code) VALUES ('followup_limit');\n"
    )
    with pytest.raises(ReasonsError, match="odd has no meaning"):
        page(tmp_path)
