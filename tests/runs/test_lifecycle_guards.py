"""Each guard of a run's life is taken away, and the test that holds it has to fail.

A guard is a piece of a function's text. Here it is replaced in the test's own database, and the test is run there. A
test that passes all the same would not notice that the guard is gone.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from db import Database
from tests.runs.stage import Stage

FUNCTIONS = Path(__file__).resolve().parents[2] / "db" / "functions"
WAITS = """r.state = 'waiting_input'
       AND r.claimed_at + v_lease <= v_now
       AND greatest(r.holder_seen_at, v_since) + v_grace <= v_now
       AND EXISTS (SELECT FROM livebox.run_followups f WHERE f.run_id = r.id AND f.answers_since IS NOT NULL)"""


class Guard(NamedTuple):
    """What of which function is replaced by what, and the test that must then fail: module, name and arguments."""

    function: str
    text: str
    instead: str
    module: str
    test: str
    arguments: Mapping[str, Any] = {}


GUARDS = {
    "token of another holder": Guard(
        "invocation_refusal",
        "ELSE 'invocation_superseded'",
        "ELSE NULL",
        "tokens",
        "test_token_that_does_not_hold_the_run",
        {"kind": "a holder before"},
    ),
    "token that was renewed": Guard(
        "invocation_refusal",
        "THEN 'token_renewed'",
        "THEN NULL",
        "tokens",
        "test_token_that_does_not_hold_the_run",
        {"kind": "renewed"},
    ),
    "token that expired": Guard(
        "invocation_refusal",
        "THEN 'token_expired'",
        "THEN NULL",
        "tokens",
        "test_token_that_does_not_hold_the_run",
        {"kind": "expired"},
    ),
    "token of another run": Guard(
        "invocation_refusal",
        "THEN 'invalid_token'",
        "THEN NULL",
        "tokens",
        "test_token_that_does_not_hold_the_run",
        {"kind": "another run"},
    ),
    "run that ended": Guard(
        "invocation_refusal",
        "CASE WHEN p_run.finished_at IS NOT NULL THEN 'run_ended' END",
        "NULL",
        "tokens",
        "test_after_the_end_everything_is_refused",
        {"end": "completed"},
    ),
    "grace of a renewal ends": Guard(
        "renew_invocation_token",
        "p_args->'invocation', v_grace)",
        "p_args->'invocation', interval '1 year')",
        "tokens",
        "test_grace_ends",
    ),
    "first use of a renewed token": Guard(
        "held_run",
        "v_run.renewed_from_jti := NULL;",
        "NULL;",
        "tokens",
        "test_end_under_the_new_token_is_told_to_the_old_one",
    ),
    "repeated renewal gives the same token": Guard(
        "renew_invocation_token",
        "CASE WHEN r.invocation_jti = v_jti THEN gen_random_uuid() ELSE r.invocation_jti END",
        "gen_random_uuid()",
        "tokens",
        "test_both_pass_until_the_new_one_is_used",
    ),
    "first use by a beat": Guard(
        "heartbeat_run",
        '\'[{"kind": "invocation", "first_use": true}]\'::jsonb',
        "NULL",
        "tokens",
        "test_chain_of_renewals_has_one_overlap",
    ),
    "repeated question is of the same holder": Guard(
        "await_run_input",
        "p_args->'invocation'->'claim_id', v_body",
        "p_args->'invocation'->'jti', v_body",
        "tokens",
        "test_repeats_compare_the_holder_and_not_the_token",
    ),
    "repeated question has the same body": Guard(
        "await_run_input",
        "jsonb_build_array(p_args->'invocation'->'claim_id', v_body)",
        "jsonb_build_array(p_args->'invocation'->'claim_id')",
        "waiting",
        "test_repeats_replay",
    ),
    "question only from running": Guard(
        "await_run_input", "v_run.state <> 'running'", "false", "table", "test_what_is_told", {"state": "queued"}
    ),
    "no question while follow-ups wait": Guard(
        "await_run_input",
        "AND f.state = 'pending') THEN",
        "AND false) THEN",
        "waiting",
        "test_no_question_while_followups_wait",
    ),
    "question after a request to cancel": Guard(
        "await_run_input",
        "v_run.cancel_requested_at IS NOT NULL THEN",
        "false THEN",
        "waiting",
        "test_question_after_a_request_to_cancel_ends_the_run",
    ),
    "outcome while_waiting": Guard(
        "transition_run",
        "coalesce(p_facts->>'cancel_outcome', livebox.cancel_outcome_of(p_run.state, p_state, p_reason))",
        "livebox.cancel_outcome_of(p_run.state, p_state, p_reason)",
        "waiting",
        "test_question_after_a_request_to_cancel_ends_the_run",
    ),
    "resumed only from waiting": Guard(
        "resume_run", "v_run.state <> 'waiting_input'", "false", "table", "test_what_is_told", {"state": "queued"}
    ),
    "resumed once": Guard(
        "resume_run",
        "v_run.state = 'running' AND v_run.resume_hash = v_hash",
        "false",
        "waiting",
        "test_repeats_replay",
    ),
    "old question hash cleared": Guard(
        "transition_run",
        "await_hash = p_facts->>'await_hash',",
        "await_hash = v_run.await_hash,",
        "waiting",
        "test_wait_that_others_ended_is_no_repeat",
    ),
    "lease of queued": Guard(
        "claimable_runs",
        "AND (r.claimed_at IS NULL OR r.claimed_at + v_lease <= v_now)",
        "",
        "delivery",
        "test_two_pollers_share_no_run",
    ),
    "lease of waiting": Guard(
        "claimable_runs",
        "AND r.claimed_at + v_lease <= v_now\n",
        "",
        "delivery",
        "test_new_holder_has_the_lease_and_the_grace",
        {"lease": 60, "grace": 1},
    ),
    "holder grace": Guard(
        "claimable_runs",
        "greatest(r.holder_seen_at, v_since) + v_grace <= v_now",
        "true",
        "delivery",
        "test_sign_of_life_keeps_a_waiting_run",
    ),
    "service_since": Guard(
        "claimable_runs",
        "greatest(r.holder_seen_at, v_since)",
        "r.holder_seen_at",
        "delivery",
        "test_time_without_the_service_is_not_counted_against_a_holder",
    ),
    "answer wanted": Guard(
        "claimable_runs",
        "AND EXISTS (SELECT FROM livebox.run_followups f WHERE f.run_id = r.id AND f.answers_since IS NOT NULL)",
        "",
        "delivery",
        "test_many_that_nobody_answered_hide_no_answer",
    ),
    "taken answer wanted": Guard(
        "claimable_runs",
        "f.answers_since IS NOT NULL",
        "f.state = 'pending'",
        "delivery",
        "test_answer_that_was_taken_by_a_holder_that_is_gone_is_handed_to_another",
    ),
    "taken answer wanted (claim)": Guard(
        "claim_invocations",
        "f.answers_since IS NOT NULL",
        "f.state = 'pending'",
        "delivery",
        "test_answer_that_was_taken_by_a_holder_that_is_gone_is_handed_to_another",
    ),
    "taken answer kept": Guard(
        "set_followup",
        "CASE WHEN p_state = 'delivered' THEN f.answers_since END",
        "NULL",
        "delivery",
        "test_answer_that_was_taken_by_a_holder_that_is_gone_is_handed_to_another",
    ),
    "answers heard": Guard(
        "transition_run",
        "IF p_run.state = 'waiting_input' THEN",
        "IF false THEN",
        "delivery",
        "test_taken_answers_of_earlier_rounds_are_no_answers",
    ),
    "withdrawn answer is none": Guard(
        "set_followup",
        "CASE WHEN p_state = 'delivered' THEN f.answers_since END",
        "f.answers_since",
        "delivery",
        "test_withdrawn_answer_resumes_nothing",
    ),
    "resumed run checked at a repeat": Guard(
        "claim_invocations",
        "IF v_denial IS NULL AND livebox.invocation_resumes(v_run) THEN",
        "IF v_denial IS NULL AND v_run.state = 'waiting_input' THEN",
        "delivery",
        "test_repeated_claim_of_a_resumed_run_is_checked_again",
    ),
    "late question": Guard(
        "await_run_input",
        "IF v_before = v_hash THEN",
        "IF false THEN",
        "waiting",
        "test_late_repeats_of_an_earlier_question_change_nothing",
    ),
    "question kept": Guard(
        "await_run_input",
        "WHERE v_named IS NOT NULL;",
        "WHERE false;",
        "waiting",
        "test_late_repeats_of_an_earlier_question_change_nothing",
    ),
    "name of a question taken": Guard(
        "await_run_input",
        "ELSIF v_before IS NOT NULL THEN",
        "ELSIF false THEN",
        "waiting",
        "test_name_of_a_question_is_used_once",
    ),
    "unknown question": Guard(
        "resume_run",
        "ELSIF v_named IS NOT NULL AND NOT EXISTS (",
        "ELSIF false AND NOT EXISTS (",
        "waiting",
        "test_name_of_a_question_is_used_once",
    ),
    "late resumption": Guard(
        "resume_run",
        "ELSIF v_named IS NOT NULL AND v_named IS DISTINCT FROM (v_run.question->>'question_id')::uuid THEN",
        "ELSIF false THEN",
        "waiting",
        "test_late_repeats_of_an_earlier_question_change_nothing",
    ),
    "names of the server": Guard(
        "record_run_step",
        "v_body->>'name' IN ('earlier_steps', 'adapter_reason')",
        "false",
        "steps",
        "test_names_that_only_the_server_gives",
        {"name": "earlier_steps"},
    ),
    "answer wanted (claim)": Guard(
        "claim_invocations",
        "CONTINUE WHEN NOT EXISTS (",
        "CONTINUE WHEN false AND NOT EXISTS (",
        "delivery",
        "test_answer_that_is_not_allowed_any_more_is_returned_and_resumes_nothing",
    ),
    "only waiting and queued": Guard(
        "claimable_runs",
        WAITS,
        "r.state IN ('waiting_input', 'running') AND EXISTS (SELECT FROM livebox.run_followups f WHERE f.run_id = r.id)",
        "delivery",
        "test_running_run_is_handed_to_nobody",
    ),
    "check at delivery": Guard(
        "claim_invocations",
        "            v_denial := livebox.delivery_denial(v_run.triggered_by, v_me, v_run.thread_id);",
        "            v_denial := NULL;",
        "delivery",
        "test_waiting_run_whose_person_lost_the_right_ends_at_delivery",
    ),
    "check at a repeat": Guard(
        "claim_invocations",
        "IF v_denial IS NOT NULL AND v_run.state = 'queued' THEN",
        "IF false THEN",
        "delivery",
        "test_repeat_asks_for_the_rights_of_now",
    ),
    "bounded claim": Guard(
        "claim_invocations",
        "v_spare   CONSTANT bigint := 20",
        "v_spare   CONSTANT bigint := 20000",
        "delivery",
        "test_one_claim_ends_only_so_many",
    ),
    "answers checked again": Guard(
        "claim_invocations",
        "IF v_run.state = 'waiting_input' THEN\n                v_run := livebox.return_denied_followups(v_run, v_limits);",
        "IF v_run.state = 'waiting_input' THEN",
        "delivery",
        "test_answer_that_is_not_allowed_any_more_is_returned_and_resumes_nothing",
    ),
    "fresh token with a claim": Guard(
        "claim_run",
        "invocation_jti = gen_random_uuid(),",
        "",
        "delivery",
        "test_answer_to_a_holder_that_is_gone_is_handed_to_another",
    ),
    "claim is a sign of life": Guard(
        "claim_run",
        "holder_seen_at = greatest(r.holder_seen_at, v_now),",
        "",
        "delivery",
        "test_new_holder_has_the_lease_and_the_grace",
        {"lease": 1, "grace": 60},
    ),
    "denial is an end of a known reason": Guard(
        "delivery_reason",
        "RAISE EXCEPTION 'no run can end with the denial %', p_denial USING ERRCODE = 'LB122';",
        "NULL;",
        "delivery",
        "test_unknown_denial_is_an_error_and_ends_nothing",
    ),
    "denial mapped": Guard(
        "delivery_reason",
        "WHEN 'run_active_other_agent' THEN 'agent_not_allowed_here'",
        "",
        "delivery",
        "test_every_denial_of_the_decision_ends_a_run",
    ),
    "cancel deadline": Guard(
        "ask_cancel",
        "cancel_deadline = v_now + make_interval(secs => (p_limits->>'run.cancel_timeout')::double precision),",
        "",
        "cancel",
        "test_deadline_is_set_with_the_request_and_stays",
    ),
    "cancel asked once": Guard(
        "cancel_run",
        "IF v_run.cancel_requested_at IS NULL THEN",
        "IF true THEN",
        "cancel",
        "test_deadline_is_set_with_the_request_and_stays",
    ),
    "acknowledged once": Guard(
        "beat_run", "AND v_run.cancel_acknowledged_at IS NULL", "", "cancel", "test_holder_acknowledges_once"
    ),
    "acknowledged only when asked": Guard(
        "beat_run",
        "AND v_run.cancel_requested_at IS NOT NULL",
        "",
        "cancel",
        "test_nothing_is_acknowledged_that_nobody_asked_for",
    ),
    "cancelled only after asking": Guard(
        "reported_end",
        "IF p_run.cancel_requested_at IS NULL THEN",
        "IF false THEN",
        "table",
        "test_what_is_told",
        {"state": "running"},
    ),
    "ack with the rights of now": Guard(
        "ack_followup",
        "v_denial := livebox.delivery_denial(v_message.author_id, v_run.agent_id, v_run.thread_id);",
        "",
        "followups",
        "test_taken_with_the_rights_of_now",
    ),
    "ack once": Guard(
        "ack_followup",
        "v_row.state = 'delivered' THEN",
        "false THEN",
        "followups",
        "test_repeat_answers_with_what_is_stored",
    ),
    "ack of a closed one": Guard(
        "ack_followup", "v_row.state <> 'pending' THEN", "false THEN", "followups", "test_withdrawn_one_is_closed"
    ),
    "lost work gives back": Guard(
        "settle_followups",
        "v_lost    boolean := p_run.state_reason IN ('stale', 'interrupted', 'adapter_error');",
        "v_lost    boolean := false;",
        "followups",
        "test_taken_ones_wait_again_when_the_work_was_lost",
        {"reason": "stale"},
    ),
    "no chain of timeouts": Guard(
        "settle_followups",
        "WHEN p_run.state_reason = 'agent_unavailable' THEN 'agent_unavailable'",
        "",
        "followups",
        "test_answers_to_an_agent_that_is_not_there_are_returned",
    ),
    "deleted is cancelled": Guard(
        "settle_followups",
        "CONTINUE WHEN v_message.deleted_at IS NOT NULL;",
        "",
        "followups",
        "test_taken_one_whose_message_is_gone_is_cancelled",
    ),
    "denial at the end recorded": Guard(
        "settle_followups",
        "IF p_run.state_reason IS DISTINCT FROM 'agent_unavailable' THEN",
        "IF false THEN",
        "followups",
        "test_denied_at_the_end_is_recorded",
    ),
    "settled in the ending transaction": Guard(
        "transition_run",
        "v_effects := v_effects || livebox.settle_followups(v_run, p_actor, p_limits);",
        "NULL;",
        "followups",
        "test_followup_at_the_moment_of_the_end",
    ),
    "who lists follow-ups": Guard(
        "list_run_followups",
        "IF v_denial IS NOT NULL\n       AND (",
        "IF false\n       AND (",
        "followups",
        "test_list_in_order_with_messages",
    ),
    "message hidden from who may not read": Guard(
        "list_run_followups",
        "v_denial IS NULL OR (f.state = 'delivered' AND v_place IS NULL)",
        "true",
        "followups",
        "test_agent_that_may_not_read_there_any_more_sees_no_text",
    ),
    "most follow-ups": Guard(
        "accept_message",
        ">= (p_limits->>'run.followups_max')::bigint",
        ">= 1000000",
        "followups",
        "test_most_that_wait",
    ),
    "compaction: leaves first": Guard(
        "compact_steps",
        "AND NOT EXISTS (SELECT FROM livebox.run_steps c WHERE c.run_id = s.run_id AND c.parent_step_id = s.id)",
        "",
        "steps",
        "test_parent_goes_after_its_children",
        {"child": "running"},
    ),
    "compaction: finished only": Guard(
        "compact_steps", "s.status <> 'running'", "true", "steps", "test_what_still_runs_is_kept"
    ),
    "compaction at all": Guard(
        "record_run_step",
        "PERFORM livebox.compact_steps(v_run, p_args->'limits');",
        "",
        "steps",
        "test_oldest_finished_become_one_summary",
    ),
    "no child of the summary": Guard(
        "record_run_step",
        "AND s.recorded_by IS NOT NULL)",
        ")",
        "steps",
        "test_nobody_hangs_a_step_on_the_summary_or_changes_it",
    ),
    "steps close with the run": Guard(
        "transition_run",
        "WHERE s.run_id = p_run.id AND s.status = 'running';",
        "WHERE false;",
        "steps",
        "test_steps_of_a_tree_close_with_the_run",
    ),
    "stall cleared is told": Guard(
        "count_step",
        "IF p_run.stalled_since IS NOT NULL THEN",
        "IF false THEN",
        "tokens",
        "test_step_of_a_stalled_run_says_that_it_goes_on",
    ),
    "sign of life in the row": Guard(
        "held_run",
        "v_run.holder_seen_at := greatest(v_run.holder_seen_at, v_now);",
        "",
        "tokens",
        "test_acknowledging_is_a_sign_of_life",
    ),
    "start compares the claim": Guard(
        "start_run",
        "WHEN v_run.started_claim_id IS DISTINCT FROM v_claim THEN livebox.run_conflict('already_started', v_run, livebox.caller_id(p_caller))\n",
        "",
        "delivery",
        "test_answer_to_a_holder_that_is_gone_is_handed_to_another",
    ),
    "start compares the body": Guard(
        "start_run",
        "WHEN v_run.start_hash <> livebox.body_hash(v_body) THEN",
        "WHEN false THEN",
        "table",
        "test_what_is_told",
        {"state": "running"},
    ),
    "finish compares holder and body": Guard(
        "finish_run",
        "(v_hold.refusal).code = 'run_ended' AND v_run.finish_hash = v_hash",
        "(v_hold.refusal).code = 'run_ended'",
        "table",
        "test_what_is_told",
        {"state": "completed"},
    ),
    "transition pairs at finish": Guard(
        "finish_run",
        "IF NOT EXISTS (SELECT FROM livebox.run_transitions t WHERE t.from_state = v_run.state AND t.to_state = v_end.state) THEN",
        "IF false THEN",
        "table",
        "test_what_is_told",
        {"state": "waiting"},
    ),
    "cancel: ended otherwise": Guard(
        "cancel_run",
        "v_run.finished_at IS NOT NULL THEN",
        "false THEN",
        "table",
        "test_what_is_told",
        {"state": "failed"},
    ),
    "transition_run: the version that was read": Guard(
        "transition_run",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "transition", "stale": "version"},
    ),
    "transition_run: the state that was read": Guard(
        "transition_run",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "transition", "stale": "state"},
    ),
    "count_step: the version that was read": Guard(
        "count_step",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "step", "stale": "version"},
    ),
    "count_step: the state that was read": Guard(
        "count_step",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "step", "stale": "state"},
    ),
    "add_followup: the version that was read": Guard(
        "add_followup",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "follow-up added", "stale": "version"},
    ),
    "add_followup: the state that was read": Guard(
        "add_followup",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "follow-up added", "stale": "state"},
    ),
    "set_followup: the version that was read": Guard(
        "set_followup",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "follow-up taken", "stale": "version"},
    ),
    "set_followup: the state that was read": Guard(
        "set_followup",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "follow-up taken", "stale": "state"},
    ),
    "claim_run: the version that was read": Guard(
        "claim_run",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "claim", "stale": "version"},
    ),
    "claim_run: the state that was read": Guard(
        "claim_run",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "claim", "stale": "state"},
    ),
    "ask_cancel: the version that was read": Guard(
        "ask_cancel",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "request to cancel", "stale": "version"},
    ),
    "ask_cancel: the state that was read": Guard(
        "ask_cancel",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "request to cancel", "stale": "state"},
    ),
    "show_stall: the version that was read": Guard(
        "show_stall",
        " AND r.version = p_run.version",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "stall", "stale": "version"},
    ),
    "show_stall: the state that was read": Guard(
        "show_stall",
        "AND r.state = p_run.state",
        "",
        "table",
        "test_row_that_is_read_too_early_writes_nothing",
        {"writer": "stall", "stale": "state"},
    ),
}


@pytest.mark.parametrize("name", GUARDS)
async def test_guard(stage: Stage, other: Database, name: str) -> None:
    guard = GUARDS[name]
    source = (FUNCTIONS / f"{guard.function}.sql").read_text()
    assert guard.text in source, "the guard is not there any more: say here what took its place"
    stage.sql(source.replace(guard.text, guard.instead, 1))
    test = getattr(importlib.import_module(f"tests.runs.test_lifecycle_{guard.module}"), guard.test)
    arguments: dict[str, Any] = {"stage": stage, **guard.arguments}
    if "other" in inspect.signature(test).parameters:
        arguments["other"] = other
    try:
        await test(**arguments)
    except Exception:
        return
    except pytest.fail.Exception:
        return
    pytest.fail(f"{guard.test} passes without: {name}")
