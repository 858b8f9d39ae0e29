"""docs/using.md does what it says: its examples are run as they are printed, against a real server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from livebox.cli import main
from livebox.demo.agent import Lotse
from tests.demo.conftest import GENERAL, Asking, working

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def variables(asking: Asking, handle: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEBOX_")}
    return clean | {
        "LIVEBOX_URL": asking.live.url,
        "LIVEBOX_TOKEN": asking.live.tokens[handle],
        "THREAD": asking.live.world.threads[GENERAL],
        "LOTSE": asking.live.world.principals["lotse"],
        "PYTHONPATH": str(ROOT),
    }


async def start(program: str, *arguments: str, env: dict[str, str], cwd: Path) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(program, *arguments, env=env, cwd=cwd, stdout=pipe, stderr=pipe)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="curl or bash is not installed")
async def test_the_curl_lines(asking: Asking, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + "\n".join(f"{block}\necho\n" for block in blocks("bash"))
    process = await start("bash", "-c", script, env=variables(asking, "alex"), cwd=tmp_path)
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    assert b'"trigger_state":"received"' in output.replace(b'": "', b'":"')
    assert b'"state":"cancelled"' in output.replace(b'": "', b'":"')


async def test_the_person_in_python(
    asking: Asking, lotse: Callable[..., Awaitable[Lotse]], root: Path, tmp_path: Path
) -> None:
    person, _ = blocks("python")
    async with working(await lotse(root)):
        process = await start(sys.executable, "-c", person, env=variables(asking, "alex"), cwd=tmp_path)
        output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    lines = output.decode().splitlines()
    assert lines[-2].startswith("completed ")
    assert lines[-1] == "run_ended completed"


async def test_the_agent_in_python(asking: Asking, tmp_path: Path) -> None:
    _, agent = blocks("python")
    process = await start(sys.executable, "-c", agent, env=variables(asking, "lotse"), cwd=tmp_path)
    try:
        run = await asking.ended((await asking.run("one two three"))["id"])
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        _, errors = await process.communicate()
    assert (run["state"], run.get("summary")) == ("completed", "You wrote 3 words."), errors.decode()


def test_the_commands_exist() -> None:
    for line in "".join(blocks("sh")).splitlines():
        for command in re.findall(r"(?:^|\$\()livebox ((?:[a-z]+ ?){1,2})", line):
            words = [word for word in command.split() if word not in ("alex", "lotse")]
            result = CliRunner().invoke(main, [*words, "--help"])
            assert result.exit_code == 0, line
            for option in re.findall(r"(--[a-z-]+)", line):
                assert option in result.output, line
