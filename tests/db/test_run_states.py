"""The states of a run as the database holds them, tried from plain SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.db.run_rows import ENDED, STATES, Refused, Rows, Sql, new_run
from tests.fixtures.database import connect

ALLOWED = {
    ("queued", "running"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "waiting_input"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("waiting_input", "running"),
    ("waiting_input", "failed"),
    ("waiting_input", "cancelled"),
}
PAIRS = [(start, end) for start in STATES for end in STATES]


@pytest.fixture
def rows(module_dsn: str) -> Iterator[Rows]:
    with closing(connect(module_dsn)) as connection:
        yield Rows(connection)


def test_table_holds_the_ten_pairs(rows: Rows) -> None:
    found = rows.run_sql("SELECT from_state, to_state FROM livebox.run_transitions")
    assert {(row["from_state"], row["to_state"]) for row in found} == ALLOWED
    assert len(PAIRS) == 36


@pytest.mark.parametrize(("start", "end"), [pair for pair in PAIRS if pair in ALLOWED])
def test_allowed_pair_passes_and_raises_the_version(rows: Rows, start: str, end: str) -> None:
    run = rows.run(start)
    before = rows.run_sql("SELECT version FROM livebox.runs WHERE id = %s", run)[0]["version"]
    after = rows.transition(run, end)
    assert (after["state"], after["version"]) == (end, before + 1)
    assert (after["finished_at"] is not None) == (end in ENDED)


@pytest.mark.parametrize(("start", "end"), [pair for pair in PAIRS if pair not in ALLOWED])
def test_other_pair_is_refused_and_changes_nothing(rows: Rows, start: str, end: str) -> None:
    run = rows.run(start)
    before = rows.row("runs", run)
    with pytest.raises(Refused) as refused:
        rows.transition(run, end)
    assert refused.value.sqlstate == "LB101"
    assert rows.row("runs", run) == before


@pytest.mark.parametrize("state", ["unknown", "", "Queued"])
def test_unknown_state_is_refused(rows: Rows, state: str) -> None:
    with pytest.raises(Refused) as refused:
        rows.transition(rows.run(), state)
    assert refused.value.sqlstate == "LB101"
    with pytest.raises(Refused) as refused:
        rows.insert("runs", **{**_columns(rows), "state": state})
    assert refused.value.sqlstate == "LB100"


@pytest.mark.parametrize("version", ["version", "version - 1", "0"])
def test_transition_needs_a_higher_version(rows: Rows, version: str) -> None:
    run = rows.run("running")
    with pytest.raises(Refused) as refused:
        rows.transition(run, "completed", version=Sql(version))
    assert refused.value.sqlstate == "LB102"


def test_state_cannot_begin_before_the_one_it_follows(rows: Rows) -> None:
    run = rows.run("running")
    with pytest.raises(Refused) as refused:
        rows.transition(run, "waiting_input", state_changed_at=Sql("state_changed_at - interval '1 microsecond'"))
    assert refused.value.sqlstate == "LB105"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_run_that_never_worked_has_no_start(rows: Rows, end: str) -> None:
    run = rows.run("queued")
    with pytest.raises(Refused) as refused:
        rows.transition(run, end, started_at=Sql("livebox.clock()"))
    assert refused.value.sqlstate == "LB105"


@pytest.mark.parametrize("state", [state for state in STATES if state != "queued"])
def test_run_begins_at_its_beginning(rows: Rows, state: str) -> None:
    with pytest.raises(Refused) as refused:
        rows.insert("runs", **{**_columns(rows), "state": state})
    assert refused.value.sqlstate == "LB100"


@pytest.mark.parametrize(("column", "value"), [("version", 2), ("version_reserved", 2)])
def test_run_begins_with_version_one(rows: Rows, column: str, value: int) -> None:
    with pytest.raises(Refused) as refused:
        rows.insert("runs", **{**_columns(rows), "version_reserved": 2, column: value})
    assert refused.value.sqlstate == "LB100"


def test_one_of_two_swaps_on_the_same_version_wins(rows: Rows) -> None:
    run = rows.run()
    swap = (
        "UPDATE livebox.runs SET state = 'running', started_at = livebox.clock(), state_changed_at = livebox.clock(), "
        "version = 2, version_reserved = 2 WHERE id = %s AND state = 'queued' AND version = 1 RETURNING id"
    )
    assert [len(rows.run_sql(swap, run)) for _ in range(3)] == [1, 0, 0]


def _columns(rows: Rows) -> dict[str, object]:
    return {**new_run(rows.agent), "thread_id": rows.thread(), "triggered_by": rows.person}
