"""docs/mock.md does what it says: its blocks are run as they are printed, against a mock of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from generated.gateway_messages import CLOSES
from livebox.cli import main
from livebox.mock.script import scripts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mock.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LISTENS = re.compile(r"Livebox mock listens on (http://127\.0\.0\.1:\d+) ")
PATIENCE = 60


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "livebox", "mock", "--gateway", "--port", "0", "--pace", "0.2"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("LIVEBOX_")}
    process = subprocess.Popen(command, env={**env, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = LISTENS.search(process.stdout.readline())
        assert found
        yield found[1]
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        process.stdout.close()


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="curl or bash is not installed")
def test_the_page_from_its_beginning_to_its_end(url: str, tmp_path: Path) -> None:
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LIVEBOX_URL": url,
        "LIVEBOX_TOKEN": "anything",
        "RUN": dict(re.findall(r"(\w+)=(\S+)", "".join(text for kind, text in BLOCKS if kind == "sh")))["RUN"],
    }
    printed = ""
    for kind, text in BLOCKS:
        if kind == "python":
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        elif kind == "bash":
            script = ["bash", "-euo", "pipefail", "-c", text]
            done = subprocess.run(script, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            printed = done.stdout
            assert "python" in text or '"state": "waiting_input"' in printed
        elif kind == "text":
            assert printed == text


def test_the_line_that_starts_it_is_right() -> None:
    line = next(text for kind, text in BLOCKS if kind == "sh")
    told = CliRunner().invoke(main, ["mock", "--help"]).output
    assert line.startswith("livebox mock ")
    options = set(re.findall(r"--[a-z]+", PAGE)) - {"--fail", "--quiet"}
    assert options >= {"--port", "--gateway", "--script", "--pace"}
    for option in options:
        assert option in told, option


def test_the_table_names_every_script() -> None:
    rows = re.search(r"^\| script \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert rows
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in rows[0].strip().splitlines())))
    assert named <= set(scripts())
    assert set(scripts()) - named <= set(CLOSES)
