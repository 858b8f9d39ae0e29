"""docs/sdk.md does what it says: its examples are run as they are printed, against a real server."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.demo.conftest import Asking
from tests.demo.test_using import start, variables

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
EXAMPLE, QUESTION, REGISTERED = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def end_of(asking: Asking, program: str, text: str, folder: Path, answer: str = "") -> dict[str, Any]:
    """The run that the agent worked on, when it has ended."""
    process = await start(sys.executable, "-c", program, env=variables(asking, "lotse"), cwd=folder)
    try:
        run_id = (await asking.run(text))["id"]
        if answer:
            waiting = await asking.when(run_id, lambda run: run["state"] == "waiting_input")
            await asking.alex.create_message(waiting["thread_id"], answer)
        run = await asking.ended(run_id)
        process.terminate()
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return run
    finally:
        with suppress(ProcessLookupError):
            process.kill()


async def test_ten_lines_are_an_agent(asking: Asking, tmp_path: Path) -> None:
    run = await end_of(asking, EXAMPLE, "one two three", tmp_path)
    assert (run["state"], run.get("summary")) == ("completed", "You wrote 3 words.")
    assert run["headline"] == "Counting words"
    assert [step["detail"] for step in run["steps"].values()] == [{"words": 3}]
    body = EXAMPLE[EXAMPLE.index("adapter =") :]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 10


async def test_the_question_is_asked_and_answered(asking: Asking, tmp_path: Path) -> None:
    before, after = re.split(r"^@adapter.*?^(?=asyncio\.run)", EXAMPLE, flags=re.MULTILINE | re.DOTALL)
    program = f"{before}{QUESTION}\nadapter.on_invocation(work)\n{after}"
    run = await end_of(asking, program, "Which?", tmp_path, answer="The second")
    assert (run["state"], run.get("summary")) == ("completed", "You chose b.")


async def test_a_registered_run_is_worked_on_by_two(asking: Asking, tmp_path: Path) -> None:
    live = asking.live
    more = {"TEXTER_TOKEN": live.tokens["texter"], "TEXTER": live.world.principals["texter"]}
    env = variables(asking, "owner") | more
    process = await start(sys.executable, "-c", REGISTERED, env=env, cwd=tmp_path)
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    refused, unit = output.decode().splitlines()
    assert refused == "the entry agent ends it, or who registered it"
    assert unit.startswith("fleet terminal {")
    assert "'tokens_used': 1400" in unit


@pytest.mark.parametrize("name", sorted(set(re.findall(r"^\| `(?:RegisteredRun\.)?(\w+)\(", PAGE, re.MULTILINE))))
def test_what_the_page_names_of_registered_runs_is_there(name: str) -> None:
    from livebox.client import RegisteredRun

    assert hasattr(RegisteredRun, name)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\brun\.(\w+)[(. ]", PAGE))))
def test_what_the_page_names_is_there(name: str) -> None:
    from livebox.client import RunHandle

    assert (
        hasattr(RunHandle, name)
        or f"self.{name}"
        in (ROOT / "livebox" / "client" / "handle.py").read_text()
        + (ROOT / "livebox" / "client" / "draft.py").read_text()
    )
