"""`livebox demo --fleet` for real: two agent processes on one registered run, and what `livebox ps` shows of it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from livebox.cli import main
from livebox.demo.fleet import DIMS, check, ending
from livebox.demo.scenario import Unexpected
from livebox.keys import KEYS
from livebox.world import World
from tests.demo.played import Demo

LOTSE, TEXTER, ALEX = (f"01933b7e-0000-7000-8000-00000000001{number}" for number in range(3))
WORLD = World(principals={"lotse": LOTSE, "texter": TEXTER, "alex": ALEX})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder to look into."""
    (tmp_path / "one.py").write_text("x = 1\n# TODO more\n")
    return tmp_path


def pids(played: Demo) -> list[int]:
    return [int(played.until(rf"{name} runs as process (\d+)")[1]) for name in ("Lotse", "Texter")]


def test_two_processes_share_a_run_and_it_ends_as_registered(
    demo: Callable[..., Demo],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = demo("--fleet", "--folder", str(folder), "--pace", "0")
    first, second = pids(played)
    assert first != second
    variables = played.until(r"^export LIVEBOX_URL=(http://\S+) LIVEBOX_TOKEN=(lbx_\S+)$")
    run_id = played.until(r"^livebox ps ([0-9a-f-]{36})$")[1]
    assert not Path(f"/proc/{first}").exists()
    assert not Path(f"/proc/{second}").exists()
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)

    def livebox(*arguments: str) -> Result:
        env = {"LIVEBOX_URL": variables[1], "LIVEBOX_TOKEN": variables[2]}
        return CliRunner().invoke(main, arguments, env=env, catch_exceptions=False)

    shown = [line.split("\t") for line in livebox("ps", run_id).stdout.splitlines()]
    short = run_id[:8]
    assert [line[:9] for line in (shown[0], *sorted(shown[1:]))] == [
        [run_id, "", "0", "fleet", "terminal", "completed", "Lotse, Texter", "6", "7200"],
        [f"researcher/{short}", run_id, "1", "direct", "terminal", "completed", "", "3", "3600"],
        [f"writer/{short}", run_id, "1", "direct", "terminal", "completed", "", "3", "3600"],
    ]
    assert {line.split("\t")[0] for line in livebox("ps", "--all").stdout.splitlines()} >= {run_id, f"writer/{short}"}
    assert livebox("ps").stdout == ""
    run: Any = json.loads(livebox("run", "show", run_id, "--json").output)
    spend = json.loads(livebox("run", "spend", run_id, "--json").output)
    assert run["user_dims"].items() >= DIMS.items()
    assert run["task"] == "Find out what is in the folder, and write it up."
    assert (run["state"], run["agent_id"]) == ("completed", run["agents"][0])
    assert sorted(run["reported_steps"].values()) == [3, 3]
    by_agent = [each["own"]["costs"][0]["amount_micros"] for each in spend["agents"]]
    assert len(by_agent) == 2
    assert run["cost"]["amount_micros"] == sum(by_agent)
    assert played.end(signal.SIGINT) == 0, played.errors
    assert played.clean()
    assert_told(played.output, run_id)


def assert_told(output: str, run_id: str) -> None:
    lines = output.splitlines()
    draft = lines.index("✓ Texter: Drafting the report: 1 file, 2 lines, 1 TODO (Python 2)")
    refused = lines.index("✓ Texter: Asking to close the run: refused: status_not_yours")
    running, ended = (
        next(n for n, each in enumerate(lines) if word in each) for word in ("while it runs", "has ended:")
    )
    assert draft < running < refused < ended
    text = " ".join(output.split())
    (tree,) = re.findall(rf"Lotse, Texter fleet running .*{run_id} (.*) The owner approves", text)
    assert {state in tree for state in (" direct waiting_input ", " direct waiting_tool ")} == {True}
    assert "fleet completed 6 steps · 7,200 of 100,000 tokens" in text
    (end,) = [each for each in lines if each.startswith("✓ Lotse completed in ")]
    assert ", 6 steps, 0.0180 EUR; steps: Lotse 3 + Texter 3; cost: Lotse 0.0090 EUR + Texter 0.0090 EUR; " in end
    assert end.endswith("; team=support, cost_centre=4711")


def test_an_agent_that_dies_is_said_and_nothing_is_left(demo: Callable[..., Demo], folder: Path) -> None:
    played = demo("--fleet", "--exit-when-done", "--pace", "10", "--folder", str(folder))
    first, second = pids(played)
    os.kill(second, signal.SIGKILL)
    assert played.end() == 1
    assert "Texter ended with status -9" in played.errors
    assert not Path(f"/proc/{first}").exists()
    assert played.clean()


def test_interrupted_it_stops_both_agents(demo: Callable[..., Demo], folder: Path) -> None:
    played = demo("--fleet", "--pace", "10", "--folder", str(folder))
    agents = pids(played)
    assert played.end(signal.SIGTERM) == 130
    assert not any(Path(f"/proc/{agent}").exists() for agent in agents)
    assert played.clean()


def true_end() -> tuple[Any, Any, Any]:
    """A run, its spend and its units as they must be."""
    cost = {"amount_micros": 9000, "currency": "EUR", "is_estimate": False}
    own = {"runs": 1, "entries": 3, "tokens": 3600, "costs": [cost]}
    run = {
        **{"id": "r", "state": "completed", "agent_id": LOTSE, "agents": [LOTSE, TEXTER], "step_count": 6},
        **{"user_dims": {"user_id": ALEX, **DIMS}, "reported_steps": {LOTSE: 3, TEXTER: 3}},
        **{"cost": {**cost, "amount_micros": 18000}, "duration_ms": 900},
    }
    spend = {
        "own": {"runs": 1, "entries": 6, "tokens": 7200, "costs": [run["cost"]]},
        "agents": [{"agent_id": agent, "own": own} for agent in (LOTSE, TEXTER)],
    }
    unit = {"source": "direct", "state": "terminal", "budget": {"tokens_used": 3600}}
    units = [{**unit, "run_id": "r", "source": "fleet"}, {**unit, "run_id": "a"}, {**unit, "run_id": "b"}]
    return run, spend, units


@pytest.mark.parametrize(
    "untrue",
    [
        lambda run, spend, units: run.update(state="failed"),
        lambda run, spend, units: run.update(agent_id=TEXTER),
        lambda run, spend, units: run.update(agents=[LOTSE]),
        lambda run, spend, units: run["user_dims"].pop("team"),
        lambda run, spend, units: run.update(step_count=3),
        lambda run, spend, units: run.update(reported_steps={TEXTER: 6}),
        lambda run, spend, units: run["cost"].update(amount_micros=9000),
        lambda run, spend, units: spend["agents"].pop(),
        lambda run, spend, units: spend["own"].update(tokens=3600),
        lambda run, spend, units: units[1].update(state="running"),
        lambda run, spend, units: units.append(units[0]),
    ],
)
def test_what_is_not_true_is_unexpected(untrue: Callable[[Any, Any, Any], None]) -> None:
    run, spend, units = true_end()
    check(run, spend, WORLD, units)
    assert "steps: Lotse 3 + Texter 3" in ending(run, spend)
    untrue(run, spend, units)
    with pytest.raises(Unexpected):
        check(run, spend, WORLD, units)
