"""`livebox run register | update | spend` and `livebox ps` against a real server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from livebox.cli import main
from livebox.keys import KEYS
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage

Run = Callable[..., Result]


@pytest.fixture
def run(live: Live, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `livebox` in this process as a principal of the world."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)

    def invoke(*arguments: str, by: str = "owner") -> Result:
        variables = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": live.tokens[by]}
        return CliRunner().invoke(main, arguments, env=variables, catch_exceptions=False)

    return invoke


@pytest.fixture
def registered(run: Run) -> Callable[..., str]:
    """Registers a run of Lotse's on which Texter may report; gives its id."""

    def made(*options: str) -> str:
        result = run("run", "register", "--agent", "lotse", "--with", "@texter", *options)
        assert result.exit_code == 0, result.output
        return result.output.strip()

    return made


def cells(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]


def document(run: Run, run_id: str) -> Any:
    return json.loads(run("run", "show", run_id, "--json").output)


def test_register_writes_what_is_given(run: Run, stage: Stage, registered: Callable[..., str]) -> None:
    parent = registered()
    run_id = str(uuid.uuid4())
    result = registered(
        *("--id", run_id, "--intent", "weekly report", "--task", "Write it up.", "--dim", "team=support"),
        *("--dim", "floor=3", "--mode", "auto", "--parent", parent, "--external-id", "nightly/7", "--queued"),
        *("--started-at", "2026-11-02T09:00:00Z", "--max-tokens", "100", "--max-steps", "9"),
        *("--max-cost", "5000000:EUR"),
    )
    assert result == run_id
    stored = document(run, run_id)
    agents = [stage.id("lotse"), stage.id("texter")]
    expected = {
        **{"agent_id": agents[0], "agents": agents, "intent": "weekly report", "task": "Write it up."},
        **{"user_dims": {"team": "support", "floor": "3"}, "mode": "auto", "parent_run_id": parent, "state": "queued"},
        **{"external_id": "nightly/7", "reported_started_at": "2026-11-02T09:00:00.000000Z"},
        "budget": {
            **{"tokens": 100, "steps": 9},
            "cost": {"amount_micros": 5000000, "currency": "EUR", "is_estimate": False},
        },
    }
    assert stored.items() >= expected.items()
    shown = dict(each for each in cells(run("run", "show", run_id)) if len(each) == 2)
    assert json.loads(shown["user_dims"]) == {"team": "support", "floor": "3"}


def test_a_second_registration_is_refused_in_one_line(run: Run, registered: Callable[..., str]) -> None:
    run_id = registered()
    again = run("run", "register", "--agent", "lotse", "--id", run_id)
    assert (again.exit_code, "(run_already_registered)" in again.output) == (1, True)
    assert "(forbidden)" in run("run", "register", "--agent", "lotse", by="alex").output


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("run", "register"), "--agent"),
        (("run", "register", "--agent", "nobody"), "give its id"),
        (("run", "register", "--agent", "lotse", "--dim", "team"), "NAME=VALUE"),
        (("run", "register", "--agent", "lotse", "--dim", "team=a", "--dim", "team=b"), "team is given twice"),
        (("run", "register", "--agent", "lotse", "--max-cost", "5"), "MICROS:CURRENCY"),
        (("run", "register", "--agent", "lotse", "--id", "7"), "--id"),
        (("run", "register", "--agent", "lotse", "--max-tokens", "0"), "--max-tokens"),
        (("run", "update", "x"), "--help"),
        (("run", "update", "x", "--event", "[]"), "--event"),
        (("run", "update", "x", "--status", "done"), "--status"),
        (("run", "spend", "x", "5"), "CURRENCY"),
        (("run", "spend", "x", "-5", "EUR"), "-5"),
        (("run", "spend", "x", "--tokens", "5"), "AMOUNT_MICROS"),
        (("ps", "x", "--all"), "--all"),
        (("ps", "--limit", "0"), "--limit"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_is_wrong(run: Run, arguments: tuple[str, ...], names: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert names in result.output


def test_update_reports_and_ends(run: Run, registered: Callable[..., str]) -> None:
    run_id = registered()
    assert "3 steps reported" in run("run", "update", run_id, "--steps", "3", by="lotse").output
    kept = run("run", "update", run_id, "--steps", "4", "--event", '{"rule": "loop"}', "--json", by="texter")
    assert json.loads(kept.output)["governance_events"] == [{"rule": "loop"}]
    not_yours = run("run", "update", run_id, "--status", "completed", by="texter")
    assert (not_yours.exit_code, "(status_not_yours)" in not_yours.output) == (1, True)
    failed = ("--status", "failed", "--halt-reason", "runtime_error", "--detector", "guard")
    ended = run("run", "update", run_id, *failed, "--ended-at", "2026-11-02T09:30:00Z", by="lotse")
    assert ended.output.startswith("failed (runtime_error)\t")
    assert document(run, run_id)["detector"] == "guard"
    late = run("run", "update", run_id, "--cost-micros", "5")
    assert (late.exit_code, "the run is failed (run_ended)" in late.output) == (1, True)
    assert "(not_found)" in run("run", "update", str(uuid.uuid4()), "--steps", "1").output


def test_spend_is_recorded_once_and_shown_by_agent_and_dimension(run: Run, registered: Callable[..., str]) -> None:
    run_id, entry = registered("--dim", "team=support"), str(uuid.uuid4())
    for _ in range(2):
        told = run("run", "spend", run_id, "300000", "EUR", "--tokens", "4000", "--entry", entry, by="lotse")
        assert told.output == f"{entry}\t0.3000 EUR\n"
    run("run", "spend", run_id, "130000", "EUR", "--agent", "texter")
    assert cells(run("run", "spend", run_id)) == [
        ["all", "", "2", "4000", "0.4300 EUR", "0.4300 EUR"],
        ["agent", "lotse", "1", "4000", "0.3000 EUR", "0.3000 EUR"],
        ["agent", "texter", "1", "", "0.1300 EUR", "0.1300 EUR"],
        ["team", "support", "2", "4000", "0.4300 EUR", "0.4300 EUR"],
    ]
    assert json.loads(run("run", "spend", run_id, "--json").output)["own"]["entries"] == 2
    run("run", "update", run_id, "--status", "completed")
    late = run("run", "spend", run_id, "1", "EUR", "--agent", "lotse")
    assert late.output.endswith("0.0000 EUR\tafter the end\n")
    assert "(currency_mismatch)" in run("run", "spend", run_id, "1", "USD", "--agent", "lotse").output


def test_ps_shows_the_tree_with_names_and_states(run: Run, stage: Stage, registered: Callable[..., str]) -> None:
    run_id = registered("--intent", "weekly report", "--max-tokens", "9000")
    below = registered("--parent", run_id)
    run("run", "spend", run_id, "300000", "EUR", "--tokens", "4000", by="lotse")
    for _ in range(2):
        step = {"kind": "tool", "name": "read", "status": "completed"}
        stage.as_("lotse").call("recordRunStep", step, run_id=run_id, step_id=str(uuid.uuid4())).ok()
    unit = {"snapshot": {"source": "workflow", "state": "running", "parent": below}, "live": {"state": "waiting_tool"}}
    stage.as_("texter").call("putAgentRunSnapshot", unit, snapshot_id=f"write-{below}").ok()
    found = cells(run("ps", run_id, "--explain"))
    assert [line[:9] for line in found] == [
        [run_id, "", "0", "fleet", "running", "", "Lotse, Texter", "2", "4000"],
        [below, run_id, "1", "fleet", "running", "", "Lotse, Texter", "", ""],
        [f"write-{below}", below, "2", "workflow", "waiting_tool", "", "", "", ""],
    ]
    assert (found[0][10], found[2][11]) == ("weekly report", "state")
    listed = [line[0] for line in cells(run("ps"))]
    assert {run_id, below, f"write-{below}"} <= set(listed)
    run("run", "update", below, "--status", "cancelled")
    assert below not in [line[0] for line in cells(run("ps"))]
    ended = {line[0]: line for line in cells(run("ps", "--all"))}
    assert ended[below][4:6] == ["terminal", "cancelled"]
    assert run_id not in [line[0] for line in cells(run("ps", by="sam"))]
    assert {json.loads(line)["source"] for line in run("ps", "--source", "fleet", "--json").stdout.splitlines()} == {
        "fleet"
    }


def test_ps_shows_what_is_paused_and_is_bounded(run: Run, stage: Stage, registered: Callable[..., str]) -> None:
    run_id = registered()
    paused = {"snapshot": {"source": "core_job", "state": "paused", "parent": run_id}}
    stage.as_("lotse").call("putAgentRunSnapshot", paused, snapshot_id=f"job-{run_id}").ok()
    assert f"job-{run_id}" in [line[0] for line in cells(run("ps"))]
    few = run("ps", "--limit", "1")
    assert len(cells(few)) == 1
    assert "there is more: 1 units are shown" in few.stderr
    assert len(run("ps", run_id, "--limit", "1", "--json").stdout.splitlines()) == 1
    absent = run("ps", str(uuid.uuid4()))
    assert (absent.exit_code, "(not_found)" in absent.output) == (1, True)
