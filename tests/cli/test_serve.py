"""`livebox serve` as a process: it starts on what it finds, answers, and ends in order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60

Spawn = Callable[..., "Serving"]


class Serving:
    """A running `livebox serve`, ready to answer at `url`."""

    def __init__(self, *options: str, **variables: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("LIVEBOX_", "DATABASE_URL"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "livebox", "serve", "--port", "0", *options],
            cwd=ROOT,
            env=clean | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = ""

    def ready(self) -> Serving:
        """Waits for the line that says where it listens."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + self.process.communicate(timeout=PATIENCE)[1]
        self.url = found[0]
        return self

    def get(self, path: str) -> Any:
        """The JSON that a GET answers."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:  # noqa: S310 - http, our own server
            return json.load(answer)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; the exit status and all that was logged."""
        self.process.send_signal(number)
        log = self.process.communicate(timeout=PATIENCE)[1]
        return self.process.returncode, log


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts servers; those that a failed test left running are killed."""
    servers: list[Serving] = []

    def spawned(*options: str, **variables: str) -> Serving:
        servers.append(Serving(*options, **variables))
        return servers[-1]

    yield spawned
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture
def data(session_folder: Path) -> Iterator[Path]:
    """A data folder that does not exist yet."""
    folder = session_folder / f"serve-{uuid.uuid4().hex[:8]}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_migrates_answers_and_ends_with_a_signal(spawn: Spawn, empty_dsn: str, data: Path, number: int) -> None:
    server = spawn(DATABASE_URL=empty_dsn, LIVEBOX_DATA=str(data)).ready()
    assert server.get("/v1/health") == {"status": "ok"}
    assert server.get("/v1/readiness")["status"] == "ready"
    status, log = server.end(number)
    assert status == 0
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["started", "stopping"]
    assert sorted(path.name for path in data.iterdir()) == ["keys"]


def test_two_servers_share_a_data_folder_and_the_last_one_stops_its_database(spawn: Spawn, data: Path) -> None:
    first, second = spawn(LIVEBOX_DATA=str(data)), spawn(LIVEBOX_DATA=str(data))
    first.ready(), second.ready()
    assert first.url != second.url
    assert first.get("/.well-known/jwks.json") == second.get("/.well-known/jwks.json")
    assert first.end()[0] == 0
    assert second.get("/v1/readiness")["status"] == "ready"
    assert (data / "postgres" / "postmaster.pid").exists()
    assert second.end()[0] == 0
    assert not (data / "postgres" / "postmaster.pid").exists()


def test_it_starts_again_after_it_was_killed(spawn: Spawn, data: Path) -> None:
    killed = spawn(LIVEBOX_DATA=str(data)).ready()
    assert killed.end(signal.SIGKILL)[0] == -signal.SIGKILL
    server = spawn(LIVEBOX_DATA=str(data)).ready()
    assert server.get("/v1/readiness")["status"] == "ready"
    assert server.end()[0] == 0
    assert not (data / "postgres" / "postmaster.pid").exists()


def test_a_port_in_use_is_told_in_one_line(spawn: Spawn, database_dsn: str, data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = spawn("--port", str(port), DATABASE_URL=database_dsn, LIVEBOX_DATA=str(data))
        output, log = server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 1
    assert output == ""
    assert re.fullmatch(rf"Error: cannot listen on 127\.0\.0\.1:{port}: .+\n", log)


def test_a_signal_while_it_starts_leaves_no_database_behind(spawn: Spawn, data: Path) -> None:
    server = spawn(LIVEBOX_DATA=str(data))
    pid_file = data / "postgres" / "postmaster.pid"
    while not pid_file.exists():
        assert server.process.poll() is None
    assert server.end()[0] == 0
    assert not pid_file.exists()


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs bash and curl")
def test_the_lines_of_the_readme_work(spawn: Spawn, empty_dsn: str, data: Path) -> None:
    variables = {"DATABASE_URL": empty_dsn, "LIVEBOX_DATA": str(data)}
    server = spawn(**variables).ready()
    (script,) = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    script = script.replace("http://127.0.0.1:8080", server.url).replace(
        ".venv/bin/livebox", f"'{sys.executable}' -m livebox"
    )
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert '"trigger_state":"received"' in done.stdout.replace(" ", "")
        assert '"state":"queued"' in done.stdout.replace(" ", "")
    issued = subprocess.run(
        [sys.executable, "-m", "livebox", "token", "issue", "alex"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert issued.returncode == 0, issued.stderr
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"LIVEBOX_URL": server.url, "LIVEBOX_TOKEN": issued.stdout.strip()},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert re.fullmatch(r"[0-9a-f-]{36} queued \S+Z\n", done.stdout), done.stderr
    assert server.end()[0] == 0
