"""Lotse: an agent in a process of its own that is asked about folders, reads them and reports.

    python -m livebox.demo.agent --url http://127.0.0.1:8080 --token-file lotse.token --root .

It knows a server, a token and a folder, and talks nothing but the public contract.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from generated.models import Invocation
from livebox.client import Problem, Rest, Unreachable
from livebox.demo.assignment import GONE, Assignment, CancelAsked, NotOurs
from livebox.demo.folder import FolderRefused, folder_asked, resolve
from livebox.demo.folder_report import Bounds, FolderReader, Stopped
from livebox.demo.folder_text import headline, report
from livebox.printable import printable

T = TypeVar("T")

MODEL: Final = "folder-reader"
PATIENCE: Final = 120.0  # seconds that a request is repeated while the server is away
LOOK_EVERY: Final = 0.5  # seconds between looks at the run while a phase goes on
REFUSED_PAUSE: Final = 2.0  # seconds until work is asked for again after a refusal
GRACE: Final = 8.0  # seconds that a stopping agent takes to end its run
IDLE_GRACE: Final = 1.0  # the same without a run: time for the answer to its last claim
_OUTCAST: Final = frozenset({"invalid_token", "token_expired"})

_log = logging.getLogger("lotse")


class Leaving(Exception):
    """The agent was asked to stop."""


class Lotse:
    """Takes runs one after the other and works on them until it is asked to stop.

    It reads only below `root`. `poll` is how many seconds it waits when there is no work, `pace` how many it rests
    between phases, so that people can follow.
    """

    def __init__(
        self, rest: Rest, root: Path, *, poll: float = 0.25, pace: float = 0.0, bounds: Bounds | None = None
    ) -> None:
        self._rest = rest
        self._root = root
        self._poll = poll
        self._pace = pace
        self._bounds = bounds or Bounds()
        self._leaving = asyncio.Event()
        self.working = False

    def leave(self) -> None:
        """Take no more work, end the present run as failed, and return from `serve`."""
        self._leaving.set()

    async def serve(self) -> None:
        """Work until `leave` is called. Raises Problem when the server does not know this agent."""
        claim_id = str(uuid.uuid4())
        while not self._leaving.is_set():
            try:
                claimed = await self._rest.claim_invocations(claim_id)
            except Unreachable:
                continue  # with the same claim: its answer may be what was lost
            except Problem as problem:
                if problem.code in _OUTCAST:
                    raise
                _log.warning("could not take work: %s", problem)
                await self._rest_for(max(self._poll, REFUSED_PAUSE))
                continue
            claim_id = str(uuid.uuid4())
            for invocation in claimed["items"]:
                if not self._leaving.is_set():  # what is not begun goes to another claim after the lease
                    await self._work(invocation)
            if not claimed["items"]:
                await self._rest_for(self._poll)

    async def _work(self, invocation: Invocation) -> None:
        """One run from its start to its end, whatever happens."""
        work = Assignment(self._rest, invocation)
        _log.info("run %s: begun", work.run_id)
        self.working = True
        try:
            await self._attempt(work)
        except (NotOurs, Unreachable) as error:
            _log.warning("run %s: given up: %s", work.run_id, error)
        except Problem as problem:
            _log.warning("run %s: could not be ended: %s", work.run_id, problem)
        else:
            _log.info("run %s: %s", work.run_id, work.run["state"])
        finally:
            self.working = False

    async def _attempt(self, work: Assignment) -> None:
        try:
            await work.start(MODEL)
            summary = await self._read_and_report(work)
            await work.finish({"state": "completed", "summary": summary})
        except CancelAsked:
            await work.finish({"state": "cancelled", "summary": "Stopped, as it was asked to."})
        except Leaving:
            await self._fail(work, "Lotse was stopped before it was done.")
        except FolderRefused as refused:
            await self._fail(work, str(refused))
        except Problem as problem:
            if problem.code in GONE:
                raise NotOurs(problem.code) from problem
            await self._fail(work, f"The server did not take a part of the work ({problem.code}).")
        except (NotOurs, Unreachable):
            raise
        except Exception as error:
            _log.exception("run %s: failed", work.run_id)
            await self._fail(work, f"Lotse ran into an error of its own ({type(error).__name__}).")

    async def _fail(self, work: Assignment, summary: str) -> None:
        await work.finish({"state": "failed", "reason": "runtime_error", "summary": summary})

    async def _read_and_report(self, work: Assignment) -> str:
        """The phases, each a step; gives the summary."""
        asked = folder_asked(work.text)
        halt = threading.Event()
        async with work.step("find_folder", f"Finding the folder {printable(asked, 100)}") as step:
            step.detail["asked"] = printable(asked)
            folder = resolve(self._root, asked)
            name = step.detail["folder"] = printable(folder.relative_to(self._root.resolve()).as_posix())
        reader = FolderReader(folder, self._bounds, halt.is_set)

        async def phase(function: Callable[[], T]) -> T:
            return await self._phase(work, halt, function)

        async with work.step("list_files", "Looking for files") as step:
            try:
                listing = await phase(reader.listing)
            except OSError as error:
                raise FolderRefused(f"The folder {name} cannot be read.") from error
            step.detail = listing.detail()
        async with work.step("count_lines", "Counting lines by language") as step:
            lines = await phase(lambda: reader.lines(listing.files))
            step.detail = lines.detail(self._bounds)
        async with work.step("find_largest", "Finding the largest files") as step:
            largest = await phase(lambda: reader.largest(listing.files))
            step.detail = {"largest": [{"path": printable(file.path), "bytes": file.size} for file in largest]}
        async with work.step("find_todos", "Looking for TODOs") as step:
            count, first = await phase(lambda: reader.todos(lines.text))
            step.detail = {"todos": count, "first": [todo._asdict() for todo in first]}
        async with work.step("report", "Writing the report", "text"):
            await work.say(report(name, listing, lines, largest, (count, first)))
        return headline(listing, lines, count)

    async def _phase(self, work: Assignment, halt: threading.Event, function: Callable[[], T]) -> T:
        """Run the blocking `function` in a thread; halt it when the run is cancelled or the agent leaves."""
        await self._look(work)
        reading = asyncio.create_task(asyncio.to_thread(function))
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await self._rest_for(self._pace)
            while not reading.done():
                await asyncio.wait({reading, leaving}, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    await self._look(work)
            return reading.result()
        finally:
            leaving.cancel()
            if not reading.done():
                halt.set()
                with suppress(Stopped, OSError):
                    await reading

    async def _look(self, work: Assignment) -> None:
        if self._leaving.is_set():
            raise Leaving
        await work.look()

    async def _rest_for(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), seconds)


async def run(url: str, token: str, root: Path, *, poll: float, pace: float, until_eof: bool) -> int:
    """Serve until SIGTERM, SIGINT or (`until_eof`) the end of standard input; gives the exit status."""
    loop = asyncio.get_running_loop()
    async with Rest(url, token, patience=PATIENCE) as rest:
        lotse = Lotse(rest, root, poll=poll, pace=pace)
        serving = asyncio.create_task(lotse.serve())

        was_working = False

        def leave() -> None:
            nonlocal was_working
            was_working = lotse.working
            lotse.leave()
            loop.call_later(GRACE if lotse.working else IDLE_GRACE, serving.cancel)

        def heard() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin)
                leave()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, leave)
        if until_eof:
            loop.add_reader(sys.stdin, heard)
        _log.info("reading below %s, for %s", root, url)
        try:
            await serving
        except Problem as problem:
            _log.error("the server does not take this token: %s", problem)
            return 1
        except asyncio.CancelledError:
            _log.warning("stopped without an answer from the server")
            return 1 if was_working else 0
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m livebox.demo.agent", description=__doc__)
    parser.add_argument("--url", required=True, help="the server")
    parser.add_argument("--token-file", type=Path, required=True, help="a file with the token of this agent")
    parser.add_argument("--root", type=Path, required=True, help="the folder below which it may read")
    parser.add_argument("--poll", type=float, default=0.25, help="seconds between questions for work")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of rest between phases, for people who watch")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        token = options.token_file.read_text().strip()
    except OSError as error:
        parser.error(f"--token-file: {error.strerror}")
    if not options.root.is_dir():
        parser.error("--root: is not a folder")
    return asyncio.run(
        run(options.url, token, options.root, poll=options.poll, pace=options.pace, until_eof=options.until_eof)
    )


if __name__ == "__main__":
    sys.exit(main())
