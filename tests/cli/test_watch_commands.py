"""`livebox watch` and `livebox events tail` against a real server: what they print, and how they end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from livebox.box import active, box, changes, line, numbers
from livebox.cli import main
from livebox.client import Adapter, Pace, RunHandle
from livebox.demo.view import described
from livebox.keys import KEYS
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage

Run = Callable[..., Result]


@pytest.fixture
def run(live: Live, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `livebox` in this process as a principal of the world."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)

    def invoke(*arguments: str, by: str = "alex") -> Result:
        variables = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": live.tokens[by]}
        return CliRunner().invoke(main, arguments, env=variables, catch_exceptions=False)

    return invoke


@pytest.fixture
def agent(live: Live) -> Iterator[list[Any]]:
    """An agent that shows a little of everything, in a thread; it ends runs with what the list holds, if anything."""
    ends: list[Any] = []
    adapter = Adapter(live.url, live.tokens["lotse"], pace=Pace(patch=0.0), concurrency=5)

    @adapter.on_invocation
    async def work(run: RunHandle) -> Any:
        run.headline = "Looking around"
        run.plan.item("look", "Look around", "in_progress")
        run.subagent("s", "running", name="Second")
        async with run.step("tool", "look", title="Looking") as step:
            step.detail["todos"] = 2
            await run.flush()
        await run.flush()
        return ends.pop() if ends else "All is well."

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(adapter.serve()))
    thread.start()
    yield ends
    loop.call_soon_threadsafe(adapter.leave)
    thread.join(30)
    loop.close()


def test_a_run_is_watched_to_its_end_in_plain_lines(run: Run, stage: Stage, agent: list[Any]) -> None:
    result = run("watch", stage.queued()["id"])
    lines = result.output.splitlines()
    assert result.exit_code == 0, result.output
    assert "running" in lines or "completed" in lines
    assert "✓ Looking: 2 TODOs" in lines
    assert "Looking around" in lines
    assert "sub-agent Second: running" in lines
    assert lines[-1].startswith("✓ Lotse completed in ")
    assert lines[-1].endswith(", 1 step: All is well.")


def test_a_run_that_does_not_complete_is_status_1(run: Run, stage: Stage, agent: list[Any]) -> None:
    agent.append({"state": "failed", "reason": "runtime_error", "summary": "It was not to be."})
    result = run("watch", stage.queued()["id"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].endswith("It was not to be.")


def test_documents_as_json(run: Run, stage: Stage, agent: list[Any]) -> None:
    documents = [json.loads(text) for text in run("watch", stage.queued()["id"], "--json").output.splitlines()]
    assert documents[-1]["state"] == "completed"
    versions = [document["version"] for document in documents]
    assert versions == sorted(set(versions))


def test_a_run_that_is_not_there_is_one_line(run: Run) -> None:
    result = run("watch", "01933b7e-0000-7000-8000-000000000051")
    assert result.exit_code == 1
    assert "(not_found)" in result.output
    assert "Traceback" not in result.output


def test_a_token_that_is_refused_is_one_line(run: Run, live: Live, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("lbx_unknown")
    for arguments in (("watch",), ("events", "tail")):
        result = run(*arguments, "--token-file", str(tmp_path / "token"))
        assert result.exit_code == 1
        assert "invalid_token" in result.output


@pytest.mark.parametrize("command", [("watch",), ("events", "tail")], ids=" ".join)
def test_a_server_that_is_not_there_is_said(command: tuple[str, ...], unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEBOX_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "livebox", *command],
        env=clean | {"LIVEBOX_URL": url, "LIVEBOX_TOKEN": "t"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"no answer from {url}; trying again\n"
    finally:
        process.terminate()
        process.communicate()


def test_it_watches_one_run_or_all(run: Run) -> None:
    assert run("watch", "01933b7e-0000-7000-8000-000000000051", "--active").exit_code == 2


def test_the_log_is_printed_in_its_order(run: Run, stage: Stage, agent: list[Any]) -> None:
    run("watch", stage.queued()["id"])  # to its end: the agents of other tests would take it
    result = run("events", "tail", "--after", "0", "--limit", "5")
    rows = [text.split("\t") for text in result.output.splitlines()]
    assert result.exit_code == 0
    assert len(rows) == 5
    assert [int(row[0]) for row in rows] == sorted({int(row[0]) for row in rows})
    as_json = run("events", "tail", "--after", "0", "--limit", "5", "--json")
    assert [json.loads(text)["seq"] for text in as_json.output.splitlines()] == [int(row[0]) for row in rows]


DOCUMENT: Any = {
    "id": "r",
    "state": "running",
    "version": 7,
    "started_at": "2026-11-02T09:30:00.000000Z",
    "step_count": 1,
    "headline": "Reading [bold]",
    "text": {"content": "First\nLast"},
    "waiting_on": "provider_retry",
    "tool": {"name": "read", "progress": 0.5},
    "plan": {"items": {"a": {"ordinal": 1, "title": "Point", "status": "in_progress"}}},
    "subagents": {"s": {"name": "Second", "state": "waiting_model", "tokens_used": 1200}},
    "workflows": {"w": {"name": "Flow", "state": "paused"}},
    "jobs": {"j": {"name": "Build", "state": "running", "progress": 0.25}},
    "metrics": {
        "context_used_percent": 14.2,
        "input_tokens": 5200,
        "tool_calls": 1,
        "cost": {"amount_micros": 1234, "currency": "EUR", "is_estimate": True},
        "last_api_retry": {
            "attempt": 2,
            "max_attempts": 5,
            "reason": "overloaded",
            "at": "2026-11-02T09:30:00.000000Z",
        },
    },
    "stalled_since": "2026-11-02T09:31:00.000000Z",
    "cancel": {"requested_at": "2026-11-02T09:32:00.000000Z"},
    "question": {"prompt": "Which?", "choices": {"a": "This"}, "asked_at": "2026-11-02T09:32:00.000000Z"},
}
SHOWN = (
    *("Lotse running", "context 14 %", "5,200 in", "1 tool call", "about 0.0012 EUR", "no progress since 09:31:00 UTC"),
    *("tried again: overloaded, attempt 2 of 5", "waits for the provider, to try again", "asked to stop"),
    *(
        "Reading [bold]",
        "◐ Point",
        "read 50 %",
        "Second: waiting_model, 1,200 tokens",
        "Flow: paused",
        "Build: running, 25 %",
    ),
    *("Last", "? Which?", "a: This"),
)


def test_the_box_shows_everything_that_is_known() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(box(DOCUMENT, "Lotse", describe=described))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in SHOWN:
        assert text in shown


def test_the_box_of_a_run_that_has_not_begun() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(box({"id": "r", "state": "queued", "version": 1, "step_count": 0}, "Lotse", describe=described))  # type: ignore[typeddict-item]
    assert "waiting for the agent" in console.file.getvalue()  # type: ignore[attr-defined]


def test_plain_lines_tell_each_thing_once() -> None:
    told = list(changes(None, DOCUMENT, described))
    for text in ("running", "Reading [bold]", "tool: read", "◐ Point", "sub-agent Second: waiting_model", "? Which?"):
        assert text in told
    assert list(changes(DOCUMENT, DOCUMENT, described)) == []
    assert list(changes(DOCUMENT, {**DOCUMENT, "headline": "Next"}, described)) == ["Next"]


def test_numbers_that_are_simulated_are_called_so() -> None:
    assert "simulated" not in numbers(DOCUMENT)
    assert numbers({**DOCUMENT, "model": "reader (simulated tokens and cost)"})[-1] == "simulated"


def test_plan_lines_come_in_their_order() -> None:
    items = {key: {"ordinal": at, "title": key, "status": "done"} for key, at in (("a", 2), ("b", 0), ("c", 1))}
    told = [text for text in changes(None, {**DOCUMENT, "plan": {"items": items}}, described) if text[0] == "●"]
    assert told == ["● b", "● c", "● a"]


def test_running_now_is_a_table() -> None:
    console = Console(file=io.StringIO(), width=160)
    summary: Any = {**DOCUMENT, "agent_id": "x"}
    console.print(active([summary], {"x": "Lotse"}))
    console.print(active([], {}))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Lotse" in shown
    assert "Reading [bold]" in shown
    assert "nothing runs" in shown


def test_the_line_of_an_ended_run() -> None:
    ended: Any = {**DOCUMENT, "state": "failed", "state_reason": "stale", "duration_ms": 1500}
    assert line(ended, "Lotse") == "✗ Lotse failed (stale) in 1.5 s, 1 step: Reading [bold]"
