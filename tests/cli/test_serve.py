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
from pathlib import Path

import pytest

from db.migrate import MIGRATIONS, migrate, read_migrations
from tests.db.test_migrate import COUNTS, ask, fill, older
from tests.fixtures.serving import PATIENCE, ROOT, Spawn


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


@pytest.mark.parametrize("upto", sorted({0, 1, len(read_migrations(MIGRATIONS)) - 1}))
def test_five_start_at_once_on_an_empty_or_an_older_schema_with_rows(
    spawn: Spawn, empty_dsn: str, data: Path, tmp_path: Path, upto: int
) -> None:
    if upto:
        migrate(empty_dsn, older(tmp_path / "older", upto), None)
        fill(empty_dsn)
        before = ask(empty_dsn, COUNTS)
    servers = [spawn(DATABASE_URL=empty_dsn, LIVEBOX_DATA=str(data)) for _ in range(5)]
    for server in servers:
        assert server.ready().get("/v1/readiness")["status"] == "ready"
    keys = [server.get("/.well-known/jwks.json") for server in servers]
    assert keys == keys[:1] * 5
    applied = ask(empty_dsn, "SELECT count(*) FROM livebox.schema_migrations")
    assert applied == [(len(read_migrations(MIGRATIONS)),)]
    if upto:
        assert ask(empty_dsn, COUNTS) == before
    for server in servers:
        status, log = server.end()
        assert (status, [json.loads(line)["event"] for line in log.splitlines()]) == (0, ["started", "stopping"])


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
    token = server.command("token", "issue", "alex")
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"LIVEBOX_URL": server.url, "LIVEBOX_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert re.fullmatch(r"[0-9a-f-]{36} queued \S+Z\n", done.stdout), done.stderr
    assert server.end()[0] == 0
