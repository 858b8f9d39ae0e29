"""`livebox demo` as a process: both runs, the lines to paste, and nothing left behind however it ends."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from db.embedded import Server
from tests.demo.played import PATIENCE, Demo, processes_with


def test_both_runs_are_shown_and_nothing_is_left(demo: Callable[..., Demo]) -> None:
    played = demo("--exit-when-done")
    assert played.end() == 0, played.errors
    lines = [line.strip() for line in played.output.splitlines()]
    report, failure = lines.index("completed"), lines.index("failed")
    assert lines.index("queued") < lines.index("running") < report < failure
    for title in ("Looking for files: ", "Counting lines by language: ", "Finding the largest files: ", "Looking for"):
        assert any(line.startswith(f"✓ {title}") for line in lines[:report])
    assert re.match(r"✓ Lotse completed in [\d.]+ s, 6 steps: \d+ files, [\d,]+ lines", lines[report + 1])
    assert any(re.match(r"- Python: [\d,]+ in \d+ files", line) for line in lines)
    assert lines[-1].startswith("✗ Lotse failed (runtime_error) in ")
    assert lines[-1].endswith(": The folder no-such-folder does not exist.")
    assert "curl" not in played.output
    assert "#token=" not in played.output
    assert played.errors == ""
    assert played.clean()


def test_it_reads_the_folder_that_it_is_given(demo: Callable[..., Demo], tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1\n")
    played = demo("--exit-when-done", "--folder", str(tmp_path))
    assert played.end() == 0, played.errors
    assert "6 steps: 1 file, 1 line, 0 TODOs (Python 1)" in played.output


def test_a_port_in_use_is_told_as_serve_tells_it(demo: Callable[..., Demo]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        played = demo("--exit-when-done", "--port", str(port))
        assert played.end() == 1
    assert re.search(rf"^Error: cannot listen on 127\.0\.0\.1:{port}: .+$", played.errors, re.MULTILINE)
    assert played.clean()


def test_what_is_not_as_expected_is_status_1_and_leaves_nothing(demo: Callable[..., Demo], tmp_path: Path) -> None:
    (tmp_path / "no-such-folder").mkdir()
    played = demo("--exit-when-done", "--folder", str(tmp_path))
    assert played.end() == 1
    assert "The demo failed: states: ['queued', 'running', 'completed'] instead of" in played.errors
    assert played.clean()


def test_the_server_stays_up_and_the_curl_lines_work_as_printed(demo: Callable[..., Demo]) -> None:
    played = demo("--pace", "0")
    agent = played.agent()
    page = played.until(r"in a browser: (http://\S+/)#token=(lbx_\S+)$")
    with urllib.request.urlopen(page[1], timeout=PATIENCE) as answer:  # noqa: S310
        assert b"<title>" in answer.read()
    url = played.until(r"stays up at (http://\S+) until")[1]
    assert page[1] == f"{url}/"
    with urllib.request.urlopen(f"{url}/v1/readiness", timeout=PATIENCE) as answer:  # noqa: S310
        assert json.load(answer)["status"] == "ready"
    assert any("livebox.demo.agent" in line for line in processes_with(str(played.temporary)))
    commands = [played.until(r"^curl ").string.strip() for _ in range(3)]
    assert [shlex.split(command)[0] for command in commands] == ["curl"] * 3
    if shutil.which("curl") is not None:
        run, steps, message, again = map(pasted, [*commands, commands[-1]])
        assert (run["state"], run["step_count"]) == ("completed", len(steps["items"]))
        assert (message["body"], message["trigger_state"]) == ("What is in this folder?", "received")
        assert message["thread_id"] == run["thread_id"]
        assert again["id"] == message["id"]
    assert played.end(signal.SIGINT) == 0, played.errors
    assert not Path(f"/proc/{agent}").exists()
    assert played.clean()


def pasted(command: str) -> Any:
    """The JSON that a printed line gives in a shell."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S602
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_interrupted_in_the_middle_of_a_run_it_leaves_nothing(demo: Callable[..., Demo]) -> None:
    played = demo("--pace", "10")
    agent = played.agent()
    played.until("running")
    assert played.end(signal.SIGTERM) == 130
    assert not Path(f"/proc/{agent}").exists()
    assert played.clean()


def test_an_agent_that_dies_is_said(demo: Callable[..., Demo]) -> None:
    played = demo("--pace", "10", "--exit-when-done")
    agent = played.agent()
    played.until("running")
    os.kill(agent, signal.SIGKILL)
    assert played.end() == 1
    assert "Lotse ended with status -9" in played.errors
    assert played.clean()


@pytest.fixture
def data(session_folder: Path) -> Iterator[Path]:
    """A data folder that does not exist yet; a database that a failed test left on it is stopped."""
    folder = session_folder / uuid.uuid4().hex[:4]
    yield folder
    Server(folder).halt("immediate")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_demo_that_is_killed_takes_its_agent_with_it(demo: Callable[..., Demo], data: Path) -> None:
    played = demo("--pace", "10", LIVEBOX_DATA=str(data))
    agent = played.agent()
    played.until("running")
    played.process.kill()
    played.process.communicate()
    until_gone(agent)
    # The database lives on, as after any kill -9; the next demo on the same data adopts it and stops it.
    again = demo("--exit-when-done", LIVEBOX_DATA=str(data))
    assert again.end() == 0, again.errors
    assert not processes_with(str(data))


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], PATIENCE)[0]
    os.close(descriptor)


def test_the_environment_of_others_is_refused_in_one_line(demo: Callable[..., Demo]) -> None:
    played = demo("--exit-when-done", LIVEBOX_HTTP_PROT="1")
    assert played.end() == 2
    assert "LIVEBOX_HTTP_PROT" in played.errors
