"""What each column of a run may do, told for all of them: a new column without a line here fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.db.run_rows import ENDED, Refused, Rows, Sql
from tests.fixtures.database import connect

NEW_ID = Sql("gen_random_uuid()")
LATER = Sql("livebox.clock() + interval '1 hour'")

# Written once: another value is refused whatever the version.
ONCE: dict[str, object] = {
    "id": NEW_ID,
    "thread_id": NEW_ID,
    "agent_id": NEW_ID,
    "trigger_kind": "command",
    "triggering_message_id": NEW_ID,
    "triggering_command_id": NEW_ID,
    "triggering_interaction_id": NEW_ID,
    "triggered_by": NEW_ID,
    "billing_mode_expected": "personal",
    "queued_at": LATER,
    "started_at": LATER,
    "external_id": "x",
    "intent": "x",
    "task": "x",
    "user_dims": "{}",
    "mode": "x",
    "parent_run_id": NEW_ID,
    "parent_span": "x",
    "registered_at": LATER,
    "registered_by": NEW_ID,
    "agents": "{}",
    "budget": "{}",
    "reported_started_at": LATER,
    "cancel_requested_at": LATER,
    "cancel_requested_by": NEW_ID,
}
# Part of what the version counts: a change needs a higher one.
COUNTS: dict[str, object] = {
    "state_reason": "stale",
    "state_changed_at": LATER,
    "state_changed_by": NEW_ID,
    "agent_session_id": NEW_ID,
    "dev_environment_id": NEW_ID,
    "billing_mode_used": "personal",
    "billing_evidence": "x",
    "model": "x",
    "summary": "x",
    "question": '{"prompt": "?"}',
    "started_jti": NEW_ID,
    "started_claim_id": NEW_ID,
    "start_hash": "x",
    "finish_hash": "x",
    "await_hash": "x",
    "resume_hash": "x",
    "document": '{"headline": "x"}',
    "document_final": True,
    "step_count": 7,
    "cost_micros": 1,
    "currency": "EUR",
    "cost_is_estimate": True,
    "finished_at": LATER,
    "cancel_deadline": LATER,
    "cancel_acknowledged_at": LATER,
    "cancel_outcome": "forced",
    "stalled_since": LATER,
    "reported_ended_at": LATER,
    "reported_steps": "{}",
    "halt_reason": "x",
    "detector": "x",
    "governance_events": "[]",
    "spend_entries": 1,
    "spend_tokens": 1,
}
# Signs of life, claim, token, checkpoint and ownership: outside of the version.
FREE: dict[str, object] = {
    "invocation_jti": NEW_ID,
    "renewed_from_jti": NEW_ID,
    "token_issued_at": LATER,
    "claimed_at": LATER,
    "claim_id": NEW_ID,
    "holder_seen_at": LATER,
    "session_closed_at": LATER,
    "last_heartbeat_at": LATER,
    "last_progress_at": LATER,
    "document_as_of": LATER,
    "live_owner": "x",
    "live_epoch": 1,
    "live_version": 1,
    "version_reserved": 99,
}
OTHER = {"state", "version", "duration_ms"}  # have tests of their own
# What may still come when a run has ended.
FINAL_SAVE = {"document", "document_as_of", "live_owner", "live_epoch", "live_version"}
LATE = {"step_count", "reported_steps", "cost_micros", "currency", "cost_is_estimate", "spend_entries", "spend_tokens"}


@pytest.fixture
def rows(module_dsn: str) -> Iterator[Rows]:
    with closing(connect(module_dsn)) as connection:
        yield Rows(connection)


def refusal(action: Any) -> str | None:
    with pytest.raises(Refused) as refused:
        action()
    return refused.value.sqlstate


def raised(column: str, value: object) -> dict[str, object]:
    changes = {column: value, "version": Sql("version + 1")}
    return {"version_reserved": Sql("version_reserved + 1"), **changes}


def test_every_column_has_its_line(rows: Rows) -> None:
    found = rows.run_sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'runs'")
    assert {row["column_name"] for row in found} == {*ONCE, *COUNTS, *FREE, *OTHER}
    assert len(found) == len(ONCE) + len(COUNTS) + len(FREE) + len(OTHER)


@pytest.mark.parametrize("column", ONCE)
def test_written_once(rows: Rows, column: str) -> None:
    if column in ("external_id", "intent", "task", "user_dims", "mode", "parent_run_id", "parent_span", "budget"):
        run = rows.registered()
    else:
        run = rows.run("running")
    if column.startswith("cancel_"):
        rows.update("runs", run, cancel_requested_at=LATER, cancel_requested_by=rows.person, **raised("model", "a"))
    before = rows.row("runs", run)
    assert refusal(lambda: rows.update("runs", run, **raised(column, ONCE[column]))) == "LB104"
    assert rows.row("runs", run) == before


@pytest.mark.parametrize("column", COUNTS)
def test_counted_needs_a_higher_version(rows: Rows, column: str) -> None:
    run = rows.run("running")
    before = rows.row("runs", run)
    assert refusal(lambda: rows.update("runs", run, **{column: COUNTS[column]})) == "LB102"
    assert rows.row("runs", run) == before


def test_free_needs_none(rows: Rows) -> None:
    run = rows.run("running")
    assert rows.update("runs", run, **FREE)["version"] == 2


@pytest.mark.parametrize("changes", [{"version": 1}, {"version_reserved": 1, "version": 1}])
def test_version_never_goes_back(rows: Rows, changes: dict[str, object]) -> None:
    run = rows.run("running")
    assert refusal(lambda: rows.update("runs", run, **changes)) == "LB102"


def test_epoch_and_reserved_never_go_back(rows: Rows) -> None:
    run = rows.run("running")
    rows.update("runs", run, version_reserved=9, live_epoch=3)
    assert refusal(lambda: rows.update("runs", run, version_reserved=8)) == "LB102"
    assert refusal(lambda: rows.update("runs", run, live_epoch=2)) == "LB102"


@pytest.mark.parametrize("state", ENDED)
def test_ended_is_final(rows: Rows, state: str) -> None:
    run = rows.run(state)
    before = rows.row("runs", run)
    for column, value in {**COUNTS, **FREE}.items():
        if column in ("document_final", "version_reserved"):
            continue
        changes = raised(column, value)
        if state == "failed" and column == "state_reason":
            changes["state_reason"] = "runtime_error" if "stale" in before else "stale"
        assert refusal(lambda changes=changes: rows.update("runs", run, **changes)) == "LB103", column
    assert rows.row("runs", run) == before


@pytest.mark.parametrize("state", ENDED)
def test_version_of_an_ended_run_rises_with_a_change(rows: Rows, state: str) -> None:
    run = rows.run(state, triggering_message_id=rows.message())
    up = {"version": Sql("version + 1"), "version_reserved": Sql("version_reserved + 1")}
    assert refusal(lambda: rows.update("runs", run, **up)) == "LB103"
    assert refusal(lambda: rows.update("runs", run, **up, triggering_message_id=None)) == "LB103"
    assert rows.update("runs", run, **up, document_final=True)["document_final"]


def test_document_is_saved_once_more_after_the_end(rows: Rows) -> None:
    run = rows.run("completed")
    document = json.dumps({"headline": "done"})
    save = {"document": document, "document_final": True, "document_as_of": LATER, "live_owner": None}
    assert refusal(lambda: rows.update("runs", run, **save)) == "LB102"
    assert refusal(lambda: rows.update("runs", run, **save, **raised("summary", "x"))) == "LB103"
    saved = rows.update("runs", run, **save, **raised("live_epoch", 1))
    assert saved["document"] == {"headline": "done"}
    assert refusal(lambda: rows.update("runs", run, **raised("document", "{}"))) == "LB103"
    assert refusal(lambda: rows.update("runs", run, **raised("document_final", False))) == "LB103"


def test_late_steps_and_cost_only_of_registered_runs(rows: Rows) -> None:
    late = {"step_count": 3, "cost_micros": 5, "currency": "EUR", "cost_is_estimate": False}
    registered = rows.registered()
    for state in ("running", "completed"):
        rows.transition(registered, state)
    assert refusal(lambda: rows.update("runs", registered, **late)) == "LB102"
    assert rows.update("runs", registered, **late, **raised("reported_steps", '{"a": 3}'))["step_count"] == 3
    assert refusal(lambda: rows.update("runs", registered, **raised("halt_reason", "late"))) == "LB103"
    assert refusal(lambda: rows.update("runs", rows.run("completed"), **late, **raised("version", 9))) is not None


def test_start_is_kept_while_it_waits_and_goes_on(rows: Rows) -> None:
    run = rows.run("waiting_input")
    started = rows.run_sql("SELECT started_at FROM livebox.runs WHERE id = %s", run)[0]["started_at"]
    assert rows.transition(run, "running")["started_at"] == started
    assert refusal(lambda: rows.transition(run, "waiting_input", started_at=LATER)) == "LB104"


def test_numbers_go_on_beyond_four_bytes(rows: Rows) -> None:
    run = rows.run("running")
    mark = 2**31 - 2
    rows.update("runs", run, version=mark, version_reserved=mark, step_count=mark)
    for version in range(mark + 1, mark + 5):
        row = rows.update("runs", run, **raised("step_count", version))
        assert (row["version"], row["step_count"]) == (version, version)
