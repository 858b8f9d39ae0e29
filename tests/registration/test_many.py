"""Lists stay quick however many registered runs there are that somebody may not read, and trees are the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

COUNTED = """
    CREATE OR REPLACE FUNCTION livebox.authorize_run(p_principal uuid, p_action text, p_run uuid) RETURNS text
    LANGUAGE plpgsql STABLE AS $$
    DECLARE
        v_denial text := livebox.authorize_run_uncounted(p_principal, p_action, p_run);
    BEGIN
        IF v_denial IS NOT NULL THEN
            RAISE EXCEPTION 'decided on a run that is hidden';
        END IF;
        RETURN v_denial;
    END $$
"""


@pytest.fixture
def decided_once(stage: Stage) -> Iterator[None]:
    """A whole decision on a run that the asker may not read takes too long to be made for thousands: it fails."""
    stage.sql("ALTER FUNCTION livebox.authorize_run(uuid, text, uuid) RENAME TO authorize_run_uncounted")
    stage.sql(COUNTED)
    yield
    stage.sql("DROP FUNCTION livebox.authorize_run(uuid, text, uuid)")
    stage.sql("ALTER FUNCTION livebox.authorize_run_uncounted(uuid, text, uuid) RENAME TO authorize_run")


def test_what_is_hidden_is_not_decided_on_one_by_one(stage: Stage, request: pytest.FixtureRequest) -> None:
    """A fleet has very many runs, and everybody's lists pass by them."""
    root = stage.registered(by="texter", agent="texter", user_id="alex")
    hidden = [stage.registered(by="texter", agent="texter", parent_run_id=root["id"])["id"] for _ in range(3)]
    shown = stage.registered(by="texter", agent="texter", parent_run_id=root["id"], user_id="alex")["id"]
    for parent in (*hidden, stage.queued(by=OWNER, agent="texter", place="Marketing/General")["id"]):
        body = {"snapshot": {"source": "workflow", "state": "running", "parent": parent}}
        stage.as_("texter").call("putAgentRunSnapshot", body, snapshot_id=fresh()).ok()
    request.getfixturevalue("decided_once")

    def ids(operation: str, member: str, query: dict[str, Any] | None = None, **path: Any) -> list[str]:
        listed = stage.as_("alex").call(operation, query=query, **path).ok()["items"]
        return [item[member] for item in listed if item[member] in (root["id"], shown, *hidden)]

    assert ids("listActiveRuns", "id") == [shown, root["id"]]
    assert ids("listAgentRunSnapshots", "run_id") == [shown, root["id"]]
    assert ids("listAgentRunSnapshots", "run_id", {"parent": root["id"]}) == [shown]
    assert ids("listAgentRunSnapshots", "run_id", {"parent": hidden[0]}) == []
    assert ids("listRunSnapshots", "run_id", run_id=root["id"]) == [shown, root["id"]]
    events = stage.as_("alex").call("listEvents", query={"after": 0, "limit": 200}).ok()["items"]
    told = [event["payload"]["run"]["id"] for event in events if "run" in event["payload"]]
    assert [run for run in told if run in (root["id"], shown, *hidden)] == [root["id"], root["id"], shown, shown]
    spend = stage.as_("alex").call("getRunSpend", run_id=root["id"]).ok()
    assert spend["subtree"]["runs"] == 2
    snapshot = stage.as_("alex").call("getSnapshot").ok()
    assert {run["id"] for run in snapshot["active_runs"]} & {root["id"], *hidden, shown} == {root["id"], shown}


@pytest.mark.parametrize("by", [OWNER, "texter"])
def test_of_a_tree_that_is_too_large_the_newest_are_left_out(stage: Stage, by: str) -> None:
    """So that none that was listed is pushed out by one that comes later, however the rows are read."""
    root = stage.registered(by=by, agent="texter")
    children = [stage.registered(by=by, agent="texter", parent_run_id=root["id"])["id"] for _ in range(4)]
    grandchild = stage.registered(by=by, agent="texter", parent_run_id=children[0])["id"]
    for most, kept in ((1, []), (3, children[:2]), (5, children), (6, [*children, grandchild])):
        rows = stage.sql("SELECT livebox.run_tree(%s, %s, %s)", stage.id(by), root["id"], most)
        assert [row for (row,) in rows] == [root["id"], *kept]


def test_units_that_are_not_shown_take_nobodys_place(stage: Stage) -> None:
    """Whoever knows the id of a run can publish below it, as often as they like."""
    run = stage.registered(agent="texter", user_id="alex")

    def publish(by: str, parent: str) -> str:
        unit = fresh()
        body = {"snapshot": {"source": "workflow", "state": "running", "parent": parent}}
        stage.as_(by).call("putAgentRunSnapshot", body, snapshot_id=unit).ok()
        return unit

    strange = publish("assistent", run["id"])
    publish("assistent", f"{run['id']}:jobs:x")
    publish("assistent", strange)
    mine = publish("texter", run["id"])
    below = publish("texter", mine)
    for who, units in (("alex", [mine]), ("texter", [mine, below]), (OWNER, [strange])):
        found = stage.sql("SELECT livebox.units_below(%s, %s::uuid[], %s)", stage.id(who), [run["id"]], len(units))
        shown = stage.sql("SELECT snapshot_id FROM livebox.agent_snapshots WHERE id = ANY (%s::uuid[])", found[0][0])
        assert {unit for (unit,) in shown} == set(units)
