"""Every rule about the row of a run, broken from plain SQL, one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.db.run_rows import ACTIVE, ENDED, QUEUED_AT, Rows, Sql, new_run, refusal, registration
from tests.fixtures.database import connect

NULL_INSIDE = '{"a": [{"b": null}]}'
LATER = Sql("livebox.clock() + interval '1 day'")
EARLIER = "2025-12-31T23:59:59Z"
HUGE = 2**53


@pytest.fixture
def rows(module_dsn: str) -> Iterator[Rows]:
    with closing(connect(module_dsn)) as connection:
        yield Rows(connection)


NEW = {
    "unknown trigger kind": ({"trigger_kind": "x"}, "runs_trigger_kind_known"),
    "unknown expected billing mode": ({"billing_mode_expected": "x"}, "runs_billing_mode_expected_known"),
    "unknown used billing mode": ({"billing_mode_used": "x"}, "runs_billing_mode_used_known"),
    "reason in queued": ({"state_reason": "runtime_error"}, "runs_reason_where_it_belongs"),
    "finished in queued": ({"finished_at": LATER}, "runs_finished_when_ended"),
    "started in queued": ({"started_at": LATER}, "runs_started_when_working"),
    "state began before it was queued": ({"state_changed_at": EARLIER}, "runs_times_in_order"),
    "null inside the document": ({"document": NULL_INSIDE}, "runs_document_object"),
    "document is a list": ({"document": "[]"}, "runs_document_object"),
    "document is null": ({"document": "null"}, "runs_document_object"),
    "question while queued": ({"question": '{"prompt": "?"}'}, "runs_question_while_waiting"),
    "negative cost": ({"cost_micros": -1, "currency": "EUR", "cost_is_estimate": False}, "runs_cost_range"),
    "cost too large": ({"cost_micros": HUGE, "currency": "EUR", "cost_is_estimate": False}, "runs_cost_range"),
    "cost without currency": ({"cost_micros": 1, "cost_is_estimate": False}, "runs_cost_whole"),
    "currency without cost": ({"currency": "EUR"}, "runs_cost_whole"),
    "cost not said to be an estimate or not": ({"cost_micros": 1, "currency": "EUR"}, "runs_cost_whole"),
    "currency in lower case": ({"cost_micros": 1, "currency": "eur", "cost_is_estimate": True}, "runs_currency_code"),
    "negative steps": ({"step_count": -1}, "runs_step_count_positive"),
    "negative epoch": ({"live_epoch": -1}, "runs_live_epoch_positive"),
    "claim without a time": ({"claim_id": Sql("gen_random_uuid()")}, "runs_claim_whole"),
    "claim time without a claim": ({"claimed_at": LATER}, "runs_claim_whole"),
    "cancel deadline without a request": ({"cancel_deadline": LATER}, "runs_cancel_whole"),
    "cancel outcome without a request": ({"cancel_outcome": "forced"}, "runs_cancel_whole"),
    "cancel acknowledged without a request": ({"cancel_acknowledged_at": LATER}, "runs_cancel_whole"),
    "cancel requested by nobody": ({"cancel_requested_at": LATER}, "runs_cancel_whole"),
    "thread run without a person": ({"triggered_by": None}, "runs_triggered_by_in_thread"),
    "thread run without a thread": ({"thread_id": None}, "runs_thread_unless_registered"),
    "thread run without a token": ({"invocation_jti": None}, "runs_token_unless_registered"),
    "command on a message's run": (
        {"triggering_command_id": Sql("gen_random_uuid()")},
        "runs_trigger_matches_kind",
    ),
    "interaction on a message's run": (
        {"triggering_interaction_id": Sql("gen_random_uuid()")},
        "runs_trigger_matches_kind",
    ),
    "two triggers": (
        {
            "trigger_kind": "command",
            "triggering_command_id": Sql("gen_random_uuid()"),
            "triggering_interaction_id": Sql("gen_random_uuid()"),
        },
        "runs_one_trigger",
    ),
    "registered members on a message's run": ({"intent": "x"}, "runs_registration_columns"),
    "model too long": ({"model": "x" * 201}, "runs_texts_bounded"),
    "summary too long": ({"summary": "x" * 4001}, "runs_texts_bounded"),
    "evidence too long": ({"billing_evidence": "x" * 201}, "runs_texts_bounded"),
    "no such agent": ({"agent_id": Sql("gen_random_uuid()")}, "runs_agent_id_fkey"),
    "no such thread": ({"thread_id": Sql("gen_random_uuid()")}, "runs_thread_id_fkey"),
    "state by no such principal": ({"state_changed_by": Sql("gen_random_uuid()")}, "runs_state_changed_by_fkey"),
    "no such person": ({"triggered_by": Sql("gen_random_uuid()")}, "runs_triggered_by_fkey"),
    "no such message": ({"triggering_message_id": Sql("gen_random_uuid()")}, "runs_triggering_message_id_fkey"),
}


@pytest.mark.parametrize("case", NEW)
def test_new_run(rows: Rows, case: str) -> None:
    columns, rule = NEW[case]
    given = {**new_run(rows.agent), "thread_id": rows.thread(), "triggered_by": rows.person, **columns}
    assert refusal(lambda: rows.insert("runs", **given)) == rule


def test_message_on_a_run_of_another_kind(rows: Rows) -> None:
    message = rows.message()
    assert (
        refusal(lambda: rows.run(trigger_kind="command", triggering_message_id=message)) == "runs_trigger_matches_kind"
    )
    assert rows.run(triggering_message_id=message)


REGISTERED = {
    "with a token": ({"invocation_jti": Sql("gen_random_uuid()")}, "runs_token_unless_registered"),
    "without its time": ({"registered_at": None}, "runs_registration_columns"),
    "by nobody": ({"registered_by": None}, "runs_registration_columns"),
    "without agents": ({"agents": None}, "runs_registration_columns"),
    "ended already as reported": ({"reported_ended_at": LATER}, "runs_reported_end_with_end"),
    "null in dimensions": ({"user_dims": NULL_INSIDE}, "runs_user_dims_object"),
    "dimensions are a list": ({"user_dims": "[]"}, "runs_user_dims_object"),
    "null in budget": ({"budget": NULL_INSIDE}, "runs_budget_object"),
    "null in reported steps": ({"reported_steps": NULL_INSIDE}, "runs_reported_steps_object"),
    "null in governance events": ({"governance_events": "[null]"}, "runs_governance_events_array"),
    "governance events are an object": ({"governance_events": "{}"}, "runs_governance_events_array"),
    "empty external id": ({"external_id": ""}, "runs_texts_bounded"),
    "no such registrar": ({"registered_by": Sql("gen_random_uuid()")}, "runs_registered_by_fkey"),
    "no such parent": ({"parent_run_id": Sql("gen_random_uuid()")}, "runs_parent_run_id_fkey"),
}


@pytest.mark.parametrize("case", REGISTERED)
def test_new_registered_run(rows: Rows, case: str) -> None:
    columns, rule = REGISTERED[case]
    given = {**registration(rows.agent, rows.person), **columns}
    assert refusal(lambda: rows.insert("runs", **given)) == rule


def test_registered_run_has_no_thread(rows: Rows) -> None:
    thread = rows.thread()
    assert refusal(lambda: rows.registered(thread_id=thread)) == "runs_thread_unless_registered"


def test_external_id_is_unique(rows: Rows) -> None:
    rows.registered(external_id="ticket 7")
    assert refusal(lambda: rows.registered(external_id="ticket 7")) == "runs_external_id_unique"


def test_run_is_not_its_own_parent(rows: Rows) -> None:
    own = str(uuid.uuid4())
    given = {**registration(rows.agent, rows.person), "id": own, "parent_run_id": own}
    assert refusal(lambda: rows.insert("runs", **given)) == "runs_not_its_own_parent"


def test_registered_run_may_begin_running(rows: Rows) -> None:
    given = {**registration(rows.agent, rows.person), "state": "running", "started_at": QUEUED_AT}
    assert rows.insert("runs", **given)["state"] == "running"


def test_token_is_unique(rows: Rows) -> None:
    token = str(uuid.uuid4())
    rows.run(invocation_jti=token)
    assert refusal(lambda: rows.run(invocation_jti=token)) == "runs_invocation_jti_unique"


@pytest.mark.parametrize("state", ACTIVE)
def test_one_active_run_per_thread(rows: Rows, state: str) -> None:
    thread = rows.thread()
    rows.run(state, thread_id=thread)
    assert refusal(lambda: rows.run(thread_id=thread)) == "runs_one_active_per_thread"


@pytest.mark.parametrize("state", ENDED)
def test_ended_run_makes_room(rows: Rows, state: str) -> None:
    thread = rows.thread()
    rows.run(state, thread_id=thread)
    assert rows.run(thread_id=thread)


TRANSITIONS = {
    "failed without a reason": ("running", "failed", {"state_reason": None}, "runs_reason_where_it_belongs"),
    "cancelled without a reason": ("running", "cancelled", {"state_reason": None}, "runs_reason_where_it_belongs"),
    "completed with a reason": (
        "running",
        "completed",
        {"state_reason": "runtime_error"},
        "runs_reason_where_it_belongs",
    ),
    "running with a reason": ("queued", "running", {"state_reason": "runtime_error"}, "runs_reason_where_it_belongs"),
    "waiting with a reason": (
        "running",
        "waiting_input",
        {"state_reason": "user_cancelled"},
        "runs_reason_where_it_belongs",
    ),
    "unknown reason": ("running", "failed", {"state_reason": "because"}, "runs_reason_of_state"),
    "reason of another state": ("running", "failed", {"state_reason": "user_cancelled"}, "runs_reason_of_state"),
    "rejection as a reason": ("running", "failed", {"state_reason": "followup_limit"}, "runs_reason_of_state"),
    "ended without an end time": ("running", "completed", {"finished_at": None}, "runs_finished_when_ended"),
    "waiting with an end time": ("running", "waiting_input", {"finished_at": LATER}, "runs_finished_when_ended"),
    "running without a start": ("queued", "running", {"started_at": None}, "runs_started_when_working"),
    "started before it was queued": ("queued", "running", {"started_at": EARLIER}, "runs_times_in_order"),
    "ended before it was queued": ("queued", "failed", {"finished_at": EARLIER}, "runs_times_in_order"),
    "ended before it started": (
        "running",
        "completed",
        {"finished_at": Sql("started_at - interval '1 microsecond'")},
        "runs_times_in_order",
    ),
    "version beyond exact numbers": (
        "queued",
        "running",
        {"version": HUGE, "version_reserved": HUGE},
        "runs_version_positive",
    ),
    "reserved beyond exact numbers": ("queued", "running", {"version_reserved": HUGE}, "runs_version_within_reserved"),
    "null in the question": ("running", "waiting_input", {"question": NULL_INSIDE}, "runs_question_object"),
    "question is a text": ("running", "waiting_input", {"question": '"?"'}, "runs_question_object"),
    "cancel without an outcome at the end": (
        "running",
        "completed",
        {"cancel_requested_at": LATER, "cancel_requested_by": Sql("triggered_by")},
        "runs_cancel_whole",
    ),
    "cancel with an outcome before the end": (
        "running",
        "waiting_input",
        {"cancel_requested_at": LATER, "cancel_requested_by": Sql("triggered_by"), "cancel_outcome": "forced"},
        "runs_cancel_whole",
    ),
    "unknown cancel outcome": (
        "running",
        "completed",
        {"cancel_requested_at": LATER, "cancel_requested_by": Sql("triggered_by"), "cancel_outcome": "x"},
        "runs_cancel_outcome_known",
    ),
}


@pytest.mark.parametrize("case", TRANSITIONS)
def test_transition(rows: Rows, case: str) -> None:
    start, end, columns, rule = TRANSITIONS[case]
    run = rows.run(start)
    before = rows.row("runs", run)
    assert refusal(lambda: rows.transition(run, end, **columns)) == rule
    assert rows.row("runs", run) == before


def test_duration_is_computed_and_nobodys_to_set(rows: Rows) -> None:
    run = rows.run("running")
    assert refusal(lambda: rows.update("runs", run, duration_ms=1, version=9, version_reserved=9)) == "428C9"
    ended = rows.transition(run, "completed", finished_at=Sql("started_at + interval '1.2345 s'"))
    assert ended["duration_ms"] == 1234
    assert rows.transition(rows.run(), "cancelled")["duration_ms"] is None
    assert (
        rows.run_sql("SELECT duration_ms FROM livebox.runs WHERE id = %s", rows.run("running"))[0]["duration_ms"]
        is None
    )


def test_reserved_is_never_below_the_version(rows: Rows) -> None:
    run = rows.run("running")
    assert rows.update("runs", run, version=7, model="x")["version_reserved"] == 7
    rows.run_sql("SET session_replication_role = replica")
    assert refusal(lambda: rows.update("runs", run, version=8)) == "runs_version_within_reserved"


def test_first_state_begins_when_the_run_is_queued(rows: Rows) -> None:
    run = rows.run(state_changed_at=None)
    (row,) = rows.run_sql("SELECT state_changed_at = queued_at AS same FROM livebox.runs WHERE id = %s", run)
    assert row["same"]


def test_unknown_state_is_refused_by_the_table_itself(rows: Rows) -> None:
    run = rows.run("running")
    rows.run_sql("SET session_replication_role = replica")  # no triggers, as a restore would have it
    assert refusal(lambda: rows.update("runs", run, state="x")) == "runs_state_known"


REFERENCE = {
    "rejection in capitals": ("rejection_reasons", {"code": "Bad"}, "rejection_reasons_code_check"),
    "rejection twice": ("rejection_reasons", {"code": "followup_limit"}, "rejection_reasons_pkey"),
    "reason in capitals": (
        "run_reasons",
        {"code": "Bad", "state": "failed", "setter": "both"},
        "run_reasons_code_check",
    ),
    "reason twice": (
        "run_reasons",
        {"code": "stale", "state": "cancelled", "setter": "both"},
        "run_reasons_pkey",
    ),
    "reason of completed": (
        "run_reasons",
        {"code": "fine", "state": "completed", "setter": "both"},
        "run_reasons_state_check",
    ),
    "reason of nobody": (
        "run_reasons",
        {"code": "fine", "state": "failed", "setter": "person"},
        "run_reasons_setter_check",
    ),
    "pair twice": ("run_transitions", {"from_state": "queued", "to_state": "running"}, "run_transitions_pkey"),
    "out of an end": (
        "run_transitions",
        {"from_state": "completed", "to_state": "running"},
        "run_transitions_from_state_check",
    ),
    "back to queued": (
        "run_transitions",
        {"from_state": "running", "to_state": "queued"},
        "run_transitions_to_state_check",
    ),
    "to itself": ("run_transitions", {"from_state": "running", "to_state": "running"}, "run_transitions_check"),
}


@pytest.mark.parametrize("case", REFERENCE)
def test_reference_rows(rows: Rows, case: str) -> None:
    table, columns, rule = REFERENCE[case]
    assert refusal(lambda: rows.insert(table, **columns)) == rule


def test_run_id_is_unique(rows: Rows) -> None:
    run = rows.run()
    assert refusal(lambda: rows.run(id=run)) == "runs_pkey"


def test_who_asks_to_cancel_is_a_principal(rows: Rows) -> None:
    columns = {"cancel_requested_by": Sql("gen_random_uuid()"), "cancel_requested_at": LATER}
    raised = {"version": Sql("version + 1"), "version_reserved": Sql("version_reserved + 1")}
    run = rows.run("running")
    assert refusal(lambda: rows.update("runs", run, **columns, **raised)) == "runs_cancel_requested_by_fkey"


def test_reasons_are_those_that_are_documented(rows: Rows) -> None:
    found = rows.run_sql("SELECT setter, state, count(*) AS n FROM livebox.run_reasons GROUP BY 1, 2")
    assert {(row["setter"], row["state"]): row["n"] for row in found} == {
        ("adapter", "failed"): 5,
        ("both", "failed"): 2,
        ("server", "failed"): 9,
        ("both", "cancelled"): 1,
        ("server", "cancelled"): 6,
    }
    assert rows.run_sql("SELECT count(*) AS n FROM livebox.rejection_reasons")[0]["n"] == 10


# The deferred key from a message to its run -------------------------------------------------------------------------


@pytest.mark.parametrize("run_first", [True, False])
def test_anchor_and_run_in_either_order(rows: Rows, run_first: bool) -> None:
    thread, run = rows.thread(), str(uuid.uuid4())
    anchor = {"kind": "run", "author_id": rows.agent, "origin": "agent", "body": "", "silent": True, "run_id": run}
    rows.run_sql("BEGIN")
    steps = [lambda: rows.run(id=run, thread_id=thread), lambda: rows.message(thread, **anchor)]
    for step in steps if run_first else reversed(steps):
        step()
    rows.run_sql("COMMIT")
    assert rows.run_sql("SELECT run_id FROM livebox.messages WHERE thread_id = %s", thread)[0]["run_id"] == run


def test_anchor_without_its_run_fails_at_commit(rows: Rows) -> None:
    thread = rows.thread()
    rows.run_sql("BEGIN")
    rows.message(
        thread, kind="run", author_id=rows.agent, origin="agent", body="", silent=True, run_id=str(uuid.uuid4())
    )
    assert refusal(lambda: rows.run_sql("COMMIT")) == "messages_run"


def test_run_that_goes_leaves_its_anchor(rows: Rows) -> None:
    thread = rows.thread()
    run = rows.run(thread_id=thread)
    rows.insert("run_steps", run_id=run, id=str(uuid.uuid4()), ordinal=1, kind="tool", name="x", status="running",
                started_at=QUEUED_AT)  # fmt: skip
    anchor = rows.message(thread, kind="run", author_id=rows.agent, origin="agent", body="", silent=True, run_id=run)
    rows.run_sql("DELETE FROM livebox.runs WHERE id = %s", run)
    assert rows.run_sql("SELECT run_id FROM livebox.messages WHERE id = %s", anchor)[0]["run_id"] is None
    assert rows.run_sql("SELECT count(*) AS n FROM livebox.run_steps WHERE run_id = %s", run)[0]["n"] == 0


@pytest.mark.parametrize("state", ["queued", "completed"])
def test_message_that_goes_leaves_its_run(rows: Rows, state: str) -> None:
    message = rows.message()
    run = rows.run(state, triggering_message_id=message)
    rows.run_sql("DELETE FROM livebox.messages WHERE id = %s", message)
    found = rows.run_sql("SELECT triggering_message_id FROM livebox.runs WHERE id = %s", run)
    assert found[0]["triggering_message_id"] is None


# The reason on a message ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "reason"), [("failed", "followup_limit"), ("cancelled", "user_cancelled")])
def test_trigger_reason_is_of_either_list(rows: Rows, state: str, reason: str) -> None:
    message = rows.message()
    columns = {"trigger_state": state, "trigger_state_at": QUEUED_AT, "version": 2}
    assert rows.update("messages", message, trigger_state_reason=reason, **columns)
    assert (
        refusal(lambda: rows.update("messages", message, trigger_state_reason="x", **{**columns, "version": 3}))
        == "LB109"
    )
