"""No operation without a question about rights: told from the text of the SQL functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generated.operations import OPERATIONS, Operation

ROOT = Path(__file__).resolve().parents[2]
CALL = re.compile(r"\blivebox\.(\w+)\s*\(")
QUESTIONS = {"authorize", "channel_rights", "space_rights"}
# Their answers are made in the process, and say nothing of what anybody keeps here.
WITHOUT_SQL = {"getMetrics"}

ASKED = [
    operation for operation in OPERATIONS.values() if operation.security != "public" and operation.id not in WITHOUT_SQL
]


def bodies() -> dict[str, str]:
    """Function -> its text, without comments."""
    files = (ROOT / "db" / "functions").glob("*.sql")
    return {path.stem: re.sub(r"--[^\n]*", "", path.read_text()) for path in files}


def reached(function: str, texts: dict[str, str]) -> set[str]:
    """All functions that this one calls, and those call."""
    found: set[str] = set()
    waiting = [function]
    while waiting:
        name = waiting.pop()
        new = set(CALL.findall(texts.get(name, ""))) - found - {name}
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("operation", ASKED, ids=lambda operation: operation.id)
def test_an_operation_asks_who_may(operation: Operation) -> None:
    texts = bodies()
    assert operation.function in texts, "each operation is one SQL function"
    assert reached(operation.function, texts) & QUESTIONS
    if operation.kind == "read":  # perform asks for those that write
        assert re.search(r"IF NOT livebox\.caller_active\(", texts[operation.function])


def test_public_operations_have_no_sql() -> None:
    texts = bodies()
    public = [operation for operation in OPERATIONS.values() if operation.security == "public"]
    assert public
    assert not [operation.id for operation in public if operation.function in texts]


def test_handlers_decide_nothing() -> None:
    for path in (ROOT / "handlers").glob("*.py"):
        text = path.read_text()
        assert not re.search(r"\b(SELECT|INSERT|UPDATE|DELETE)\b.*\b(FROM|INTO|SET)\b", text), path.name
        assert not re.search(r"\b(aiohttp|authorize|forbidden|not_found)\b", text), path.name


def test_whoever_looks_for_a_question_can_miss_it() -> None:
    texts = {"ask": "SELECT livebox.first(1)", "first": "SELECT livebox.page('', NULL)"}
    assert reached("ask", texts) == {"first", "page"}
