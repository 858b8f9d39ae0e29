"""Start, steps and finish under the invocation token."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.runs.stage import LIMITS, Stage, Work

COST = {"amount_micros": 4200, "currency": "EUR", "is_estimate": True}


async def operations(stage: Stage, work: Work) -> dict[str, Any]:
    """Each operation of run control, with a body that would pass."""
    step = str(uuid.uuid4())
    return {
        "start_run": {},
        "finish_run": {"body": {"state": "completed"}},
        "record_run_step": {"step_id": step, "body": {"kind": "tool", "name": "read"}},
        "update_run_step": {"step_id": step, "body": {"title": "x"}},
    }


# Start ---------------------------------------------------------------------------------------------------------------


async def test_start(stage: Stage) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    stage.mark()
    outcome = await stage.start(work, model="example-model", billing_mode_used="organization", billing_evidence="key")
    run = outcome.body
    assert (run["state"], run["version"], run["model"]) == ("running", 2, "example-model")
    assert run["started_at"] >= run["claimed_at"] >= run["queued_at"]
    assert "finished_at" not in run
    assert "duration_ms" not in run
    assert outcome.answer.version == 2
    assert stage.event_types() == ["run.state_changed running", "message.updated working"]
    (row,) = stage.runs(message["thread_id"])
    assert (row["started_jti"], row["billing_evidence"]) == (work.invocation["jti"], "key")
    assert row["state_changed_by"] == stage.id("lotse")
    (effect,) = outcome.effects
    assert (effect["kind"], effect["from"], effect["to"]) == ("run.transition", "queued", "running")
    assert (effect["agent"], effect["billing_mode"]) == ("lotse", "organization")
    assert effect["queued_s"] >= 0
    assert "duration_s" not in effect


async def test_repeated_start_replays(stage: Stage) -> None:
    await stage.queued()
    (work,) = await stage.claim("lotse")
    first = await stage.start(work, model="a")
    stage.mark()
    again = await stage.start(work, model="a")
    assert (again.code, again.body, again.effects) == ("ok", first.body, [])
    other = await stage.start(work, model="b")
    assert other.code == "invalid_state_transition"
    assert other.body["current"]["state"] == "running"
    assert stage.written() == {}


async def test_other_holder_of_a_started_run(stage: Stage) -> None:
    """A second claim of a started run comes only with resuming; until then its row is made by hand."""
    _, work = await stage.working()
    jti, claim = str(uuid.uuid4()), str(uuid.uuid4())
    stage.sql("UPDATE livebox.runs SET invocation_jti = %s, claim_id = %s WHERE id = %s", jti, claim, work.run_id)
    other = Work("lotse", {"run_id": work.run_id, "jti": jti, "claim_id": claim}, {})
    outcome = await stage.start(other)
    assert (outcome.code, outcome.body["current"]["state"]) == ("already_started", "running")
    for operation, args in (await operations(stage, work)).items():
        refused = await stage.control(operation, work, **args)
        assert refused.code == "invocation_superseded"


# Who may ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("who", "code"), [("alex", "forbidden"), ("sam", "not_found"), ("texter", "not_found")])
async def test_only_the_agent_controls(stage: Stage, who: str, code: str) -> None:
    _, work = await stage.working(channel="Support/General")
    if who == "sam":
        stage.sql("DELETE FROM livebox.group_members")
    stage.mark()
    for operation, args in (await operations(stage, work)).items():
        outcome = await stage.write(operation, who, run_id=work.run_id, invocation=work.invocation, **args)
        assert (outcome.code, outcome.body) == (code, None)
        absent = await stage.write(operation, who, run_id=str(uuid.uuid4()), invocation=work.invocation, **args)
        assert (absent.code, absent.body) == ("not_found", None)
    assert stage.written() == {}


async def test_token_of_another_run(stage: Stage) -> None:
    _, work = await stage.working()
    _, other = await stage.working()
    for operation, args in (await operations(stage, work)).items():
        outcome = await stage.write(operation, "lotse", run_id=work.run_id, invocation=other.invocation, **args)
        assert outcome.code == "invalid_token"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_after_the_end_everything_is_refused_and_changes_nothing(stage: Stage, end: str) -> None:
    message, work = await stage.working()
    if end == "cancelled":
        await stage.cancel("alex", work.run_id)
    await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    before = stage.runs(message["thread_id"])
    document = (await stage.run("alex", work.run_id)).answer.body
    stage.mark()
    for operation, args in (await operations(stage, work)).items():
        if operation == "finish_run":
            args = {"body": {"state": "completed", "summary": "late"}}
        outcome = await stage.control(operation, work, **args)
        assert outcome.code == "run_ended"
        current = outcome.body["current"]
        assert (current["state"], current["allowed"], current["version"]) == (end, [], before[0]["version"])
        assert current["changed_by"] == stage.id("lotse")
    assert stage.written() == {}
    assert stage.runs(message["thread_id"]) == before
    assert (await stage.run("alex", work.run_id)).answer.body == document


async def test_conflict_explains_itself_to_who_may_read(stage: Stage) -> None:
    _, work = await stage.working(channel="Support/Escalation", agent="texter")
    await stage.finish(work)
    assert "current" in (await stage.start(work)).body
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("texter"))
    outcome = await stage.start(work)
    assert (outcome.code, outcome.body) == ("run_ended", None)


# Finish -------------------------------------------------------------------------------------------------------------


async def test_completed(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.step(work)
    stage.mark()
    outcome = await stage.finish(
        work, summary="done", cost=COST, metrics={"tool_calls": 3}, billing_mode_used="personal", billing_evidence="x"
    )
    run = outcome.body
    assert (run["state"], run["summary"], run["cost"], run["metrics"]) == ("completed", "done", COST, {"tool_calls": 3})
    assert "state_reason" not in run
    assert run["finished_at"] >= run["started_at"]
    assert run["duration_ms"] >= 0
    assert (run["version"], run["step_count"]) == (4, 1)
    (step,) = run["steps"].values()
    assert (step["status"], step["finished_at"]) == ("completed", run["finished_at"])
    assert stage.event_types() == ["run.state_changed completed", "message.updated done"]
    stored = stage.message(message["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"], stored["version"]) == ("done", None, 5)
    (effect,) = outcome.effects
    assert (effect["from"], effect["to"], effect["billing_mode"]) == ("running", "completed", "personal")
    assert effect["duration_s"] >= 0
    assert "reason" not in effect
    assert "queued_s" not in effect


async def test_repeated_finish_replays(stage: Stage) -> None:
    _, work = await stage.working()
    first = await stage.finish(work, summary="done")
    stage.mark()
    again = await stage.finish(work, summary="done")
    assert (again.code, again.body, again.effects) == ("ok", first.body, [])
    assert stage.written() == {}
    assert (await stage.finish(work, summary="other")).code == "run_ended"
    assert (await stage.finish(work, "failed", reason="runtime_error")).code == "run_ended"


async def test_end_by_others_is_no_repeat(stage: Stage) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    await stage.cancel("alex", work.run_id)
    outcome = await stage.finish(work, "cancelled")
    assert outcome.code == "run_ended"
    assert outcome.body["current"]["changed_by"] == stage.id("alex")
    assert stage.message(message["id"])["trigger_state"] == "cancelled"


@pytest.mark.parametrize(("state", "end"), [("queued", "completed"), ("waiting_input", "completed")])
async def test_end_that_the_state_does_not_allow(stage: Stage, state: str, end: str) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    if state == "waiting_input":
        await stage.start(work)
        stage.wait(work.run_id)
    before = stage.runs(message["thread_id"])
    stage.mark()
    outcome = await stage.finish(work, end)
    assert outcome.code == "invalid_state_transition"
    assert outcome.body["current"]["state"] == state
    assert "failed" in outcome.body["current"]["allowed"]
    assert stage.written() == {}
    assert stage.runs(message["thread_id"]) == before


async def test_failed_before_the_start_has_no_duration(stage: Stage) -> None:
    await stage.queued()
    (work,) = await stage.claim("lotse")
    outcome = await stage.finish(work, "failed", reason="invalid_invocation_token")
    run = outcome.body
    assert (run["state"], run["state_reason"]) == ("failed", "invalid_invocation_token")
    assert "started_at" not in run
    assert "duration_ms" not in run
    assert run["finished_at"] >= run["queued_at"]
    (effect,) = outcome.effects
    assert effect["queued_s"] >= 0
    assert "duration_s" not in effect


ADAPTER = ["billing_mode_mismatch", "tool_class_mismatch", "invalid_invocation_token", "runtime_not_authenticated",
           "runtime_error", "adapter_error", "budget_exhausted"]  # fmt: skip


@pytest.mark.parametrize("reason", ADAPTER)
async def test_reason_that_an_adapter_may_give(stage: Stage, reason: str) -> None:
    message, work = await stage.working()
    stage.mark()
    run = (await stage.finish(work, "failed", reason=reason)).body
    assert (run["state_reason"], run["step_count"]) == (reason, 0)
    assert "steps" not in run
    stored = stage.message(message["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("failed", reason)
    assert stage.written() == {"events": 2}


@pytest.mark.parametrize(
    "reason",
    ["something else", "stale", "interrupted", "agent_unavailable", "user_cancelled", "no_trigger_right",
     "Runtime_error", "followup_limit", " runtime_error", "a" * 100_000],
)  # fmt: skip
async def test_reason_that_an_adapter_may_not_give(stage: Stage, reason: str) -> None:
    _, work = await stage.working()
    stage.mark()
    run = (await stage.finish(work, "failed", reason=reason)).body
    assert (run["state_reason"], run["step_count"]) == ("adapter_error", 1)
    (step,) = run["steps"].values()
    assert (step["kind"], step["name"], step["status"]) == ("status", "adapter_reason", "failed")
    assert reason.startswith(step["detail"]["original_reason"])
    assert stage.written() == {"events": 2, "run_steps": 1}


@pytest.mark.parametrize("letter", ["a", "ä", "€", "🍸", '"', "\\"])
async def test_long_reason_is_cut_between_characters(stage: Stage, letter: str) -> None:
    _, work = await stage.working()
    (step,) = (await stage.finish(work, "failed", reason=letter * 3000)).body["steps"].values()
    kept = step["detail"]["original_reason"]
    assert kept == letter * len(kept)
    sizes = [
        stage.sql("SELECT octet_length(jsonb_build_object('original_reason', %s::text)::text) AS n", letter * count)[0][
            "n"
        ]
        for count in (len(kept), len(kept) + 1)
    ]
    assert sizes[0] <= LIMITS["run.step_detail_max_bytes"] < sizes[1]


@pytest.mark.parametrize("reason", ["a\u202eb", "a\u2066b", "a\u200fb", "a\nb", "a\u0007b", "a\u0085b", "\u061cx"])
async def test_control_and_bidi_reason_is_not_kept(stage: Stage, reason: str) -> None:
    _, work = await stage.working()
    run = (await stage.finish(work, "failed", reason=reason)).body
    assert run["state_reason"] == "adapter_error"
    (step,) = run["steps"].values()
    assert (step["name"], step["detail"]) == ("adapter_reason", {})


@pytest.mark.parametrize("reason", ["", " ", "\t", "\u200b", "\u00a0", "\u3000", "\u2007\u2003 \n", "\ufeff", "\u1680"])
async def test_blank_reason_is_refused(stage: Stage, reason: str) -> None:
    _, work = await stage.working()
    stage.mark()
    outcome = await stage.finish(work, "failed", reason=reason)
    assert outcome.code == "validation_failed"
    assert outcome.body["errors"][0]["pointer"] == "/reason"
    assert stage.written() == {}
    assert (await stage.run("alex", work.run_id)).body["state"] == "running"
    assert (await stage.finish(work, "failed", reason="runtime_error")).code == "ok"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"state": "failed"}, "required"),
        ({"state": "completed", "reason": "runtime_error"}, "not_allowed_value"),
        ({"state": "cancelled", "reason": "runtime_error"}, "not_allowed_value"),
    ],
)
async def test_reason_fits_the_state(stage: Stage, body: dict[str, Any], code: str) -> None:
    _, work = await stage.working()
    outcome = await stage.control("finish_run", work, body)
    assert outcome.code == "validation_failed"
    (error,) = outcome.body["errors"]
    assert (error["code"], error["pointer"]) == (code, "/reason")


async def test_cancelled_counts_only_when_it_was_asked_for(stage: Stage) -> None:
    _, work = await stage.working()
    run = (await stage.finish(work, "cancelled")).body
    assert (run["state"], run["state_reason"]) == ("failed", "adapter_error")
    (step,) = run["steps"].values()
    assert step["detail"] == {"original_reason": "cancelled"}
    assert "cancel" not in run


# Steps ---------------------------------------------------------------------------------------------------------------


async def test_steps_get_ordinals_and_raise_the_version(stage: Stage) -> None:
    message, work = await stage.working()
    stage.mark()
    ids = [str(uuid.uuid4()) for _ in range(3)]
    for number, step_id in enumerate(ids, start=1):
        outcome = await stage.step(work, step_id, title=f"Step {number}", detail={"n": number})
        step = outcome.body
        assert (step["id"], step["run_id"], step["ordinal"]) == (step_id, work.run_id, number)
        assert (step["status"], step["title"], step["detail"]) == ("running", f"Step {number}", {"n": number})
    (run,) = stage.runs(message["thread_id"])
    assert (run["version"], run["step_count"]) == (5, 3)
    assert run["last_progress_at"] >= run["started_at"]
    assert stage.written() == {"run_steps": 3}  # steps are no events
    page = (await stage.read("list_run_steps", "alex", run_id=work.run_id, limit=2)).answer
    assert page.cursor == {"ordinal": 2}
    document = (await stage.run("alex", work.run_id)).body
    assert [document["steps"][step_id]["ordinal"] for step_id in ids] == [1, 2, 3]


async def test_repeated_step_is_recorded_once(stage: Stage) -> None:
    message, work = await stage.working()
    step_id = str(uuid.uuid4())
    first = await stage.step(work, step_id, title="x")
    stage.mark()
    again = await stage.step(work, step_id, title="x", status="running")  # the default said aloud
    assert again.body == first.body
    reused = await stage.step(work, step_id, title="y")
    assert reused.code == "step_id_reused"
    assert stage.written() == {}
    assert stage.runs(message["thread_id"])[0]["version"] == 3
    await stage.control("update_run_step", work, {"status": "completed"}, step_id=step_id)
    late = await stage.step(work, step_id, title="x")
    assert late.body["status"] == "completed"  # as it is now


async def test_finished_step(stage: Stage) -> None:
    _, work = await stage.working()
    outcome = await stage.step(work, status="failed", detail={"error": "x"})
    assert outcome.body["finished_at"] == outcome.body["started_at"]
    assert outcome.body["duration_ms"] == 0


async def test_parent_is_a_step_of_the_run(stage: Stage) -> None:
    _, work = await stage.working()
    _, other = await stage.working()
    parent, elsewhere = str(uuid.uuid4()), str(uuid.uuid4())
    await stage.step(work, parent)
    await stage.step(other, elsewhere)
    assert (await stage.step(work, parent_step_id=parent)).body["parent_step_id"] == parent
    for wrong in (elsewhere, str(uuid.uuid4())):
        outcome = await stage.step(work, parent_step_id=wrong)
        assert outcome.body["errors"][0]["pointer"] == "/parent_step_id"
    own = str(uuid.uuid4())
    assert (await stage.step(work, own, parent_step_id=own)).code == "validation_failed"


async def test_detail_is_bounded(stage: Stage) -> None:
    _, work = await stage.working()
    outcome = await stage.step(work, detail={"a": "x" * 1024})
    assert outcome.body["errors"][0]["pointer"] == "/detail"
    step_id = str(uuid.uuid4())
    await stage.step(work, step_id)
    outcome = await stage.control("update_run_step", work, {"detail": {"a": "x" * 1024}}, step_id=step_id)
    assert outcome.body["errors"][0]["pointer"] == "/detail"


async def test_queued_run_takes_no_steps(stage: Stage) -> None:
    await stage.queued()
    (work,) = await stage.claim("lotse")
    outcome = await stage.step(work)
    assert (outcome.code, outcome.body["current"]["state"]) == ("invalid_state_transition", "queued")


async def test_update_of_a_step(stage: Stage) -> None:
    message, work = await stage.working()
    step_id = str(uuid.uuid4())
    await stage.step(work, step_id, title="before", detail={"a": 1})
    stage.mark()
    update = {"title": "after", "status": "completed"}
    step = (await stage.control("update_run_step", work, update, step_id=step_id)).body
    assert (step["title"], step["status"], step["detail"]) == ("after", "completed", {"a": 1})
    assert step["duration_ms"] >= 0
    (run,) = stage.runs(message["thread_id"])
    assert (run["version"], run["step_count"]) == (4, 1)
    repeat = await stage.control("update_run_step", work, update, step_id=step_id)
    assert (repeat.code, repeat.body) == ("ok", step)
    assert stage.runs(message["thread_id"])[0]["version"] == 4
    for change in ({"title": "late"}, {"status": "running"}, {"status": "failed"}, {"detail": {}}):
        outcome = await stage.control("update_run_step", work, change, step_id=step_id)
        assert outcome.code == "step_finished"
    absent = await stage.control("update_run_step", work, update, step_id=str(uuid.uuid4()))
    assert absent.code == "not_found"
    assert stage.written() == {}


async def test_end_closes_running_steps(stage: Stage) -> None:
    _, work = await stage.working()
    done, open_ = str(uuid.uuid4()), str(uuid.uuid4())
    await stage.step(work, done, status="completed")
    await stage.step(work, open_)
    run = (await stage.finish(work, "failed", reason="runtime_error")).body
    assert run["steps"][done]["status"] == "completed"
    assert (run["steps"][open_]["status"], run["steps"][open_]["finished_at"]) == ("failed", run["finished_at"])
