"""An agent of a fleet in a process of its own: it works on a registered run together with another one.

    python -m livebox.demo.fleet_agent --role writer --run RUN_ID --url http://127.0.0.1:8080 --token-file texter.token

The researcher reads a folder and tells what it found; the writer makes a report of it. They meet in the run alone: each
sees what the other has done by its steps. Both report their steps and their spend; the researcher, which is the entry
agent, ends the run.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from generated.models import PublishedSnapshot, Run, RunStep, UnitState
from livebox.box import ordered
from livebox.client import ENDED, Problem, RegisteredRun, Rest, StatusNotYours, Step, Unreachable
from livebox.demo.folder_report import FolderReader
from livebox.demo.folder_text import counted, headline
from livebox.printable import printable

RESEARCHER: Final = "researcher"
WRITER: Final = "writer"
RESEARCHED: Final = "find_todos"  # the researcher's last step
DRAFTED: Final = "draft"
WRITTEN: Final = "write_report"
CLOSED: Final = "close_run"
APPROVAL: Final = "approval"  # `kind` of the event by which the registrar lets them go on
CURRENCY: Final = "EUR"
TOKENS_PER_STEP: Final = 1200  # what a model would have used, made up
MICROS_PER_1000_TOKENS: Final = 2500
LOOK_EVERY: Final = 0.03  # seconds

_log = logging.getLogger("fleet")


class Work:
    """What both have in common: steps that are counted, spend that is recorded, and a unit of work that shows it."""

    def __init__(self, rest: Rest, run: RegisteredRun, role: str, pause: float) -> None:
        self.run = run
        self._rest = rest
        self._role = role
        self._pause = pause
        self._steps = 0
        self._tokens = 0

    @asynccontextmanager
    async def step(self, name: str, title: str) -> AsyncIterator[Step]:
        """One step: recorded, counted, paid for, and shown."""
        await self.show("running")
        async with self.run.step("tool", name, title=title, detail={"by": self._role}) as step:
            yield step
            await asyncio.sleep(self._pause)
        self._steps += 1
        self._tokens += TOKENS_PER_STEP
        await self.run.spend(
            TOKENS_PER_STEP * MICROS_PER_1000_TOKENS // 1000,
            CURRENCY,
            tokens=TOKENS_PER_STEP,
            key=f"{self._role}-{name}",
        )
        await self.run.report(steps=self._steps)

    async def show(self, state: UnitState) -> None:
        """Publish how it is now. That it ended is for good, so it says how."""
        unit: PublishedSnapshot = {
            "source": "direct",
            "state": state,
            "budget": {"steps_taken": self._steps, "tokens_used": self._tokens},
        }
        if state == "terminal":
            unit["terminal"] = {"outcome": "completed", "detail": f"The {self._role} is done"}
        if state == "waiting_input":
            unit["refs"] = [{"kind": "gate", "reference": unit_id(APPROVAL, self.run.id)}]
        await self.run.publish(unit_id(self._role, self.run.id), unit)

    async def until(self, true: Callable[[Run], Any]) -> Run:
        """The run when something is true of it. Raises Ended when it ends before."""
        while not true(run := await self.run.refresh()):
            if run["state"] in ENDED:
                raise Ended(f"the run is {run['state']}")
            await asyncio.sleep(LOOK_EVERY)
        return run


def unit_id(role: str, run_id: str) -> str:
    """The id under which an agent publishes its unit; short, for people."""
    return f"{role}/{run_id[:8]}"


class Ended(Exception):
    """The run ended before the work was done."""


async def research(work: Work, root: Path) -> None:
    """Read the folder for real, and end the run when the report is written."""
    reader = FolderReader(root)
    async with work.step("list_files", "Looking for files") as step:
        listing = await asyncio.to_thread(reader.listing)
        step.detail["found"] = counted(len(listing.files), "file")
    async with work.step("count_lines", "Counting lines by language") as step:
        lines = await asyncio.to_thread(reader.lines, listing.files)
        step.detail["found"] = counted(lines.lines.total(), "line")
    async with work.step(RESEARCHED, "Looking for TODOs") as step:
        count, _ = await asyncio.to_thread(reader.todos, lines.text)
        step.detail |= {"found": counted(count, "TODO"), "notes": headline(listing, lines, count)}
    await work.show("waiting_tool")
    await work.until(lambda run: done(run, CLOSED))
    await work.show("terminal")
    await work.run.complete()


async def write(work: Work) -> None:
    """Make a report of what was found, once it may be."""
    await work.show("waiting_tool")
    notes = await work.until(lambda run: done(run, RESEARCHED))
    found = done(notes, RESEARCHED)
    async with work.step(DRAFTED, "Drafting the report") as step:
        step.detail["found"] = printable(found["detail"]["notes"] if found else "", 500)
    await work.show("waiting_input")
    await work.until(approved)
    async with work.step(WRITTEN, "Writing the report") as step:
        step.detail["found"] = "1 page"
    async with work.step(CLOSED, "Asking to close the run") as step:
        try:
            await work.run.complete()
        except StatusNotYours as refused:  # it is the entry agent's to end
            step.detail["found"] = f"refused: {refused.code}"
    await work.show("terminal")


def done(run: Run, name: str) -> RunStep | None:
    """The step of that name, once it has completed."""
    return next((step for step in ordered(run) if step["name"] == name and step["status"] == "completed"), None)


def approved(run: Run) -> bool:
    """Whether the registrar lets them go on."""
    return any(event.get("kind") == APPROVAL for event in run.get("governance_events", []))


async def serve(options: argparse.Namespace, token: str) -> int:
    """Work until the work is done; the exit status."""
    working = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096) and working is not None:
            loop.remove_reader(sys.stdin)
            working.cancel()

    if options.until_eof:
        loop.add_reader(sys.stdin, heard)
    try:
        async with Rest(options.url, token) as rest:
            work = Work(rest, await RegisteredRun.find(rest, options.run), options.role, options.pace)
            _log.info("working on %s", options.run)
            await (research(work, options.root) if options.role == RESEARCHER else write(work))
    except (Problem, Unreachable, Ended) as error:
        _log.error("stopped: %s", error)
        return 1
    except asyncio.CancelledError:
        _log.warning("stopped: who started it is gone")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m livebox.demo.fleet_agent", description=__doc__)
    parser.add_argument("--url", required=True, help="the server")
    parser.add_argument("--token-file", type=Path, required=True, help="a file with the token of this agent")
    parser.add_argument("--run", required=True, help="the registered run")
    parser.add_argument("--role", choices=(RESEARCHER, WRITER), required=True, help="what it does")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder that the researcher reads")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of rest at each step, for people who watch")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        token = options.token_file.read_text().strip()
    except OSError as error:
        parser.error(f"--token-file: {error.strerror}")
    return asyncio.run(serve(options, token))


if __name__ == "__main__":
    sys.exit(main())
