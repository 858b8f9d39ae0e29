"""`livebox import` against a real server, and the example of docs/import.md as it is printed there."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from livebox.cli import main
from livebox.keys import KEYS
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.importing.tables import lines, registration, row

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")

Importing = Callable[..., Result]


@pytest.fixture
def importing(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Importing:
    """Imports two files as the owner, or somebody else."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    monkeypatch.chdir(tmp_path)

    def invoke(registrations: bytes, runs: bytes, *options: str, token: str = "", **more: Any) -> Result:
        Path("registrations.jsonl").write_bytes(registrations)
        Path("runs.jsonl").write_bytes(runs)
        variables = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": token or live.tokens["owner"]}
        arguments = ["import", "registrations.jsonl", "runs.jsonl", *options]
        return CliRunner().invoke(main, arguments, env=variables, catch_exceptions=False)

    return invoke


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def run_of(stage: Stage, run_id: str) -> Any:
    return stage.as_("owner").call("getRun", run_id=run_id).ok()


def test_the_example_of_the_page(importing: Importing, stage: Stage) -> None:
    first, second = re.findall(r"^```jsonl\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (told,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    dry = importing(first.encode(), second.encode())
    assert dry.exit_code == 0, dry.output
    result = importing(first.encode(), second.encode(), "--write")
    assert (result.exit_code, words(result.output)) == (0, words(told))
    run = run_of(stage, json.loads(first)["run_id"])
    assert (run["agent_id"], run["agents"][1]) == (stage.id("lotse"), stage.id("texter"))
    assert (run["state"], run["user_dims"], run["step_count"]) == ("completed", {"team": "support"}, 0)
    assert run["reported_steps"] == {stage.id("owner"): 3}
    assert run["reported_started_at"] == "2026-11-02T09:00:00.000000Z"
    assert run["cost"] == {"amount_micros": 130000, "currency": "EUR", "is_estimate": False}
    again = importing(first.encode(), second.encode(), "--write")
    assert again.output.splitlines()[-1] == "0 registered, 0 completed, 1 unchanged"
    assert run_of(stage, run["id"])["version"] == run["version"]


def test_a_service_brings_runs_over_and_says_who_is_who(importing: Importing, stage: Stage, live: Live) -> None:
    service = live.issue(stage.principal("service"))
    parent, child = str(uuid.uuid4()), f"nightly-{uuid.uuid4()}"
    registrations = lines(
        [
            registration(run_id=child, agent="writer", agents=None, parent_run_id=parent, budget={"tokens": 10}),
            registration(run_id=parent, agent=stage.id("lotse"), agents=None, budget={"tokens": 10}),
        ]
    )
    runs = lines(
        [
            row(run_id=parent, agent=stage.id("lotse"), governance_events=[{"rule": "loop"}] * 2),
            row(run_id=child, agent="writer", status="broken", halt_reason="out of memory", detector="guard"),
        ]
    )
    unknown = importing(registrations, runs, "--write", token=service)
    assert unknown.exit_code == 1
    assert "unknown_agent" in unknown.output
    assert "unknown_status" in unknown.output
    meanings = ("--agent", f"writer={stage.id('texter')}", "--status", "broken=failed")
    dry = importing(registrations, runs, *meanings, token=service)
    assert dry.output.endswith("Nothing was written; --write does.\n")
    done = importing(registrations, runs, *meanings, "--write", "--json", token=service)
    assert done.exit_code == 0, done.output
    *told, _, outcome = map(json.loads, done.output.splitlines())
    assert {each["kind"] for each in told} == {"foreign_id", "parent_after_child"}
    assert outcome == {"registered": 1, "completed": 0, "unchanged": 1}
    above = run_of(stage, parent)
    (below,) = stage.sql("SELECT id::text FROM livebox.runs WHERE external_id = %s", child)
    failed = run_of(stage, below[0])
    assert above["governance_events"][:2] == [{"rule": "loop"}] * 2
    assert (above["state"], above["cost"]["amount_micros"]) == ("completed", 300000)  # the budget ends nothing now
    assert (failed["state"], failed["state_reason"], failed["parent_run_id"]) == ("failed", "adapter_error", parent)
    assert (failed["halt_reason"], failed["detector"]) == ("out of memory", "guard")
    again = importing(registrations, runs, *meanings, "--write", token=service)
    assert again.output.splitlines()[-1] == "0 registered, 0 completed, 2 unchanged"
    moved = importing(
        registrations, lines([row(run_id=parent, agent=stage.id("lotse"), cost_micros=1)]), "--write", token=service
    )
    assert (moved.exit_code, "(spend_id_reused)" in moved.output) == (1, True)


def test_a_run_that_waits_and_one_that_goes_on(importing: Importing, stage: Stage) -> None:
    waits, goes = str(uuid.uuid4()), str(uuid.uuid4())
    registrations = lines(registration(run_id=run_id, agents=None) for run_id in (waits, goes))
    rows = [row(run_id=waits, status="waiting_input", ended_at=None), row(run_id=goes, status="running", ended_at=None)]
    assert importing(registrations, lines(rows), "--write").exit_code == 0
    assert run_of(stage, waits)["state"] == "waiting_input"
    stage.as_("lotse").call("updateRun", {"status": "running"}, run_id=waits).ok()
    stage.as_("lotse").call("updateRun", {"status": "completed"}, run_id=goes).ok()
    again = importing(registrations, lines(rows), "--write")
    assert "moved_on" in again.output
    assert again.output.splitlines()[-1] == "0 registered, 0 completed, 2 unchanged"
    assert run_of(stage, waits)["state"] == "running"


def test_a_run_that_somebody_else_registered_is_not_touched(importing: Importing, stage: Stage, live: Live) -> None:
    run_id, service = str(uuid.uuid4()), live.issue(stage.principal("service"))
    files = lines([registration(run_id=run_id, agent=stage.id("lotse"), agents=None)]), b""
    assert importing(*files, "--write").exit_code == 0
    version = run_of(stage, run_id)["version"]
    hidden = importing(*files, "--write", token=service)
    assert (hidden.exit_code, "refused" in hidden.output) == (1, True)
    assert run_of(stage, run_id)["version"] == version


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--write", "--dry-run"), "--dry-run"),
        (("--status", "done"), "--status"),
        (("--status", "done=finished"), "cannot mean finished"),
        (("--agent", "writer"), "NAME=VALUE"),
        (("--agent", "writer=7"), "not the id of an agent"),
        (("--unreported", "ended"), "--unreported"),
    ],
)
def test_wrong_usage_is_status_2(importing: Importing, options: tuple[str, ...], names: str) -> None:
    result = importing(b"", b"", *options)
    assert (result.exit_code, names in result.output) == (2, True), result.output


def test_a_line_that_is_no_json_is_named_and_the_status_says_so(importing: Importing) -> None:
    result = importing(b"{\n", b"")
    assert result.exit_code == 1
    assert result.output.splitlines()[0].startswith("UNRESOLVED\tbad_json\tregistrations.jsonl:1\t")
