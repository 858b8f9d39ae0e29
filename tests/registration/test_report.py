"""What may change of a registered run is an explicit list; everything else stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import until
from tests.fixtures.wire import Answered, absent, fresh

ENDS = ("completed", "failed", "cancelled")
ACTIVE = ("queued", "running", "waiting_input")
WRITE_ONCE = {
    "run_id": fresh(),
    "agent_id": fresh(),
    "agents": [],
    "external_id": "x",
    "intent": "x",
    "task": "x",
    "user_dims": {"team": "other"},
    "mode": "x",
    "parent_run_id": fresh(),
    "parent_span": "x",
    "registered_at": "2026-01-01T00:00:00Z",
    "registered_by": fresh(),
    "started_at": "2026-01-01T00:00:00Z",
    "budget": {"tokens": 10**9},
}
READ_ONLY = {
    "state": "completed",
    "version": 9,
    "step_count": 5,
    "cost": {},
    "thread_id": fresh(),
    "headline": "x",
    "id_": 1,
}


def report(stage: Stage, run: dict[str, Any] | str, body: Any, by: str = "lotse", **more: Any) -> Answered:
    """updateRun by somebody."""
    return stage.as_(by).call("updateRun", body, run_id=run if isinstance(run, str) else run["id"], **more)


def in_state(stage: Stage, state: str) -> dict[str, Any]:
    """A registered run that has come to this state."""
    run = stage.registered(agents=["texter"], state="queued" if state == "queued" else "running")
    if state not in ("queued", "running"):
        body = {"status": state} | ({"halt_reason": "runtime_error"} if state == "failed" else {})
        run = report(stage, run, body).ok()
    assert run["state"] == state
    return run


@pytest.mark.parametrize("name", WRITE_ONCE)
def test_what_is_written_once_is_refused_and_nothing_is_applied(stage: Stage, name: str) -> None:
    run = stage.registered(agents=["texter"])
    for by in ("lotse", "texter", OWNER):
        body = {"steps": 4, "detector": "loop guard", name: WRITE_ONCE[name]}
        refused = report(stage, run, body, by).refused(400, "validation_failed")
        assert refused.errors() == [("field_write_once", f"/{name}")]
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


@pytest.mark.parametrize("name", READ_ONLY)
def test_what_is_not_on_the_list_is_unknown_and_nothing_is_applied(stage: Stage, name: str) -> None:
    run = stage.registered()
    refused = report(stage, run, {"steps": 4, name: READ_ONLY[name]}).refused(400, "validation_failed")
    assert refused.errors() == [("unknown_field", f"/{name}")]
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({}, "too_few", ""),
        ({"steps": -1}, "out_of_range", "/steps"),
        ({"steps": 1.5}, "wrong_type", "/steps"),
        ({"cost_micros": -1}, "out_of_range", "/cost_micros"),
        ({"cost_micros": "1"}, "wrong_type", "/cost_micros"),
        ({"status": "paused"}, "not_allowed_value", "/status"),
        ({"status": "failed", "halt_reason": "\u00a0"}, "blank", "/halt_reason"),
        ({"status": "failed"}, "required", "/halt_reason"),
        ({"detector": "a\u0007b"}, "invalid_text", "/detector"),
        ({"ended_at": "2026-11-02T09:30:00Z"}, "not_allowed_value", "/ended_at"),
        ({"status": "waiting_input", "ended_at": "2026-11-02T09:30:00Z"}, "not_allowed_value", "/ended_at"),
        ({"governance_events": []}, "too_few", "/governance_events"),
        ({"governance_events": [{"a": [None]}]}, "null_not_allowed", "/governance_events/0/a/0"),
        ({"governance_events": [{"a": 1}, {"a": "x" * 20_000}]}, "too_long", "/governance_events/1"),
    ],
)
def test_bad_reports_name_their_place(stage: Stage, body: Any, code: str, pointer: str) -> None:
    run = stage.registered()
    refused = report(stage, run, {**body, "steps": 4} if body and "steps" not in body else body)
    assert (code, pointer) in refused.refused(400, "validation_failed").errors()
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


def test_reports_add_up(stage: Stage) -> None:
    run = stage.registered(agents=["texter"])
    report(stage, run, {"steps": 3, "governance_events": [{"kind": "checked"}]}).ok()
    report(stage, run, {"steps": 4}, "texter").ok()
    found = report(
        stage, run, {"cost_micros": 7, "detector": "loop guard", "governance_events": [{"kind": "kept"}]}, OWNER
    ).ok()
    assert found["reported_steps"] == {stage.id("lotse"): 3, stage.id("texter"): 4}
    assert found["governance_events"] == [{"kind": "checked"}, {"kind": "kept"}]
    assert found["cost"] == {"amount_micros": 7, "currency": "USD", "is_estimate": True}
    assert (found["detector"], found["version"], found["step_count"]) == ("loop guard", 4, 0)
    again = report(stage, run, {"steps": 2}, "texter").ok()
    assert again == found, "a count never falls, and what changes nothing raises nothing"
    types = [
        event[0]
        for event in stage.sql("SELECT type FROM livebox.events WHERE resource_id = %s ORDER BY seq", run["id"])
    ]
    assert types == ["run.registered", "run.state_changed", "run.changed", "run.changed", "run.changed"]


def test_a_repeat_with_its_key_adds_nothing(stage: Stage) -> None:
    run = stage.registered()
    key = {"Idempotency-Key": fresh()}
    first = report(stage, run, {"governance_events": [{"kind": "checked"}]}, headers=key).ok()
    assert report(stage, run, {"governance_events": [{"kind": "checked"}]}, headers=key).ok() == first
    report(stage, run, {"governance_events": [{"kind": "x"}]}, headers=key).refused(409, "idempotency_key_reused")
    assert len(report(stage, run, {"steps": 1}).ok()["governance_events"]) == 1


def test_governance_events_are_bounded(stage: Stage) -> None:
    run = stage.registered()
    for _ in range(5):
        report(stage, run, {"governance_events": [{"n": n} for n in range(100)]}).ok()
    refused = report(stage, run, {"governance_events": [{"n": 1}]}).refused(400, "validation_failed")
    assert refused.errors() == [("too_many", "/governance_events")]


@pytest.mark.parametrize("to", [*ACTIVE, *ENDS])
@pytest.mark.parametrize("state", [*ACTIVE, *ENDS])
def test_status_goes_through_the_states_of_a_run(stage: Stage, state: str, to: str) -> None:
    ((allowed,),) = stage.sql(
        "SELECT count(*) FROM livebox.run_transitions WHERE from_state = %s AND to_state = %s", state, to
    )
    run = in_state(stage, state)
    body = {"status": to} | ({"halt_reason": "runtime_error"} if to == "failed" else {})
    answer = report(stage, run, body)
    if allowed:
        assert answer.ok()["state"] == to
        assert answer.ok()["version"] == run["version"] + 1
        assert answer.ok().get("state_reason") == {"failed": "runtime_error", "cancelled": "user_cancelled"}.get(to)
    elif state == to and to in ENDS:
        assert answer.ok() == run, "the same end again is no change"
    else:
        told = answer.refused(409, "run_ended" if state in ENDS else "invalid_state_transition")
        assert told.body["current"]["state"] == state
        assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


@pytest.mark.parametrize("to", ENDS)
def test_only_the_entry_agent_and_the_registrar_end_it(stage: Stage, to: str) -> None:
    body = {"status": to, "halt_reason": "budget_exhausted"} if to == "failed" else {"status": to}
    for by in ("lotse", OWNER):
        run = stage.registered(agents=["texter"])
        report(stage, run, {**body, "steps": 5}, "texter").refused(403, "status_not_yours")
        assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run
        ended = report(stage, run, body, by).ok()
        assert ended["state"] == to
        report(stage, run, body, "texter").refused(403, "status_not_yours")
        if to == "cancelled":
            assert ended["cancel"]["outcome"] == ("acknowledged" if by == "lotse" else "forced")
    going = stage.registered(agents=["texter"])
    assert report(stage, going, {"status": "waiting_input"}, "texter").ok()["state"] == "waiting_input"
    assert report(stage, going, {"status": "running"}, "texter").ok()["state"] == "running"


def test_why_it_failed_is_normalised(stage: Stage) -> None:
    known = report(stage, stage.registered(), {"status": "failed", "halt_reason": "budget_exhausted"}).ok()
    assert (known["state_reason"], known["halt_reason"]) == ("budget_exhausted", "budget_exhausted")
    for made_up in ("stale", "the model looped"):
        run = report(
            stage, stage.registered(), {"status": "failed", "halt_reason": made_up, "detector": "loop guard"}
        ).ok()
        assert (run["state_reason"], run["halt_reason"], run["detector"]) == ("adapter_error", made_up, "loop guard")
        (step,) = run["steps"].values()
        assert (step["name"], step["detail"]) == ("adapter_reason", {"original_reason": made_up})
    before = stage.registered()
    report(stage, before, {"halt_reason": "runtime_error"}).ok()
    assert report(stage, before, {"status": "failed"}).ok()["state_reason"] == "runtime_error"


def test_after_the_end_only_counts_of_steps_come(stage: Stage) -> None:
    run = stage.registered(agents=["texter"])
    last = {
        "status": "completed", "steps": 3, "cost_micros": 9, "ended_at": "2026-11-02T09:40:00Z",
        "governance_events": [{"kind": "closed"}],
    }  # fmt: skip
    ended = report(stage, run, last).ok()
    assert ended["reported_ended_at"] == "2026-11-02T09:40:00.000000Z"
    assert ended["finished_at"] > ended["reported_ended_at"]
    assert report(stage, run, last).ok() == ended, "the repeat of a lost answer"
    for late in (
        {"cost_micros": 10}, {"halt_reason": "x"}, {"detector": "x"}, {"ended_at": "2026-11-02T09:41:00Z"},
        {"governance_events": [{"kind": "late"}]}, {"status": "failed", "halt_reason": "x"}, {"status": "running"},
        {"steps": 8, "detector": "x"},
    ):  # fmt: skip
        report(stage, run, late).refused(409, "run_ended")
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == ended
    late = report(stage, run, {"steps": 4}, "texter").ok()
    assert late["reported_steps"] == {stage.id("lotse"): 3, stage.id("texter"): 4}
    assert late["version"] == ended["version"] + 1
    (last_event,) = stage.sql(
        "SELECT type FROM livebox.events WHERE resource_id = %s ORDER BY seq DESC LIMIT 1", run["id"]
    )
    assert last_event == ("run.changed",)
    step = stage.as_("texter").call(
        "recordRunStep", {"kind": "tool", "name": "x", "status": "completed"}, run_id=run["id"], step_id=fresh()
    )
    assert step.ok()["ordinal"] == 1
    after = stage.as_(OWNER).call("getRun", run_id=run["id"]).ok()
    assert (after["step_count"], after["last_progress_at"]) == (1, ended["last_progress_at"])


def test_what_nobody_registered_is_not_there_and_not_made(stage: Stage) -> None:
    opened = stage.queued()
    before = stage.sql("SELECT count(*) FROM livebox.runs")
    told = []
    for run_id in (fresh(), absent(), opened["id"], stage.registered(agent="texter")["id"]):
        reports = ({"steps": 1}, {"status": "completed"})
        told += [report(stage, run_id, body).refused(404, "not_found").body for body in reports]
        spend = {"amount_micros": 1, "currency": "EUR"}
        told.append(
            stage.as_("lotse")
            .call("recordSpend", spend, run_id=run_id, entry_id=fresh())
            .refused(404, "not_found")
            .body
        )
        if run_id != opened["id"]:
            stage.as_("lotse").call("getRunSpend", run_id=run_id).refused(404, "not_found")
    assert (
        len({frozenset((name, str(body[name])) for name in ("type", "title", "status", "code")) for body in told}) == 1
    )
    assert stage.sql("SELECT count(*) FROM livebox.runs")[0][0] == before[0][0] + 1, "only the one made here"


CONTROL = {
    "startRun": {}, "heartbeatRun": {}, "renewInvocationToken": {}, "resumeRun": {}, "ackFollowup": {},
    "awaitRunInput": {"prompt": "Which week?"}, "finishRun": {"state": "completed"},
    "patchRun": {"base_version": 1, "ops": [{"op": "add", "path": "/headline", "value": "x"}]},
}  # fmt: skip


@pytest.mark.parametrize("operation", CONTROL)
def test_run_control_says_that_the_run_is_a_registered_one(stage: Stage, operation: str) -> None:
    assert set(CONTROL) == {
        one.id for one in OPERATIONS.values() if one.module == "run_control" and one.security == "invocation"
    }
    run = stage.registered(agents=["texter"])
    path = {"run_id": run["id"]} | ({"message_id": absent()} if operation == "ackFollowup" else {})
    other = stage.claimed()
    for headers in ({}, other.headers, {"Livebox-Invocation": "nonsense"}):
        for who in ("lotse", "texter", OWNER):
            told = stage.as_(who).call(operation, CONTROL[operation], headers=headers, **path)
            assert told.refused(409, "run_is_registered").body["current"]["state"] == "running"
        stage.as_("assistent").call(operation, CONTROL[operation], headers=headers, **path).refused(
            401, "invalid_token"
        )
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


def test_a_step_of_a_registered_run_with_a_token_is_told_that_it_needs_none(stage: Stage) -> None:
    run = stage.registered(agents=["texter"])
    step, body = fresh(), {"kind": "tool", "name": "read_folder"}
    stage.as_("texter").call("recordRunStep", body, run_id=run["id"], step_id=step).ok()
    for token in ("", "nonsense"):
        for operation, with_ in (("recordRunStep", body), ("updateRunStep", {"status": "completed"})):
            answer = stage.as_("texter").call(
                operation, with_, headers={"Livebox-Invocation": token}, run_id=run["id"], step_id=step
            )
            answer.refused(409, "run_is_registered")


def test_steps_of_a_thread_still_need_their_token(stage: Stage) -> None:
    held = stage.running()
    body = {"kind": "tool", "name": "read_folder"}
    for who in ("lotse", OWNER, "alex"):
        answer = stage.as_(who).call("recordRunStep", body, run_id=held.id, step_id=fresh())
        answer.refused(*((401, "invalid_token") if who == "lotse" else (403, "forbidden")))
    step = stage.step(held)
    stage.as_("lotse").call("updateRunStep", {"status": "completed"}, run_id=held.id, step_id=step["id"]).refused(
        401, "invalid_token"
    )


def test_who_records_its_steps(stage: Stage) -> None:
    run = stage.registered(agents=["texter"], user_id="alex")
    body = {"kind": "tool", "name": "read_folder"}
    made = [
        stage.as_(who).call("recordRunStep", body, run_id=run["id"], step_id=fresh()).ok()["id"]
        for who in ("lotse", "texter", OWNER)
    ]
    for who, told in (("alex", (403, "forbidden")), ("sam", (404, "not_found")), ("assistent", (404, "not_found"))):
        stage.as_(who).call("recordRunStep", body, run_id=run["id"], step_id=fresh()).refused(*told)
        ended = {"status": "completed"}
        stage.as_(who).call("updateRunStep", ended, run_id=run["id"], step_id=made[0]).refused(*told)
    steps = stage.as_("alex").call("getRun", run_id=run["id"]).ok()["steps"]
    assert {step["id"]: step["status"] for step in steps.values()} == dict.fromkeys(made, "running")


def test_who_may_cancel_it(stage: Stage) -> None:
    stage.principal("service", "registrar")
    for by in ("registrar", "alex", OWNER):
        for state in ACTIVE:
            run = stage.registered(
                "registrar", agents=["texter"], user_id="alex", state="queued" if state == "queued" else "running"
            )
            if state == "waiting_input":
                report(stage, run, {"status": state}).ok()
            for other in ("lotse", "texter"):
                stage.as_(other).call("cancelRun", {}, run_id=run["id"]).refused(403, "forbidden")
            stage.as_("sam").call("cancelRun", {}, run_id=run["id"]).refused(404, "not_found")
            answer = stage.as_(by).call("cancelRun", {}, run_id=run["id"])
            assert answer.status == 200, "at once"
            ended = answer.ok()
            assert (ended["state"], ended["state_reason"]) == ("cancelled", "user_cancelled")
            assert (
                ended["cancel"]["outcome"]
                == {"queued": "before_start", "running": "forced", "waiting_input": "while_waiting"}[state]
            )
            assert stage.as_(by).call("cancelRun", {}, run_id=run["id"]).ok() == ended
            report(stage, run, {"status": "completed"}).refused(409, "run_ended")


def test_cancelling_a_parent_leaves_its_children_to_themselves(stage: Stage) -> None:
    for mix in (("running", "running"), ("queued", "running"), ("completed", "queued"), ("waiting_input", "failed")):
        parent = stage.registered()
        below = []
        above = parent["id"]
        for state in mix:
            run = stage.registered(parent_run_id=above, state="queued" if state == "queued" else "running")
            if state not in ("queued", "running"):
                body = {"status": state} | ({"halt_reason": "x"} if state == "failed" else {})
                run = report(stage, run, body).ok()
            below.append(run)
            above = run["id"]
        assert stage.as_(OWNER).call("cancelRun", {}, run_id=parent["id"]).ok()["state"] == "cancelled"
        for run in below:
            assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


def test_its_agent_disabled_ends_it(stage: Stage) -> None:
    agent = stage.principal("agent")
    run = stage.registered(agent=agent)
    stage.as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(agent)).ok()
    until(lambda: stage.as_(OWNER).call("getRun", run_id=run["id"]).ok()["state"] == "cancelled")
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok()["state_reason"] == "agent_disabled"


def test_times_of_any_offset_are_taken(stage: Stage) -> None:
    run = stage.registered(started_at="2026-11-01T10:19:00-23:11")
    assert run["reported_started_at"] == "2026-11-02T09:30:00.000000Z"
    body = {"status": "completed", "ended_at": "2026-11-03T09:34:00+23:59"}
    for _ in range(2):
        ended = stage.as_("lotse").call("updateRun", body, run_id=run["id"]).ok()
        assert ended["reported_ended_at"] == "2026-11-02T09:35:00.000000Z"
