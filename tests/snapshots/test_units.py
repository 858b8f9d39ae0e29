"""Every owner's record becomes one neutral shape: what is held for good outranks what is said, and nothing is made up."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated.models import AgentRunSnapshot
from generated.validators import checker
from handlers import units
from handlers.shape import STATES, Unit, is_active, is_paused, is_terminal
from handlers.units import KINDS, PublishedRecord, RunRecord
from tests.fixtures.wire import walk
from tests.snapshots.records import (
    DOCUMENTS,
    ENDED_AT,
    RUN,
    STEP,
    publications,
    published,
    run,
    runs,
    unit,
)

FITS = checker("/schemas/AgentRunSnapshot")
KINDS_OF = pytest.mark.parametrize("kind", KINDS)


def of(record: RunRecord, live: dict[str, Any] | None = None) -> dict[str, AgentRunSnapshot]:
    """The snapshots of a run and its units, by the part of their ids after that of the run."""
    return {
        one.snapshot["run_id"].removeprefix(RUN).removeprefix(":"): one.snapshot for one in units.units(record, live)
    }


# the states


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_exactly_one_of_terminal_active_and_paused(state: Any) -> None:
    assert [is_terminal(state), is_active(state), is_paused(state)].count(True) == 1
    assert is_terminal(state) == (state == "terminal")
    assert is_paused(state) == (state == "paused")


def test_there_are_nine_states() -> None:
    assert len(set(STATES)) == 9
    assert not any(checker("/schemas/UnitState")(state) for state in STATES)


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (run("queued"), "queued"),
        (run("queued", claimed=True), "initializing"),
        (run("running"), "running"),
        (run("running", document={"waiting_on": "model"}), "waiting_model"),
        (run("running", document={"waiting_on": "provider_retry"}), "waiting_model"),
        (run("running", document={"waiting_on": "rate_limit"}), "waiting_model"),
        (run("running", document={"waiting_on": "tool"}), "waiting_tool"),
        (run("running", document={"waiting_on": "child"}), "waiting_tool"),
        (run("running", cancel_asked=True, document={"waiting_on": "tool"}), "stopping"),
        (run("waiting_input", document={"waiting_on": "tool"}), "waiting_input"),
        (run("queued", document={"waiting_on": "tool"}), "queued"),
        (run("completed", document={"waiting_on": "tool"}), "terminal"),
        (run("failed", cancel_asked=True), "terminal"),
        (run("cancelled"), "terminal"),
    ],
)
@pytest.mark.parametrize("registered", [False, True])
def test_states_of_runs(record: RunRecord, state: str, registered: bool) -> None:
    record = {**record, "registered": registered}
    (whole,) = units.units(record)
    assert (whole.snapshot["state"], whole.snapshot["source"]) == (state, "fleet" if registered else "task")


@pytest.mark.parametrize(
    ("state", "reason", "outcome"),
    [
        ("completed", None, "completed"),
        ("failed", "runtime_error", "failed"),
        ("failed", "adapter_error", "failed"),
        ("failed", "stale", "interrupted"),
        ("failed", "interrupted", "interrupted"),
        ("failed", "budget_exhausted", "budget_exhausted"),
        ("failed", "agent_unavailable", "failed"),
        ("cancelled", "user_cancelled", "cancelled"),
        ("cancelled", "cancel_timeout", "cancelled"),
    ],
)
def test_outcomes(state: str, reason: str | None, outcome: str) -> None:
    more = {"state_reason": reason} if reason else {}
    terminal = of(run(state, **more))[""]["terminal"]
    assert (terminal["outcome"], terminal["ended_at_ms"]) == (outcome, ENDED_AT)
    assert terminal.get("detail") == (reason.replace("_", " ") if reason else None)


# durable outranks live

LAGGING: dict[str, Any] = {
    "waiting_on": "tool",
    "metrics": {"input_tokens": 1, "output_tokens": 1},
    "refs": {"a": {"kind": "artifact", "reference": "old"}},
    "subagents": {"a": unit("running"), "late": unit("running")},
}


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_a_lagging_live_entry_never_hides_the_end_of_a_run(state: str) -> None:
    record = run(state, document={"subagents": {"a": unit("running")}})
    assert of(record, LAGGING) == of(record)
    assert {snapshot["state"] for snapshot in of(record, LAGGING).values()} == {"terminal"}


@KINDS_OF
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_lagging_live_entry_never_hides_the_end_of_a_step(kind: str, state: str, status: str) -> None:
    record = run(steps={STEP: {"status": status, "ended_at_ms": 5, "duration_ms": 3, "title": "Read it"}})
    live = {kind: {"a": unit(state, step_id=STEP, tokens_used=9)}}
    assert of(record, live)[f"{kind}:a"] == {
        "run_id": f"{RUN}:{kind}:a",
        "parent": RUN,
        "source": KINDS[kind],
        "state": "terminal",
        "terminal": {"outcome": status, "ended_at_ms": 5, "detail": "Read it"},
        "budget": {"duration_ms": 3},
    }


@KINDS_OF
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("queued", "running"),
        ("initializing", "running"),
        ("running", "running"),
        ("waiting_model", "waiting_model"),
        ("waiting_tool", "waiting_tool"),
        ("waiting_input", "waiting_input"),
        ("paused", "paused"),
        ("stopping", "stopping"),
        ("terminal", "running"),
    ],
)
def test_live_refines_what_its_step_still_has_under_way(kind: str, said: str, shown: str) -> None:
    record = run(steps={STEP: {"status": "running"}}, document={kind: {"a": unit(said, step_id=STEP, tokens_used=4)}})
    snapshot = of(record)[f"{kind}:a"]
    assert (snapshot["state"], snapshot["budget"]) == (shown, {"tokens_used": 4})


@KINDS_OF
@pytest.mark.parametrize("said", STATES)
def test_a_unit_without_a_step_is_live_while_its_run_is(kind: str, said: str) -> None:
    document = {kind: {"a": unit(said)}}
    shown = of(run(document=document)).get(f"{kind}:a")
    assert (shown and shown["state"]) == (None if said == "terminal" else said)
    over = of(run("failed", state_reason="stale", document=document)).get(f"{kind}:a")
    assert (over and over["terminal"]) == (
        None if said == "terminal" else {"outcome": "interrupted", "ended_at_ms": ENDED_AT}
    )


def test_a_step_that_the_end_of_the_run_closed_has_its_outcome() -> None:
    row = {"status": "failed", "ended_at_ms": ENDED_AT, "with_run": True}
    document = {"jobs": {"a": unit(step_id=STEP)}}
    record = run("failed", state_reason="budget_exhausted", document=document, steps={STEP: row})
    assert of(record)["jobs:a"]["terminal"]["outcome"] == "budget_exhausted"
    row.pop("with_run")
    assert of(record)["jobs:a"]["terminal"]["outcome"] == "failed"


def test_a_late_step_that_runs_on_ends_with_its_run() -> None:
    document = {"jobs": {"a": unit(step_id=STEP)}}
    record = run("completed", registered=True, document=document, steps={STEP: {"status": "running"}})
    assert of(record)["jobs:a"]["terminal"] == {"outcome": "completed", "ended_at_ms": ENDED_AT}


def test_a_step_that_may_be_one_of_the_compacted_says_nothing() -> None:
    document = {"jobs": {"a": unit(step_id=STEP), "b": unit()}}
    assert set(of(run(document=document))) == {"", "jobs:a", "jobs:b"}
    assert set(of(run(document=document, compacted=True))) == {"", "jobs:b"}


def test_a_unit_hangs_below_the_one_whose_step_caused_its_own() -> None:
    other = STEP[:-1] + "2"
    document = {"workflows": {"w": unit(step_id=STEP)}, "subagents": {"a": unit(step_id=other)}}
    steps = {STEP: {"status": "running"}, other: {"status": "running", "parent_step_id": STEP}}
    found = of(run(document=document, steps=steps))
    assert found["subagents:a"]["parent"] == f"{RUN}:workflows:w"
    assert found["workflows:w"]["parent"] == RUN


def test_order_within_a_run() -> None:
    document = {kind: {"b": unit(), "a": unit()} for kind in ("workflows", "subagents", "jobs")}
    assert list(of(run(document=document))) == [
        "",
        *(f"{kind}:{key}" for kind in ("jobs", "subagents", "workflows") for key in "ab"),
    ]


@pytest.mark.parametrize("said", STATES)
@pytest.mark.parametrize("held", STATES)
def test_states_of_what_others_publish(held: str, said: str) -> None:
    shown = units.published(published(held, {"state": said})).snapshot["state"]
    allowed = {
        "queued": {"initializing", "stopping"},
        "initializing": {"paused", "stopping"},
        "running": {"waiting_model", "waiting_tool", "waiting_input", "paused", "stopping"},
        "waiting_input": {"stopping"},
    }
    assert shown == (said if said in allowed.get(held, ()) else held)


def test_live_of_what_others_publish_adds_and_moves_on() -> None:
    refs = [{"kind": "gate", "reference": "g"}]
    live = {
        "budget": {"tokens_used": 9, "max_steps": 99, "token_budget": 5},
        "refs": [*refs, {"kind": "artifact", "reference": "a"}],
    }
    record = published(budget={"tokens_used": 3, "max_steps": 10}, refs=refs, live=live)
    found = units.published(record)
    assert found.snapshot["budget"] == {"tokens_used": 9, "max_steps": 10, "token_budget": 5}
    assert [ref["reference"] for ref in found.snapshot["refs"]] == ["g", "a"]
    sides = {
        name: found.sides[name] for name in ("tokens_used", "max_steps", "token_budget", "budget", "refs", "state")
    }
    assert sides == {
        "tokens_used": "live",
        "max_steps": "durable",
        "token_budget": "live",
        "budget": "live",
        "refs": "live",
        "state": "durable",
    }


# only what is known


def test_budget_of_a_run() -> None:
    assert of(run("queued"))[""]["budget"] == {}
    metrics = {"metrics": {"input_tokens": 3, "output_tokens": 4}}
    assert of(run(document=metrics))[""]["budget"] == {"tokens_used": 7}
    assert of(run(document={"metrics": {"input_tokens": 3}}))[""]["budget"] == {}
    most = {"metrics": {"input_tokens": 2**53 - 1, "output_tokens": 1}}
    assert of(run(document=most))[""]["budget"] == {}
    record = run(
        "completed",
        registered=True,
        document=metrics,
        spent_tokens=40,
        token_budget=100,
        max_steps=5,
        step_count=2,
        duration_ms=0,
    )
    assert of(record)[""]["budget"] == {
        "token_budget": 100,
        "tokens_used": 40,
        "steps_taken": 2,
        "max_steps": 5,
        "duration_ms": 0,
    }


def test_references() -> None:
    ref = {"kind": "artifact", "reference": "reports/1", "label": "The report"}
    bad = {"kind": "artifact", "reference": "/etc/passwd", "label": "x"}
    told = {"kind": "artifact", "reference": "b", "label": "password=hunter2"}
    assert of(run(document={"refs": {"b": ref, "a": bad, "c": told}}))[""]["refs"] == [
        ref,
        {"kind": "artifact", "reference": "b"},
    ]
    assert "refs" not in of(run(document={"refs": {"a": bad}}))[""]
    assert "refs" not in of(run(document={"refs": {}}))[""]


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"summary": "12 files."}, "12 files."),
        ({"summary": "\n  12   files.\nThe rest is in the report."}, "12 files."),
        ({"summary": "password=hunter2", "halt_reason": "spent too much"}, "spent too much"),
        ({"summary": "password=hunter2"}, "runtime error"),
        ({"halt_reason": "a loop was found"}, "a loop was found"),
        ({"halt_reason": "a loop\nwas found"}, "runtime error"),
    ],
)
def test_detail_of_an_end(more: dict[str, str], detail: str) -> None:
    assert of(run("failed", **more))[""]["terminal"]["detail"] == detail


def test_no_detail_where_nothing_may_be_said() -> None:
    assert "detail" not in of(run("completed", summary="<think>hm</think> Done."))[""]["terminal"]
    terminal = {"outcome": "failed", "detail": "line\nline"}
    assert units.published(published("terminal", terminal=terminal)).snapshot["terminal"] == {"outcome": "failed"}


# the wire

GOLDEN = {
    "run": {
        "run_id": RUN,
        "parent": STEP,
        "source": "fleet",
        "state": "terminal",
        "budget": {"token_budget": 9, "tokens_used": 7, "steps_taken": 2, "max_steps": 3, "duration_ms": 4},
        "terminal": {"outcome": "completed", "ended_at_ms": ENDED_AT, "detail": "12 files."},
        "refs": [{"kind": "receipt", "reference": "r/1", "label": "Receipt"}],
        "provenance": {
            "run_id": "durable",
            "parent": "durable",
            "source": "durable",
            "state": "durable",
            "budget": "durable",
            "token_budget": "durable",
            "tokens_used": "durable",
            "steps_taken": "durable",
            "max_steps": "durable",
            "duration_ms": "durable",
            "terminal": "durable",
            "outcome": "durable",
            "ended_at_ms": "durable",
            "detail": "durable",
            "refs": "durable",
        },
    },
    "unit": {
        "run_id": f"{RUN}:subagents:a",
        "parent": RUN,
        "source": "direct",
        "state": "waiting_model",
        "budget": {"tokens_used": 5},
        "provenance": {
            "run_id": "live",
            "parent": "live",
            "source": "live",
            "state": "live",
            "budget": "live",
            "tokens_used": "live",
        },
    },
}


def test_names_on_the_wire() -> None:
    """They are what others read: a change here is a change of the contract."""
    whole = run(
        "completed",
        registered=True,
        parent_run_id=STEP,
        token_budget=9,
        spent_tokens=7,
        step_count=2,
        max_steps=3,
        duration_ms=4,
        summary="12 files.",
        document={"refs": {"r": {"kind": "receipt", "reference": "r/1", "label": "Receipt"}}},
    )
    (one,) = units.units(whole)
    _, sub = units.units(run(document={"subagents": {"a": unit("waiting_model", tokens_used=5)}}))
    found = {"run": one.explained(), "unit": sub.explained()}
    assert json.loads(msgspec.json.encode(found)) == GOLDEN
    assert "provenance" not in one.snapshot


def coherent(one: Unit) -> None:
    """What holds of every snapshot, whoever owns the unit."""
    shown = one.explained()
    assert not list(FITS(shown))
    assert (shown["state"] == "terminal") == ("terminal" in shown)
    assert json.loads(msgspec.json.encode(shown)) == shown
    for _, value in walk(shown):
        assert value is not None
        assert value not in ([], "")
    told = set(shown) - {"provenance"} | set(shown["budget"]) | set(shown.get("terminal", ()))
    assert set(one.sides) == told
    assert one.sides["state"] == "durable" or not is_terminal(shown["state"])
    for ref in shown.get("refs", ()):
        assert not ref["reference"].startswith(("/", "~", "C:"))
        assert "/../" not in ref["reference"]
        assert "@" not in ref["reference"].partition("://")[2]


@settings(max_examples=60, deadline=None)
@given(runs(), st.none() | DOCUMENTS)
def test_any_run(record: RunRecord, live: dict[str, Any] | None) -> None:
    found = list(units.units(record, live))
    for one in found:
        coherent(one)
    ids = [one.snapshot["run_id"] for one in found]
    assert len(set(ids)) == len(ids)
    assert [(one.kind, one.key) for one in found] == sorted((one.kind, one.key) for one in found)
    assert {one.snapshot["parent"] for one in found[1:]} <= set(ids)
    if "ended_at_ms" in record:
        assert {one.snapshot["state"] for one in found} == {"terminal"}
        assert found == list(units.units(record))
    else:
        assert found[0].snapshot["state"] != "terminal"


@settings(max_examples=80, deadline=None)
@given(publications())
def test_any_published_unit(record: PublishedRecord) -> None:
    found = units.published(record)
    coherent(found)
    if record["durable"]["state"] == "terminal":
        record = {"snapshot_id": record["snapshot_id"], "durable": record["durable"]}
        assert found == units.published(record)
