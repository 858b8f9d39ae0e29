"""What the database itself holds of registered runs, whoever asks."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

WRITE_ONCE = {
    "id": fresh(), "external_id": "x", "intent": "x", "task": "x", "user_dims": '{"team": "x"}', "mode": "x", "parent_span": "x",
    "registered_at": "2020-01-01Z", "started_at": "2100-01-01Z", "queued_at": "2020-01-01Z", "budget": '{"tokens": 1}',
    "reported_started_at": "2020-01-01Z", "trigger_kind": "message", "billing_mode_expected": "personal",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(stage: Stage) -> dict[str, Any]:
    """A registered run about which much was reported."""
    made = stage.registered(agents=["texter"], external_id=fresh(), intent="a", task="b", mode="c", parent_span="d",
                            user_dims={"team": "e"}, started_at="2026-01-01T00:00:00Z", budget={"tokens": 10**6})  # fmt: skip
    lotse = stage.as_("lotse")
    lotse.call("updateRun", {"steps": 3, "governance_events": [{"a": 1}, {"b": 2}]}, run_id=made["id"]).ok()
    lotse.call(
        "recordSpend", {"amount_micros": 5, "currency": "EUR", "tokens": 4}, run_id=made["id"], entry_id=fresh()
    ).ok()
    found: dict[str, Any] = lotse.call("getRun", run_id=made["id"]).ok()
    return found


def refused(stage: Stage, statement: str, *values: object) -> str:
    """The SQLSTATE with which a plain statement is refused."""
    with pytest.raises(psycopg2.Error) as caught:
        stage.sql(statement, *values)
    return str(caught.value.pgcode)


RAISED = "version = version_reserved + 1, version_reserved = version_reserved + 1"


@pytest.mark.parametrize("column", WRITE_ONCE)
def test_what_is_written_once(stage: Stage, run: dict[str, Any], column: str) -> None:
    code = refused(
        stage, f"UPDATE livebox.runs SET {column} = %s, {RAISED} WHERE id = %s", WRITE_ONCE[column], run["id"]
    )
    assert code == "LB104", "it is refused for being written once"


@pytest.mark.parametrize("column", ["agent_id", "registered_by"])
def test_who_is_in_it(stage: Stage, run: dict[str, Any], column: str) -> None:
    update = f"UPDATE livebox.runs SET {column} = %s, {RAISED} WHERE id = %s"
    assert refused(stage, update, stage.id("texter"), run["id"]) == "LB104"


def test_who_reports(stage: Stage, run: dict[str, Any]) -> None:
    update = f"UPDATE livebox.runs SET agents = agents || %s::uuid, {RAISED} WHERE id = %s"
    assert refused(stage, update, stage.id("assistent"), run["id"]) == "LB104"
    other = stage.registered()["id"]
    update = f"UPDATE livebox.runs SET parent_run_id = %s, {RAISED} WHERE id = %s"
    assert refused(stage, update, other, run["id"]) == "LB104"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("spend_entries = spend_entries - 1", "LB111"),
        ("spend_tokens = spend_tokens - 1", "LB111"),
        ("cost_micros = cost_micros - 1", "LB111"),
        ("currency = 'USD'", "LB111"),
        ("reported_steps = '{}'", "LB111"),
        ("reported_steps = jsonb_set(reported_steps, ARRAY[agent_id::text], '2')", "LB111"),
        ("governance_events = governance_events - 1", "LB111"),
        ('governance_events = \'[{"b": 2}, {"a": 1}]\'', "LB111"),
        ("governance_events = '[{\"c\": 3}]' || governance_events", "LB111"),
        ("governance_events = NULL", "LB111"),
        ("governance_events = governance_events || '[null]'", "23514"),
        ("reported_ended_at = '2026-01-01Z'", "23514"),
        ("cost_micros = -1", "LB111"),
        ("spend_tokens = NULL", "LB111"),
        ("invocation_jti = gen_random_uuid()", "23514"),
        ("halt_reason = repeat('x', 1001)", "23514"),
        ("steps_are = 1", "42703"),
    ],
)
def test_what_is_only_added_to(stage: Stage, run: dict[str, Any], change: str, code: str) -> None:
    assert refused(stage, f"UPDATE livebox.runs SET {change}, {RAISED} WHERE id = %s", run["id"]) == code
    assert stage.as_("lotse").call("getRun", run_id=run["id"]).ok() == run


@pytest.mark.parametrize("change", ["reported_steps = '{}'", "detector = 'x'", "spend_entries = spend_entries + 1"])
def test_a_change_that_counts_raises_the_version(stage: Stage, run: dict[str, Any], change: str) -> None:
    assert refused(stage, f"UPDATE livebox.runs SET {change} WHERE id = %s", run["id"]) in ("LB102", "LB111")


@pytest.mark.parametrize(
    "statement",
    ["UPDATE livebox.run_spend SET amount_micros = 0", "DELETE FROM livebox.run_spend", "TRUNCATE livebox.run_spend"],
)
def test_the_ledger_is_append_only(stage: Stage, run: dict[str, Any], statement: str) -> None:
    assert refused(stage, statement) == "LB001"
    assert refused(stage, "DELETE FROM livebox.runs WHERE id = %s", run["id"]) == "23503", "nor does it go with its run"


def insert(stage: Stage, run_id: str, agent: str, amount: int = 1, currency: str = "EUR") -> str:
    """The SQLSTATE with which an entry is refused."""
    return refused(
        stage,
        "INSERT INTO livebox.run_spend (run_id, id, agent_id, amount_micros, currency, recorded_by)"
        " VALUES (%s, gen_random_uuid(), %s, %s, %s, %s)",
        run_id, stage.id(agent), amount, currency, stage.id(agent),
    )  # fmt: skip


def test_an_entry_belongs_to_its_run(stage: Stage, run: dict[str, Any]) -> None:
    assert insert(stage, run["id"], "assistent") == "LB110"
    assert insert(stage, run["id"], "lotse", currency="USD") == "LB110"
    assert insert(stage, stage.queued()["id"], "lotse") == "LB110"
    assert insert(stage, run["id"], "lotse", -1) == "23514"
    assert insert(stage, run["id"], "lotse", 2**53) == "23514"
    assert insert(stage, run["id"], "lotse", currency="eur") in ("23514", "LB110")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("detector = 'x'", "LB103"),
        ("halt_reason = 'x'", "LB103"),
        ("governance_events = '[{\"a\": 1}]'", "LB103"),
        ("reported_ended_at = '2026-01-01Z'", "LB103"),
        ("last_progress_at = last_progress_at + interval '1 s'", "LB103"),
        ("finished_at = finished_at + interval '1 s'", "LB103"),
        ("state = 'running'", "LB101"),
    ],
)
def test_an_ended_one_is_final_but_for_what_comes_late(stage: Stage, change: str, code: str) -> None:
    run = stage.registered()
    stage.as_("lotse").call("updateRun", {"status": "completed"}, run_id=run["id"]).ok()
    assert refused(stage, f"UPDATE livebox.runs SET {change}, {RAISED} WHERE id = %s", run["id"]) == code


def test_a_chat_run_has_none_of_it(stage: Stage) -> None:
    opened = stage.queued()["id"]
    for change in (
        "spend_entries = 1, cost_micros = 1, currency = 'EUR', cost_is_estimate = false",
        "detector = 'x'",
        "reported_steps = '{}'",
    ):
        assert refused(stage, f"UPDATE livebox.runs SET {change}, {RAISED} WHERE id = %s", opened) == "23514"
