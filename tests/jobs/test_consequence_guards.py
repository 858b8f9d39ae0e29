"""Each guard of the consequences is taken away, and the test that holds it has to fail.

What tests/jobs/test_watch_guards.py does for deadlines is done here for changes of rights and places.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.jobs import test_consequences as steps
from tests.runs import test_consequences as ends
from tests.runs.stage import Stage

FUNCTIONS = Path(__file__).resolve().parents[2] / "db" / "functions"


class Guard(NamedTuple):
    """What of which function is replaced by what, and the test that must then fail, with its arguments."""

    function: str
    text: str
    instead: str
    test: Callable[..., Any]
    arguments: Mapping[str, Any] = {}


def undone(change: str) -> Mapping[str, str]:
    """The arguments of the test that undoes a change in time."""
    return {"change": change, "scene": "running"}


GUARDS = {
    "disabling is noted": Guard(
        "update_principal",
        "v_new.status = 'disabled' AND",
        "false AND",
        ends.test_a_disabled_person_ends_their_runs_only,
    ),
    "read-only is noted": Guard(
        "update_channel",
        "IF v_new.read_only AND NOT v_old.read_only THEN",
        "IF false THEN",
        ends.test_read_only_ends_the_runs_of_its_channel,
    ),
    "only read-only is noted": Guard(
        "update_channel",
        "IF v_new.read_only AND NOT v_old.read_only THEN",
        "IF true THEN",
        ends.test_other_changes_of_a_channel_end_nothing,
    ),
    "revoking is noted": Guard(
        "revoke_access",
        "livebox.note_consequence(",
        "jsonb_build_array(",
        ends.test_a_grant_on_a_space_ends_what_it_alone_let_see,
    ),
    "leaving a group is noted": Guard(
        "set_group_member",
        "IF NOT p_in THEN\n            v_effects",
        "IF false THEN\n            v_effects",
        ends.test_leaving_a_group_ends_what_it_let_see,
    ),
    "deleting ends the run": Guard(
        "delete_thread", "IF v_run.id IS NOT NULL", "IF false", ends.test_a_deleted_thread_ends_its_run
    ),
    "moving is noted": Guard(
        "move_thread",
        "v_effects := livebox.note_consequence('access_revoked'",
        "v_effects := jsonb_build_array('access_revoked'",
        ends.test_a_thread_that_moves_takes_its_run_along,
    ),
    "moving to where nobody writes is noted": Guard(
        "move_thread",
        "IF (SELECT c.read_only FROM livebox.channels c WHERE c.id = v_target) THEN",
        "IF false THEN",
        ends.test_each_change_ends_a_run_in_each_state,
        {"change": "thread moved to a read-only channel", "scene": "waiting"},
    ),
    "still disabled": Guard(
        "consequence_holds",
        "WHERE p.status = 'disabled'\n",
        "WHERE true\n",
        ends.test_what_is_undone_in_time_ends_nothing,
        undone("person disabled"),
    ),
    "still read-only": Guard(
        "consequence_holds",
        "RETURN v_place.read_only;",
        "RETURN true;",
        ends.test_what_is_undone_in_time_ends_nothing,
        undone("channel read-only"),
    ),
    "still not readable": Guard(
        "consequence_holds",
        "AND livebox.authorize(p_run.triggered_by, 'message.read', jsonb_build_object('thread_id', p_run.thread_id)) IS NOT NULL",
        "",
        ends.test_what_is_undone_in_time_ends_nothing,
        undone("grant revoked"),
    ),
    "a disabled person lost no right": Guard(
        "consequence_holds", "AND p.status = 'active')", ")", ends.test_a_disabled_person_lost_no_right
    ),
    "only whom it concerns": Guard(
        "apply_consequence",
        "(v_row.principal_id IS NULL\n",
        "(true\n",
        steps.test_a_step_looks_at_few_and_ends_fewer,
    ),
    "few at once": Guard(
        "apply_consequence",
        "EXIT WHEN v_judged = (p_args->>'most')::bigint;",
        "",
        steps.test_a_step_looks_at_few_and_ends_fewer,
    ),
    "one that cannot be ended stops nobody": Guard(
        "apply_consequence",
        "EXCEPTION WHEN OTHERS THEN",
        "EXCEPTION WHEN division_by_zero THEN",
        steps.test_a_run_that_cannot_be_ended_stops_nobody_else,
        {"chunk": 100},
    ),
    "one that could not be ended is tried again": Guard(
        "apply_consequence",
        "ELSIF v_row.failed > 0 THEN",
        "ELSIF false THEN",
        steps.test_a_run_that_cannot_be_ended_stops_nobody_else,
        {"chunk": 2},
    ),
    "it is the server's alone": Guard(
        "system_operation", "'apply_consequence', ", "", ends.test_nobody_asks_for_a_consequence
    ),
    "an agent hears that its thread is gone": Guard(
        "authorize_run",
        "OR v_run.state_reason = 'thread_deleted'",
        "",
        ends.test_each_change_ends_a_run_in_each_state,
        {"change": "thread deleted", "scene": "running"},
    ),
    "and nothing else of it": Guard(
        "authorize_run",
        "v_run.state_reason = 'thread_deleted'",
        "true",
        ends.test_an_agent_of_a_thread_that_is_gone_learns_no_more_than_the_end,
    ),
}


@pytest.mark.parametrize("name", GUARDS)
async def test_guard(stage: Stage, name: str) -> None:
    guard = GUARDS[name]
    source = (FUNCTIONS / f"{guard.function}.sql").read_text()
    assert guard.text in source, "the guard is not there any more: say here what took its place"
    stage.sql(source.replace(guard.text, guard.instead))
    given = {"stage": stage, **guard.arguments}
    if "crowd" in inspect.signature(guard.test).parameters:
        given["crowd"] = ends.Crowd(stage)
        await given["crowd"].come()
    arguments = {parameter: given[parameter] for parameter in inspect.signature(guard.test).parameters}
    try:
        await guard.test(**arguments)
    except Exception:
        return
    pytest.fail(f"{guard.test.__name__} passes without: {name}")
