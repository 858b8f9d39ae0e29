"""What the database itself says of published units of work, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from db.embedded import Server
from tests.db.run_rows import Rows, Sql, refusal
from tests.fixtures.database import connect, fresh_database

END = {"state": "terminal", "terminal": {"outcome": "completed"}}


@pytest.fixture(scope="module")
def rows(server: Server, template: str) -> Iterator[Rows]:
    """A database of this module."""
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as connection:
        yield Rows(connection)


def unit(rows: Rows, said: dict[str, Any] | None = None, **columns: object) -> dict[str, Any]:
    """A new published unit, running unless it says otherwise."""
    made = {"source": "workflow", "state": "running", **(said or {})}
    given: dict[str, object] = {
        "owner_id": rows.agent,
        "snapshot_id": Sql("livebox.new_id()::text"),
        "source": made["source"],
        "ended": made["state"] == "terminal",
        "durable": json.dumps(made),
    }
    return rows.insert("agent_snapshots", **{**given, **columns})


@pytest.mark.parametrize(
    "change",
    [
        {"durable": json.dumps({"source": "workflow", "state": "running"}), "ended": False},
        {"durable": json.dumps({"source": "workflow", **END, "budget": {"steps_taken": 1}})},
        {"source": "fleet", "durable": json.dumps({"source": "fleet", **END})},
        {"updated_at": Sql("updated_at + interval '1 s'")},
        {"owner_id": Sql("gen_random_uuid()")},
    ],
)
def test_what_has_ended_is_final(rows: Rows, change: dict[str, object]) -> None:
    ended = unit(rows, END)["id"]
    before = rows.row("agent_snapshots", ended)
    assert refusal(lambda: rows.update("agent_snapshots", ended, **change)) == "LB130"
    assert refusal(lambda: rows.run_sql("DELETE FROM livebox.agent_snapshots WHERE id = %s", ended)) == "LB130"
    assert rows.row("agent_snapshots", ended) == before


def test_the_run_above_what_has_ended_may_go(rows: Rows) -> None:
    run = rows.run()
    ended = unit(rows, {**END, "parent": run}, parent=run, parent_run_id=run)["id"]
    other = rows.run()
    assert refusal(lambda: rows.update("agent_snapshots", ended, parent_run_id=other)) == "LB130"
    assert rows.update("agent_snapshots", ended, parent_run_id=None)["ended"]


@pytest.mark.parametrize("column", ["id", "owner_id", "snapshot_id", "created_at"])
def test_whose_it_is_stays(rows: Rows, column: str) -> None:
    made = unit(rows)["id"]
    value = {"owner_id": rows.person, "created_at": Sql("created_at - interval '1 s'"), "snapshot_id": "other"}.get(
        column, Sql("livebox.new_id()")
    )
    assert refusal(lambda: rows.update("agent_snapshots", made, **{column: value})) == "LB131"


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"durable": '{"source": "workflow", "state": "running", "parent": null}'}, "agent_snapshots_durable_object"),
        ({"durable": '"x"'}, "agent_snapshots_"),
        ({"live": '{"state": null}'}, "agent_snapshots_live_object"),
        ({"live": "[]"}, "agent_snapshots_live_object"),
        ({"ended": True}, "agent_snapshots_ended_when_terminal"),
        (
            {"durable": '{"source": "workflow", "state": "terminal"}', "ended": True},
            "agent_snapshots_ended_when_terminal",
        ),
        (
            {"durable": json.dumps({"source": "workflow", "state": "running", "terminal": {}})},
            "agent_snapshots_ended_when_terminal",
        ),
        ({"durable": '{"source": "workflow"}'}, "agent_snapshots_state_known"),
        ({"durable": '{"source": "workflow", "state": "done"}'}, "agent_snapshots_state_known"),
        ({"source": "fleet"}, "agent_snapshots_columns_of_durable"),
        ({"source": "x"}, "agent_snapshots_"),
        ({"parent": "x"}, "agent_snapshots_columns_of_durable"),
        ({"snapshot_id": ""}, "agent_snapshots_id_form"),
        ({"snapshot_id": "a b"}, "agent_snapshots_id_form"),
        ({"snapshot_id": "x" * 301}, "agent_snapshots_id_form"),
        ({"updated_at": Sql("livebox.clock() - interval '1 day'")}, "agent_snapshots_times_in_order"),
        (
            {"durable": json.dumps({"source": "workflow", "state": "running", "x": "y" * 2**20})},
            "agent_snapshots_durable_object",
        ),
    ],
)
def test_what_a_unit_cannot_be(rows: Rows, columns: dict[str, object], rule: str) -> None:
    assert str(refusal(lambda: unit(rows, None, **columns))).startswith(rule)


def test_what_has_ended_has_nothing_live(rows: Rows) -> None:
    assert refusal(lambda: unit(rows, END, live='{"state": "running"}')) == "agent_snapshots_ended_without_live"


def test_parents(rows: Rows) -> None:
    run = rows.run()
    own = {"parent": "x"}
    assert refusal(lambda: unit(rows, own, parent="x", snapshot_id="x")) == "agent_snapshots_parent_form"
    assert refusal(lambda: unit(rows, own, parent="x", parent_run_id=run)) == "agent_snapshots_run_of_parent"
    assert refusal(lambda: unit(rows, None, parent_run_id=run)) == "agent_snapshots_run_of_parent"
    assert unit(rows, {"parent": run}, parent=run, parent_run_id=run)["parent_run_id"] == run


def test_ids_are_unique_for_their_owner(rows: Rows) -> None:
    unit(rows, snapshot_id="nightly")
    assert refusal(lambda: unit(rows, snapshot_id="nightly")) == "agent_snapshots_own_id"
    unit(rows, snapshot_id="nightly", owner_id=rows.principal("service"))
