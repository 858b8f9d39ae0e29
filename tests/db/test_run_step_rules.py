"""The rules of steps and follow-ups, broken from plain SQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.db.run_rows import ENDED, QUEUED_AT, Rows, Sql, refusal
from tests.fixtures.database import connect

LATER = "2026-01-02T00:00:00Z"


@pytest.fixture
def rows(module_dsn: str) -> Iterator[Rows]:
    with closing(connect(module_dsn)) as connection:
        yield Rows(connection)


def step(rows: Rows, run: str, ordinal: int = 1, **columns: object) -> dict[str, Any]:
    given = {"id": str(uuid.uuid4()), "kind": "tool", "name": "read", "status": "running", "started_at": QUEUED_AT}
    return rows.insert("run_steps", run_id=run, ordinal=ordinal, **{**given, **columns})


BAD_STEPS = {
    "unknown kind": ({"kind": "x"}, "run_steps_kind_known"),
    "unknown status": ({"status": "x", "finished_at": LATER}, "run_steps_status_known"),
    "no name": ({"name": ""}, "run_steps_name_bounded"),
    "long title": ({"title": "x" * 1001}, "run_steps_title_bounded"),
    "null in detail": ({"detail": '{"a": null}'}, "run_steps_detail_object"),
    "detail is a list": ({"detail": "[]"}, "run_steps_detail_object"),
    "ordinal zero": ({"ordinal": 0}, "run_steps_ordinal_positive"),
    "running and finished": ({"finished_at": LATER}, "run_steps_finished_unless_running"),
    "completed and not finished": ({"status": "completed"}, "run_steps_finished_unless_running"),
    "finished before it started": (
        {"status": "completed", "finished_at": "2025-01-01T00:00:00Z"},
        "run_steps_times_in_order",
    ),
    "stands for none": ({"stands_for": 0}, "run_steps_stands_for_positive"),
    "parent elsewhere": ({"parent_step_id": str(uuid.uuid4())}, "run_steps_parent_of_run"),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_new_step(rows: Rows, case: str) -> None:
    columns, rule = BAD_STEPS[case]
    run = rows.run("running")
    assert refusal(lambda: step(rows, run, **columns)) == rule


def test_ordinal_and_id_are_unique_in_the_run(rows: Rows) -> None:
    run, other = rows.run("running"), rows.run("running")
    first = step(rows, run)
    assert refusal(lambda: step(rows, run)) == "run_steps_ordinal_unique"
    assert refusal(lambda: step(rows, run, 2, id=first["id"])) == "run_steps_pkey"
    assert step(rows, other, id=first["id"])  # an id tells nothing about other runs


def test_parent_is_of_the_same_run(rows: Rows) -> None:
    run, other = rows.run("running"), rows.run("running")
    parent = step(rows, run)["id"]
    assert step(rows, run, 2, parent_step_id=parent)
    assert refusal(lambda: step(rows, other, parent_step_id=parent)) == "run_steps_parent_of_run"
    own = str(uuid.uuid4())
    assert refusal(lambda: step(rows, run, 3, id=own, parent_step_id=own)) == "run_steps_not_its_own_parent"


def test_steps_and_followups_speak_of_what_is_there(rows: Rows) -> None:
    run, nowhere = rows.run("running"), str(uuid.uuid4())
    assert refusal(lambda: step(rows, nowhere)) == "run_steps_run_id_fkey"
    assert refusal(lambda: step(rows, run, recorded_by=nowhere)) == "run_steps_recorded_by_fkey"
    assert refusal(lambda: followup(rows, nowhere)) == "run_followups_run_id_fkey"
    assert refusal(lambda: followup(rows, run, message_id=nowhere)) == "run_followups_message_id_fkey"


def test_one_step_stands_for_the_oldest(rows: Rows) -> None:
    run = rows.run("running")
    step(rows, run, stands_for=2)
    assert refusal(lambda: step(rows, run, 2, stands_for=2)) == "run_steps_compacted"


def test_parent_that_goes_leaves_its_children_as_they_are(rows: Rows) -> None:
    run = rows.run("running")
    parent = step(rows, run)["id"]
    done = step(rows, run, 2, parent_step_id=parent, status="completed", finished_at=LATER)
    assert refusal(lambda: rows.update("run_steps", done["id"], parent_step_id=None, title="x")) == "LB106"
    rows.run_sql("DELETE FROM livebox.run_steps WHERE id = %s", parent)
    left = rows.run_sql("SELECT * FROM livebox.run_steps WHERE run_id = %s", run)
    assert [(row["id"], row["parent_step_id"], row["status"]) for row in left] == [(done["id"], None, "completed")]


@pytest.mark.parametrize("state", ENDED)
def test_ended_run_takes_no_steps(rows: Rows, state: str) -> None:
    run = rows.run("running")
    made = step(rows, run)
    rows.transition(run, state)
    assert refusal(lambda: step(rows, run, 2)) == "LB106"
    assert refusal(lambda: rows.update("run_steps", made["id"], title="late")) == "LB106"


def test_ended_registered_run_takes_late_steps(rows: Rows) -> None:
    run = rows.registered()
    for state in ("running", "completed"):
        rows.transition(run, state)
    assert step(rows, run)


def test_finished_step_is_final(rows: Rows) -> None:
    made = step(rows, rows.run("running"))
    rows.update("run_steps", made["id"], status="failed", finished_at=LATER)
    for changes in ({"title": "x"}, {"status": "running", "finished_at": None}, {"detail": '{"a": 1}'}):
        assert refusal(lambda changes=changes: rows.update("run_steps", made["id"], **changes)) == "LB106"


@pytest.mark.parametrize(
    "changes",
    [
        {"ordinal": 9},
        {"kind": "text"},
        {"name": "x"},
        {"started_at": LATER},
        {"id": Sql("gen_random_uuid()")},
        {"recorded_by": Sql("gen_random_uuid()")},
    ],
)
def test_what_a_step_is_stays(rows: Rows, changes: dict[str, object]) -> None:
    made = step(rows, rows.run("running"))
    assert refusal(lambda: rows.update("run_steps", made["id"], **changes)) == "LB107"


def test_step_duration_is_computed(rows: Rows) -> None:
    made = step(rows, rows.run("running"))
    ended = rows.update("run_steps", made["id"], status="completed", finished_at="2026-01-01T00:00:01.9999Z")
    assert ended["duration_ms"] == 1999


def followup(rows: Rows, run: str, position: int = 1, **columns: object) -> dict[str, Any]:
    given = {"message_id": rows.message(), "state": "pending", "at": QUEUED_AT, **columns}
    return rows.insert("run_followups", run_id=run, position=position, **given)


def change_followup(rows: Rows, row: dict[str, Any], **changes: object) -> None:
    names = ", ".join(f"{name} = %s" for name in changes)
    rows.run_sql(
        f"UPDATE livebox.run_followups SET {names} WHERE message_id = %s", *changes.values(), row["message_id"]
    )


def test_followups_have_places_of_their_own(rows: Rows) -> None:
    run = rows.run()
    first = followup(rows, run)
    assert refusal(lambda: followup(rows, run)) == "run_followups_position_unique"
    assert refusal(lambda: followup(rows, run, 2, message_id=first["message_id"])) == "run_followups_pkey"
    assert refusal(lambda: followup(rows, run, 0)) == "run_followups_position_positive"
    assert refusal(lambda: followup(rows, run, 2, state="x")) == "run_followups_state_known"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_ended_run_gets_no_followup(rows: Rows, end: str) -> None:
    run = rows.run(end)
    assert refusal(lambda: followup(rows, run)) == "LB108"


@pytest.mark.parametrize("end", ["promoted", "returned", "cancelled"])
def test_followup_only_goes_forward(rows: Rows, end: str) -> None:
    made = followup(rows, rows.run())
    change_followup(rows, made, state="delivered")
    assert refusal(lambda: change_followup(rows, made, state="pending")) == "LB108"
    assert refusal(lambda: change_followup(rows, made, position=2)) == "LB108"
    change_followup(rows, made, state=end)
    for state in ("pending", "delivered", "promoted", "returned", "cancelled"):
        assert refusal(lambda state=state: change_followup(rows, made, state=state)) == "LB108"


@pytest.mark.parametrize("end", ["promoted", "returned", "cancelled"])
def test_followup_that_left_its_run_answers_nothing(rows: Rows, end: str) -> None:
    made = followup(rows, rows.run("waiting_input"), answers_since=QUEUED_AT)
    change_followup(rows, made, state="delivered")
    assert refusal(lambda: change_followup(rows, made, state=end)) == "run_followups_answers_stand"
    change_followup(rows, made, state=end, answers_since=None)


def test_questions_are_named_once_in_a_run(rows: Rows) -> None:
    run, named = rows.run("running"), str(uuid.uuid4())
    rows.insert("run_questions", run_id=run, question_id=named, request_hash="x")
    again = {"question_id": named, "request_hash": "y"}
    assert refusal(lambda: rows.insert("run_questions", run_id=run, **again)) == "run_questions_pkey"
    rows.insert("run_questions", run_id=rows.run("running"), **again)
