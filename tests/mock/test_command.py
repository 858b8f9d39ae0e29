"""`livebox mock` as a command, and what it costs those who do not use it."""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from livebox.cli import main
from tests.mock.test_page import LISTENS, PATIENCE, ROOT

HALF = (
    b"POST /v1/spaces HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\n"
    b"Expect: 100-continue\r\nContent-Length: 50\r\n\r\n{"
)


def test_it_says_where_it_listens_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-m", "livebox", "mock", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert LISTENS.match(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")


def test_half_a_request_does_not_keep_it_from_ending() -> None:
    command = [sys.executable, "-m", "livebox", "mock", "--port", "0"]
    env = {**os.environ, "LIVEBOX_HTTP_BODY_TIMEOUT": "600"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = LISTENS.match(process.stdout.readline())
        assert found
        with socket.create_connection(("127.0.0.1", int(found[1].rpartition(":")[2]))) as half:
            half.sendall(HALF)
            assert half.recv(100).startswith(b"HTTP/1.1 100 ")  # the mock waits for the body from now on
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, "")


def test_what_is_wrong_is_told_in_one_line() -> None:
    refused = CliRunner().invoke(main, ["mock", "--script", "nothing"])
    assert refused.exit_code == 2
    assert "there are run, cut, resync" in refused.output
    assert CliRunner().invoke(main, ["mock", "--pace", "nan"]).exit_code == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = CliRunner().invoke(main, ["mock", "--host", "127.0.0.1", "--port", str(taken.getsockname()[1])])
    assert (busy.exit_code, busy.output.count("\n")) == (1, 1)
    assert "cannot listen on 127.0.0.1:" in busy.output


def test_without_connexion_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "connexion" else found(name, *more)
    )
    refused = CliRunner().invoke(main, ["mock"])
    assert refused.exit_code == 1
    assert (
        refused.output == "Error: `livebox mock` needs connexion: `pip install -e '.[mock]'` in the project's folder\n"
    )


def test_nobody_else_waits_for_it() -> None:
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom livebox.cli import main\n"
        "assert 'mock' in CliRunner().invoke(main, ['--help']).output\n"
        "print(*(name for name in ('connexion', 'starlette', 'livebox.mock') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_only_the_mock_imports_connexion() -> None:
    importing = set()
    for folder in ("livebox", "handlers", "db", "generated"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "connexion" in text or "starlette" in text else ():
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(name.partition(".")[0] in ("connexion", "starlette") for name in names):
                    importing.add(file.relative_to(ROOT))
    assert importing == {Path("livebox/mock/rest.py")}
