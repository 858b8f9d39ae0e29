"""Lotse as a process of its own: how it starts, stops, and what it says when it cannot work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo.conftest import Asking
from tests.fixtures.server import Live

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn(live: Live, root: Path, tmp_path: Path) -> Iterator[Spawn]:
    """Starts agents; those that a failed test left running are killed."""
    processes: list[subprocess.Popen[str]] = []

    def spawned(*options: str, token: str | None = None, folder: Path = root) -> subprocess.Popen[str]:
        file = tmp_path / "token"
        file.write_text(live.tokens["lotse"] if token is None else token)
        arguments = ["--url", live.url, "--token-file", str(file), "--root", str(folder), *options]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEBOX_")}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "livebox.demo.agent", *arguments],
                cwd=ROOT,
                env=clean,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield spawned
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ready(process: subprocess.Popen[str]) -> None:
    """Wait until the agent listens to signals."""
    assert process.stderr is not None
    assert "reading below" in process.stderr.readline()


async def test_it_works_and_stops_with_a_signal(spawn: Spawn, asking: Asking) -> None:
    process = spawn()
    run = await asking.ended((await asking.run("What is in this folder?"))["id"])
    assert run["state"] == "completed"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    assert asking.live.tokens["lotse"] not in log


async def test_a_signal_in_the_middle_of_a_run_ends_the_run(spawn: Spawn, asking: Asking) -> None:
    process = spawn("--pace", "60")
    run_id = (await asking.run("What is in this folder?"))["id"]
    await asking.when(run_id, lambda run: run["step_count"] == 1)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    run = await asking.ended(run_id)
    assert (run["state"], run["state_reason"]) == ("failed", "runtime_error")
    assert run["summary"] == "Lotse was stopped before it was done."


def test_it_stops_when_who_started_it_is_gone(spawn: Spawn) -> None:
    process = spawn("--until-eof")
    ready(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


def test_it_stops_while_the_server_is_away(spawn: Spawn, unused_tcp_port: int) -> None:
    process = spawn("--url", f"http://127.0.0.1:{unused_tcp_port}")
    ready(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_token_that_the_server_does_not_know_is_status_1(spawn: Spawn) -> None:
    process = spawn(token="lbx_unknown")
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "invalid_token" in log
    assert "lbx_unknown" not in log


def test_a_root_that_is_no_folder_is_status_2(spawn: Spawn, root: Path) -> None:
    process = spawn(folder=root / "README.md")
    assert "--root" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 2
