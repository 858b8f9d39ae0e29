"""Each guard of the watch is taken away, and the test that holds it has to fail.

What tests/runs/test_lifecycle_guards.py does for the operations of a run's life is done here for its deadlines.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from db import Database
from tests.jobs.test_availability import asked, nothing
from tests.jobs.test_deadlines import moves_elsewhere
from tests.jobs.test_interrupted import beats_elsewhere
from tests.jobs.watch import CANCEL, STALE, Watch

FUNCTIONS = Path(__file__).resolve().parents[2] / "db" / "functions"
OUTAGE = {"prepare": nothing, "deadline": STALE, "end": ("failed", "stale")}
ASKED = {"prepare": asked, "deadline": CANCEL, "end": ("cancelled", "cancel_timeout")}


class Guard(NamedTuple):
    """What of which function is replaced by what, and the test that must then fail: module, name and arguments."""

    function: str
    text: str
    instead: str
    module: str
    test: str
    arguments: Mapping[str, Any] = {}


GUARDS = {
    "judged again under its lock": Guard(
        "reap_run", " FOR NO KEY UPDATE;", ";", "races", "test_a_sign_that_is_being_written_is_waited_for"
    ),
    "judged by what its row says": Guard(
        "reap_run",
        "v_cause := livebox.reap_cause(v_run, livebox.clock(), v_limits);",
        "v_cause := 'silent';",
        "races",
        "test_a_fresh_sign_of_life_wins",
    ),
    "a run that is not there": Guard(
        "reap_run", "IF FOUND THEN", "IF true THEN", "races", "test_nothing_is_due_for_an_unknown_run"
    ),
    "delivery has a deadline": Guard(
        "reap_cause", "WHEN p_run.state = 'queued'\n", "WHEN false\n", "deadlines", "test_a_run_that_nobody_takes"
    ),
    "delivery counts from the queue": Guard(
        "reap_cause",
        "greatest(p_run.queued_at, v_since)",
        "greatest(p_run.queued_at, p_run.claimed_at, v_since)",
        "deadlines",
        "test_claims_do_not_delay_it",
        {"claims": [0, 70, 140, 210, 280]},
    ),
    "delivery waits for the service": Guard(
        "reap_cause",
        "greatest(p_run.queued_at, v_since)",
        "p_run.queued_at",
        "availability",
        "test_an_outage_takes_no_time_from_a_queued_run",
    ),
    "answers have a deadline": Guard(
        "reap_cause", "WHEN v_answered IS NOT NULL\n", "WHEN false\n", "deadlines", "test_an_answer_that_nobody_takes"
    ),
    "the oldest answer counts": Guard(
        "reap_cause",
        "SELECT min(f.answers_since)",
        "SELECT max(f.answers_since)",
        "deadlines",
        "test_an_answer_that_nobody_takes",
    ),
    "answers are told from follow-ups": Guard(
        "add_followup", "p_run.state = 'waiting_input'", "false", "deadlines", "test_an_answer_that_nobody_takes"
    ),
    "follow-ups are told from answers": Guard(
        "add_followup",
        "p_run.state = 'waiting_input'",
        "true",
        "deadlines",
        "test_a_follow_up_that_was_taken_before_the_question_is_no_answer",
    ),
    "an answer that was taken counts": Guard(
        "set_followup",
        "CASE WHEN p_state = 'delivered' THEN f.answers_since END",
        "NULL",
        "deadlines",
        "test_an_answer_that_was_taken_and_led_to_nothing",
    ),
    "an answer counts until it is heard": Guard(
        "transition_run",
        "IF p_run.state = 'waiting_input' THEN",
        "IF false THEN",
        "deadlines",
        "test_an_answer_that_was_heard_has_no_deadline",
    ),
    "silence has a deadline": Guard(
        "reap_cause",
        "WHEN livebox.reap_at('run.stale_after', greatest(v_heard, v_since), p_limits) <= p_now",
        "WHEN false",
        "deadlines",
        "test_a_run_that_falls_silent",
    ),
    "signs of life count": Guard(
        "reap_cause",
        "greatest(p_run.last_heartbeat_at, p_run.last_progress_at, p_run.state_changed_at)",
        "greatest(p_run.last_progress_at, p_run.state_changed_at)",
        "deadlines",
        "test_what_this_process_heard_counts_however_it_is_judged",
    ),
    "silence waits for the service": Guard(
        "reap_cause",
        "greatest(v_heard, v_since)",
        "v_heard",
        "availability",
        "test_an_outage_takes_no_time_from_a_run",
        OUTAGE,
    ),
    "a closed session has a deadline": Guard(
        "reap_cause",
        "WHEN p_run.session_closed_at >= v_heard\n",
        "WHEN false\n",
        "interrupted",
        "test_a_run_whose_holder_left",
    ),
    "a sign after the session saves": Guard(
        "reap_cause",
        "WHEN p_run.session_closed_at >= v_heard\n",
        "WHEN p_run.session_closed_at IS NOT NULL\n",
        "interrupted",
        "test_a_sign_after_it_saves_the_run",
        {"sign": beats_elsewhere},
    ),
    "leaving waits for the service": Guard(
        "reap_cause",
        "greatest(p_run.session_closed_at, v_since)",
        "p_run.session_closed_at",
        "interrupted",
        "test_an_outage_takes_no_time_from_who_comes_back",
    ),
    "a session that comes back saves": Guard(
        "save_presence",
        "CASE WHEN NOT g.open THEN now.at - make_interval(secs => g.age) END",
        "CASE WHEN NOT g.open THEN now.at - make_interval(secs => g.age) ELSE r.session_closed_at END",
        "interrupted",
        "test_a_session_that_comes_back_saves_the_run",
    ),
    "only the present claim's sessions count": Guard(
        "save_presence",
        "WHERE r.id = l.id AND g.run_id = l.id AND g.claim_id = l.claim_id",
        "WHERE r.id = l.id AND g.run_id = l.id",
        "interrupted",
        "test_a_claim_that_changes_under_it_counts_for_nothing",
    ),
    "an ended run takes no presence": Guard(
        "save_presence",
        "           AND r.state IN ('queued', 'running', 'waiting_input')\n    ), locked",
        "    ), locked",
        "interrupted",
        "test_of_an_ended_run_nothing_is_written",
    ),
    "a new claim has no session yet": Guard(
        "claim_run",
        "session_closed_at = NULL",
        "session_closed_at = r.session_closed_at",
        "interrupted",
        "test_a_new_claim_begins_anew",
    ),
    "a waiting run is never stale": Guard(
        "reap_cause",
        "WHEN p_run.state <> 'running' THEN NULL",
        "WHEN p_run.state = 'queued' THEN NULL",
        "deadlines",
        "test_a_waiting_run_is_never_stale",
    ),
    "registered runs have no deadline": Guard(
        "reap_cause",
        "AND (p_limits->>'registered.stale_after')::double precision > 0",
        "",
        "deadlines",
        "test_registered_runs_have_none_of_these",
        {"state": "running"},
    ),
    "but one that may be chosen": Guard(
        "reap_cause",
        "livebox.reap_at('registered.stale_after', greatest(v_moved, v_since), p_limits) <= p_now",
        "false",
        "deadlines",
        "test_a_registered_run_is_given_up_where_that_is_wanted",
    ),
    "a cancel has a deadline": Guard(
        "reap_cause",
        "p_run.cancel_deadline <= p_now",
        "false",
        "deadlines",
        "test_a_request_to_cancel_that_is_not_answered",
    ),
    "a cancel waits for the service": Guard(
        "reap_cause",
        "livebox.reap_at('run.cancel_timeout', v_since, p_limits) <= p_now",
        "true",
        "availability",
        "test_an_outage_takes_no_time_from_a_run",
        ASKED,
    ),
    "a stall shows": Guard(
        "reap_cause",
        "WHEN p_run.stalled_since IS NULL\n",
        "WHEN false\n",
        "deadlines",
        "test_a_run_that_beats_and_does_not_move",
    ),
    "a stall is told": Guard(
        "show_stall",
        "PERFORM livebox.run_event('run.changed', v_run, NULL);",
        "",
        "deadlines",
        "test_a_run_that_beats_and_does_not_move",
    ),
    "a stall counts": Guard(
        "show_stall",
        "version = p_run.version_reserved + 1,",
        "version = p_run.version,",
        "deadlines",
        "test_a_run_that_beats_and_does_not_move",
    ),
    "progress takes a stall away": Guard(
        "reap_cause",
        "WHEN p_run.last_progress_at > p_run.stalled_since",
        "WHEN false",
        "deadlines",
        "test_a_stall_ends_with_progress",
        {"moves": moves_elsewhere},
    ),
    "one looks at a time": Guard(
        "reap_due", "NOT pg_try_advisory_xact_lock(7813573131204158317)", "false", "races", "test_one_looks_at_a_time"
    ),
    "nothing is looked at after an outage": Guard(
        "reap_due",
        "livebox.service_since(v_now, p_limits) + v_time > v_now",
        "false",
        "availability",
        "test_after_an_outage_nothing_is_even_looked_at",
    ),
    "away until somebody says so": Guard(
        "service_since",
        "THEN p_now ELSE",
        "THEN s.available_since ELSE",
        "availability",
        "test_an_outage_takes_no_time_from_a_run",
        OUTAGE,
    ),
    "a gap makes it now": Guard(
        "touch_service",
        "< v_now THEN v_now\n",
        "< v_now THEN v_before.available_since\n",
        "availability",
        "test_a_longer_one_makes_it_now",
    ),
    "only a gap does": Guard(
        "touch_service",
        "SET available_since = CASE WHEN v_before.touched_at + make_interval(secs => p_gap) < v_now THEN",
        "SET available_since = CASE WHEN true THEN",
        "availability",
        "test_short_gaps_move_nothing",
    ),
    "the first says since when": Guard(
        "touch_service", " FOR UPDATE;", ";", "availability", "test_the_first_that_returns_says_since_when"
    ),
    "a clock that goes back": Guard(
        "touch_service",
        "greatest(v_before.touched_at, v_now)",
        "v_now",
        "availability",
        "test_a_clock_that_goes_back_a_little_opens_no_gap",
    ),
    "a clock that came back": Guard(
        "touch_service",
        "v_before.touched_at > v_now + make_interval(secs => p_gap)",
        "false",
        "availability",
        "test_a_clock_that_came_back_from_ahead_leaves_no_deadline_waiting",
    ),
    "renewal after an outage": Guard(
        "renew_invocation_token",
        "greatest('0', livebox.service_since(livebox.clock(), p_args->'limits') - v_end)",
        "interval '0'",
        "availability",
        "test_a_token_that_expired_in_an_outage_can_still_be_renewed",
    ),
    "the server's operations are nobody else's": Guard(
        "perform",
        "IF caller ? 'system' OR livebox.system_operation(op) THEN",
        "IF caller ? 'system' THEN",
        "system",
        "test_nobody_else_may",
        {"operation": "reap_run", "who": "owner"},
    ),
    "the server may nothing else": Guard(
        "perform",
        "caller ? 'system' AND livebox.system_operation(op)",
        "caller ? 'system'",
        "system",
        "test_it_may_nothing_else",
        {"operation": "cancel_run"},
    ),
}


@pytest.mark.parametrize("name", GUARDS)
async def test_guard(watch: Watch, db_of_another: Database, name: str) -> None:
    guard = GUARDS[name]
    source = (FUNCTIONS / f"{guard.function}.sql").read_text()
    assert guard.text in source, "the guard is not there any more: say here what took its place"
    watch.stage.sql(source.replace(guard.text, guard.instead))
    test = getattr(importlib.import_module(f"tests.jobs.test_{guard.module}"), guard.test)
    given = {"watch": watch, "db_of_another": db_of_another, **guard.arguments}
    arguments = {parameter: given[parameter] for parameter in inspect.signature(test).parameters}
    try:
        await test(**arguments)
    except Exception:
        return
    pytest.fail(f"{guard.test} passes without: {name}")
