"""A run that no message opens is registered once, and stays as it was registered."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.wire import Wire, absent, fresh

FULL = {
    "external_id": "ticket/17",
    "intent": "weekly report",
    "task": "Collect what changed\nand write it up.",
    "mode": "supervised",
    "parent_span": "00f067aa0ba902b7",
    "started_at": "2026-11-02T10:30:00+01:00",
    "budget": {"tokens": 10, "steps": 3, "cost": {"amount_micros": 5, "currency": "EUR", "is_estimate": False}},
}


@pytest.fixture(scope="module")
def hook(stage: Stage) -> Wire:
    """A service that registers runs."""
    return stage.as_(stage.principal("service", "hook"))


def events_of(stage: Stage, run_id: str, who: str = OWNER) -> list[dict[str, Any]]:
    """What the log tells of a run."""
    found, after = [], 0
    while True:
        page = stage.as_(who).call("listEvents", query={"after": after, "limit": 1000}).ok()
        found += [event for event in page["items"] if event["resource"]["id"] == run_id]
        if not page["has_more"]:
            return found
        after = page["next_after"]


def test_everything_that_was_registered_is_shown(stage: Stage, hook: Wire) -> None:
    dims = {"user_id": stage.id("alex"), "team": "support"}
    agents = [stage.id("texter"), stage.id("lotse"), stage.id("assistent")]
    body = {**FULL, "run_id": fresh(), "agent_id": stage.id("lotse"), "agents": agents, "user_dims": dims}
    made = hook.call("registerRun", body)
    run = made.ok()
    assert made.status == 201
    assert made.headers["etag"] == '"1"'
    assert run == hook.call("getRun", run_id=body["run_id"]).ok()
    shown = {name: run[name] for name in (*FULL, "user_dims") if name not in ("started_at",)}
    assert shown == {**{name: FULL[name] for name in FULL if name != "started_at"}, "user_dims": dims}
    assert run["agents"] == [stage.id("lotse"), stage.id("texter"), stage.id("assistent")], "the entry agent is first"
    assert run["reported_started_at"] == "2026-11-02T09:30:00.000000Z"
    assert run["registered_by"] == stage.id("hook")
    assert run["started_at"] == run["queued_at"] == run["registered_at"] != run["reported_started_at"]
    assert (run["state"], run["version"], run["trigger_kind"]) == ("running", 1, "registration")
    assert not {"thread_id", "channel_id", "triggered_by"} & set(run)
    told = events_of(stage, run["id"])
    assert [event["type"] for event in told] == ["run.registered", "run.state_changed"]
    assert {event["payload"]["run"]["state"] for event in told} == {"running"}
    assert all(event["scope"] == {} for event in told)


def test_a_queued_one_begins_when_its_agent_says_so(stage: Stage, hook: Wire) -> None:
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "state": "queued"}
    run = hook.call("registerRun", body).ok()
    assert run["state"] == "queued"
    assert "started_at" not in run
    items = stage.as_("lotse").call("claimInvocations", {"claim_id": fresh(), "limit": 100}).ok()["items"]
    assert run["id"] not in [item["run"]["id"] for item in items], "nobody is handed a registered run"
    running = stage.as_("lotse").call("updateRun", {"status": "running"}, run_id=run["id"]).ok()
    assert running["started_at"] >= run["queued_at"]
    assert "duration_ms" not in running


def test_a_second_registration_is_refused_whatever_it_says(stage: Stage, hook: Wire) -> None:
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "intent": "first"}
    run = hook.call("registerRun", body).ok()
    for other in (
        body,
        {**body, "intent": "second"},
        {**body, "agent_id": absent()},
        {**body, "parent_run_id": fresh()},
    ):
        refused = hook.call("registerRun", other).refused(409, "run_already_registered")
        assert refused.body["current"]["version"] == 1
    stage.as_("assistent").call("registerRun", body).refused(409, "run_already_registered")
    assert "current" not in stage.as_("assistent").call("registerRun", body).body, "they may not read it"
    assert hook.call("getRun", run_id=run["id"]).ok() == run
    opened = stage.queued()
    hook.call("registerRun", {**body, "run_id": opened["id"]}).refused(409, "run_already_registered")
    assert stage.as_(OWNER).call("getRun", run_id=opened["id"]).ok()["trigger_kind"] == "message"
    assert len(events_of(stage, run["id"])) == 2


def test_the_same_key_answers_like_the_first_time(stage: Stage, hook: Wire) -> None:
    key = {"Idempotency-Key": fresh()}
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "task": "Write it up."}
    first = hook.call("registerRun", body, headers=key)
    again = hook.call("registerRun", raw=json.dumps(dict(reversed(body.items()))).encode(), headers=key)
    assert (again.status, again.ok()) == (201, first.ok())
    stage.as_("lotse").call("updateRun", {"status": "completed"}, run_id=body["run_id"]).ok()
    assert hook.call("registerRun", body, headers=key).ok()["state"] == "completed", "as it is now"
    hook.call("registerRun", {**body, "task": "x"}, headers=key).refused(409, "idempotency_key_reused")
    hook.call("registerRun", body).refused(409, "run_already_registered")


def test_of_many_at_once_one_registers(stage: Stage) -> None:
    body = {"run_id": fresh(), "agent_id": stage.id("lotse")}
    owner = stage.live.issue(OWNER)

    def register(number: int) -> tuple[int, str]:
        with Wire(stage.live.port, owner) as wire:
            answer = wire.call("registerRun", {**body, "intent": f"number {number}"})
            return answer.status, answer.code

    with ThreadPoolExecutor(16) as pool:
        found = sorted(pool.map(register, range(16)))
    assert found == [(201, ""), *[(409, "run_already_registered")] * 15]


def test_an_external_id_names_one_run(stage: Stage, hook: Wire) -> None:
    name = f"ticket/{fresh()}"
    body = {"agent_id": stage.id("lotse"), "external_id": name}
    hook.call("registerRun", {**body, "run_id": fresh()}).ok()
    second = fresh()
    hook.call("registerRun", {**body, "run_id": second}).refused(409, "external_id_taken")
    hook.call("getRun", run_id=second).refused(404, "not_found")


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"run_id": "x"}, "malformed_id", "/run_id"),
    ({"run_id": "0193A000-0000-4000-8000-0000000000D1"}, "malformed_id", "/run_id"),
    ({"agent_id": None}, "null_not_allowed", "/agent_id"),
    ({"state": "completed"}, "not_allowed_value", "/state"),
    ({"status": "running"}, "unknown_field", "/status"),
    ({"version": 7}, "unknown_field", "/version"),
    ({"registered_by": fresh()}, "unknown_field", "/registered_by"),
    ({"external_id": "two words"}, "pattern_mismatch", "/external_id"),
    ({"intent": "a\u202eb"}, "invalid_text", "/intent"),
    ({"task": ""}, "blank", "/task"),
    ({"mode": "\u3000"}, "blank", "/mode"),
    ({"user_dims": {}}, "too_few", "/user_dims"),
    ({"user_dims": {"team": {"name": None}}}, "null_not_allowed", "/user_dims/team/name"),
    ({"user_dims": {"team": 4}}, "wrong_type", "/user_dims/team"),
    ({"user_dims": {"__proto__": "x"}}, "invalid_value", "/user_dims/__proto__"),
    ({"started_at": "2026-11-02T09:30:00"}, "bad_time", "/started_at"),
    ({"budget": {}}, "too_few", "/budget"),
    ({"budget": {"tokens": 0}}, "out_of_range", "/budget/tokens"),
    ({"budget": {"steps": -1}}, "out_of_range", "/budget/steps"),
    ({"budget": {"tokens": "10"}}, "wrong_type", "/budget/tokens"),
    ({"budget": {"calls": 3}}, "unknown_field", "/budget/calls"),
]


@pytest.mark.parametrize(("more", "code", "pointer"), BAD, ids=[f"{code} {pointer}" for _, code, pointer in BAD])
def test_bad_input_names_its_place_and_registers_nothing(
    stage: Stage, hook: Wire, more: dict[str, Any], code: str, pointer: str
) -> None:
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "intent": "weekly report", **more}
    refused = hook.call("registerRun", body).refused(400, "validation_failed")
    assert (code, pointer) in refused.errors()
    if "run_id" not in more:
        hook.call("getRun", run_id=body["run_id"]).refused(404, "not_found")


def test_who_is_named_has_to_be_an_agent_that_works(stage: Stage, hook: Wire) -> None:
    gone = stage.principal("agent")
    stage.as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(gone)).ok()
    body = {"run_id": fresh(), "agent_id": stage.id("lotse")}
    unknown = {**body, "agent_id": absent(), "agents": [stage.id("texter"), stage.id("alex"), absent()]}
    refused = hook.call("registerRun", unknown).refused(400, "validation_failed")
    assert refused.errors() == [
        ("unknown_reference", "/agent_id"),
        ("unknown_reference", "/agents/1"),
        ("unknown_reference", "/agents/2"),
    ]
    refused = hook.call("registerRun", {**body, "agent_id": stage.id(gone)}).refused(400, "validation_failed")
    assert refused.errors() == [("not_allowed_value", "/agent_id")]
    hook.call("registerRun", body).ok()


def test_a_parent_is_one_that_the_registrar_may_read(stage: Stage, hook: Wire) -> None:
    mine = hook.call("registerRun", {"run_id": fresh(), "agent_id": stage.id("lotse")}).ok()
    hidden = stage.registered(agent="texter")["id"]
    body: dict[str, Any] = {"agent_id": stage.id("lotse")}
    own = fresh()
    told = []
    for parent in (hidden, fresh(), own, stage.queued()["id"]):
        refused = hook.call("registerRun", {**body, "run_id": own, "parent_run_id": parent}).refused(
            400, "validation_failed"
        )
        told.append({**refused.body, "request_id": ""})
    assert told == [told[0]] * 4, "hidden, absent and itself are told alike"
    assert told[0]["errors"][0]["pointer"] == "/parent_run_id"
    child = hook.call("registerRun", {**body, "run_id": fresh(), "parent_run_id": mine["id"]}).ok()
    assert child["parent_run_id"] == mine["id"]


def test_two_that_want_to_be_each_others_parent(stage: Stage) -> None:
    """Whoever comes first has no parent yet, so no loop can arise."""
    for _ in range(10):
        pair = [fresh(), fresh()]

        def register(number: int, pair: list[str] = pair) -> int:
            with Wire(stage.live.port, stage.live.issue(OWNER)) as wire:
                body = {"run_id": pair[number], "agent_id": stage.id("lotse"), "parent_run_id": pair[1 - number]}
                return wire.call("registerRun", body).status

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(register, range(2))) == [400, 400]


def test_who_sees_it(stage: Stage, hook: Wire) -> None:
    """Who registered it, its agents, the person it names, and owners; in every way in which runs are shown."""
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "agents": [stage.id("texter")]}
    run = hook.call("registerRun", {**body, "user_dims": {"user_id": stage.id("alex")}}).ok()
    for who in ("hook", "lotse", "texter", "alex", OWNER):
        assert stage.as_(who).call("getRun", run_id=run["id"]).ok() == run
        assert stage.as_(who).call("listRunSteps", run_id=run["id"]).ok() == {"items": []}
        assert len(events_of(stage, run["id"], who)) == 2
        active = stage.as_(who).call("getSnapshot").ok()["active_runs"]
        assert run["id"] in [summary["id"] for summary in active]
    for who in ("sam", "robin", "assistent"):
        stage.as_(who).call("getRun", run_id=run["id"]).refused(404, "not_found")
        stage.as_(who).call("getRunSpend", run_id=run["id"]).refused(404, "not_found")
        assert events_of(stage, run["id"], who) == []
        active = stage.as_(who).call("getSnapshot").ok()["active_runs"]
        assert run["id"] not in [summary["id"] for summary in active]
    for who, seen in (("alex", True), (OWNER, True), ("sam", False)):
        listed = stage.as_(who).call("listActiveRuns", query={"agent_id": stage.id("lotse")}).ok()["items"]
        assert (run["id"] in [summary["id"] for summary in listed]) == seen


def test_user_dims_may_name_nobody(stage: Stage, hook: Wire) -> None:
    body = {"run_id": fresh(), "agent_id": stage.id("lotse"), "user_dims": {"user_id": "somebody else's id"}}
    run = hook.call("registerRun", body).ok()
    assert run["user_dims"] == body["user_dims"]
    assert len(events_of(stage, run["id"])) == 2
