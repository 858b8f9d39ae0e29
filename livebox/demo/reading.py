"""How Lotse reads one folder: phase by phase, each a step, shown in the live box while it goes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from livebox.client import RunHandle, WorkFailed
from livebox.demo.folder import FolderRefused, folder_asked, namesakes, resolve
from livebox.demo.folder_report import IGNORED, Bounds, File, FolderReader, Lines, Listing, Stopped, Todo, together
from livebox.demo.folder_text import counted, headline, report, size
from livebox.printable import printable

T = TypeVar("T")

PLAN: Final = {
    "find_folder": "Find the folder",
    "list_files": "Look for files",
    "count_lines": "Count lines by language",
    "find_largest": "Find the largest files",
    "find_todos": "Look for TODOs",
    "report": "Write the report",
}
SHOW_EVERY: Final = 0.1  # seconds between two looks at how far a reader is
MANY: Final = 20  # files from which on two sub-agents count
# What a model would have used, for the demo: made up, and shown as simulated. It rises ever slower with what was read.
CHARACTERS_PER_TOKEN: Final = 4
CONTEXT_TOKENS: Final = 200_000
FULLEST: Final = 0.7  # of the context, however much is read
HALF_FULL_BYTES: Final = 1_000_000  # read until half of that is used
MICROS_PER_1000_TOKENS: Final = 300


class Reading:
    """One run of Lotse's. `report` gives its summary, or raises WorkFailed with words for people."""

    def __init__(self, run: RunHandle, root: Path, bounds: Bounds, *, pause: float, simulate: bool) -> None:
        self._run = run
        self._root = root
        self._bounds = bounds
        self._pause = pause
        self._simulate = simulate
        self._halt = threading.Event()
        self._readers: list[FolderReader] = []
        self._tool_calls = 0
        self._tokens = 0.0

    async def report(self) -> str:
        """Read and report."""
        for key, title in PLAN.items():
            self._run.plan.item(key, title)
        try:
            name, folder = await self._find()
            return await self._read(name, folder)
        except FolderRefused as refused:
            raise WorkFailed(str(refused)) from refused
        finally:
            self._halt.set()

    async def _find(self) -> tuple[str, Path]:
        """Which folder is meant; asks where there are several."""
        asked = folder_asked(self._run.prompt)
        found = await asyncio.to_thread(namesakes, self._root, asked, IGNORED)
        if len(found) > 1:
            self._run.headline = f"There are several folders named {printable(asked, 100)}"
            choices = {str(number): printable(path) for number, path in enumerate(found, 1)}
            answer = await self._run.ask("Which folder do you mean?", choices)
            asked = found[int(answer.choice) - 1] if answer.choice is not None else folder_asked(f"`{answer.text}`")
        elif found:
            asked = found[0]
        self._begin("find_folder", f"Finding the folder {printable(asked, 100)}")
        async with self._run.step("tool", "find_folder", title=f"Finding the folder {printable(asked, 100)}") as step:
            step.detail["asked"] = printable(asked)
            folder = resolve(self._root, asked)
            await asyncio.sleep(self._pause)
            name = step.detail["folder"] = printable(folder.relative_to(self._root.resolve()).as_posix())
        self._done("find_folder")
        return name, folder

    async def _read(self, name: str, folder: Path) -> str:
        run = self._run
        reader = self._reader(folder, self._bounds)
        self._begin("list_files", "Looking for files")
        async with run.step("tool", "list_files", title="Looking for files") as step:
            try:
                listing = await self._phase(reader.listing)
            except OSError as error:
                raise FolderRefused(f"The folder {name} cannot be read.") from error
            step.detail = listing.detail()
        self._done("list_files", f"{counted(len(listing.files), 'file')}, {size(sum(f.size for f in listing.files))}")
        self._begin("count_lines", "Counting lines by language")
        async with run.step("tool", "count_lines", title="Counting lines by language") as step:
            lines = await self._lines(folder, listing, reader, step.id)
            step.detail = lines.detail(self._bounds)
        self._done("count_lines", counted(lines.lines.total(), "line"))
        largest, (count, first) = await self._largest_and_todos(folder, listing, lines, reader)
        self._begin("report", "Writing the report")
        async with run.step("text", "report", title="Writing the report"):
            await asyncio.sleep(self._pause)
            text = report(name, listing, lines, largest, (count, first))
            run.text.set(text, "markdown")
            await run.say(text, key="report")
        self._done("report")
        run.headline = headline(listing, lines, count)
        return headline(listing, lines, count)

    async def _largest_and_todos(
        self, folder: Path, listing: Listing, lines: Lines, reader: FolderReader
    ) -> tuple[list[File], tuple[int, list[Todo]]]:
        """The largest files, while a background job looks for TODOs."""
        searching: asyncio.Task[tuple[int, list[Todo]]] | None = None
        self._begin("find_largest", "Finding the largest files")
        try:
            async with self._run.step("tool", "find_largest", title="Finding the largest files") as step:
                searching = asyncio.create_task(self._todos(folder, lines))
                largest = await self._phase(lambda: reader.largest(listing.files))
                step.detail = {"largest": [{"path": printable(file.path), "bytes": file.size} for file in largest]}
            self._done("find_largest")
            return largest, await searching
        finally:
            if searching is not None and not searching.done():
                searching.cancel()
                await asyncio.wait({searching})

    async def _lines(self, folder: Path, listing: Listing, reader: FolderReader, step_id: str) -> Lines:
        """Count; many files are divided between two sub-agents that read at the same time."""
        files = listing.files
        if len(files) < MANY:
            return await self._phase(lambda: reader.lines(files), ("count_lines", files, reader))
        half = len(files) // 2
        bounds = replace(self._bounds, bytes_read=self._bounds.bytes_read // 2)
        parts = [
            self._counted(f"reader-{number}", files_of, self._reader(folder, bounds), step_id)
            for number, files_of in enumerate((files[:half], files[half:]), 1)
        ]
        return together(await _all(parts))

    async def _counted(self, key: str, files: Sequence[File], reader: FolderReader, step_id: str) -> Lines:
        run = self._run
        run.subagent(key, "running", name=f"Reader of {counted(len(files), 'file')}", step_id=step_id)
        found = await self._phase(
            lambda: reader.lines(list(files)),
            show=lambda: run.subagent(key, progress=min(reader.files_read / max(len(files), 1), 1.0)),
        )
        run.subagent(key, "terminal", progress=1.0, headline=counted(found.lines.total(), "line"))
        return found

    async def _todos(self, folder: Path, lines: Lines) -> tuple[int, list[Todo]]:
        """In the background, while the largest files are found."""
        run = self._run
        reader = self._reader(folder, self._bounds)
        run.plan.item("find_todos", status="in_progress")
        async with run.step("job", "find_todos", title="Looking for TODOs") as step:
            run.job("todos", "running", name="Looking for TODOs", step_id=step.id)
            count, first = await self._phase(
                lambda: reader.todos(lines.text),
                show=lambda: run.job("todos", progress=min(reader.files_read / max(len(lines.text), 1), 1.0)),
            )
            step.detail = {"todos": count, "first": [todo._asdict() for todo in first]}
        run.job("todos", "terminal", progress=1.0, headline=counted(count, "TODO"))
        self._done("find_todos", counted(count, "TODO"))
        return count, first

    async def _phase(
        self,
        function: Callable[[], T],
        progress: tuple[str, Sequence[File], FolderReader] | None = None,
        *,
        show: Callable[[], None] | None = None,
    ) -> T:
        """Run the blocking `function` in a thread and show how far it is; halt it when the work is cancelled."""
        reading = asyncio.create_task(asyncio.to_thread(function))
        resting = asyncio.create_task(asyncio.sleep(self._pause))
        try:
            while not (reading.done() and resting.done()):
                busy = {each for each in (reading, resting) if not each.done()}
                await asyncio.wait(busy, timeout=SHOW_EVERY)
                if progress is not None:
                    name, files, reader = progress
                    self._run.tool(name, progress=min(reader.files_read / max(len(files), 1), 1.0))
                if show is not None:
                    show()
                self._measure()
            return reading.result()
        finally:
            resting.cancel()
            if not reading.done():
                self._halt.set()
                with suppress(Stopped, OSError):
                    await reading

    def _reader(self, folder: Path, bounds: Bounds) -> FolderReader:
        self._readers.append(FolderReader(folder, bounds, self._halt.is_set))
        return self._readers[-1]

    def _begin(self, key: str, line: str) -> None:
        self._run.plan.item(key, status="in_progress")
        self._run.headline = line
        self._tool_calls += 1

    def _done(self, key: str, found: str = "") -> None:
        self._run.plan.item(key, status="done")
        if found:
            self._run.text.append(f"{PLAN[key]}: {found}\n")
        self._measure()

    def _measure(self) -> None:
        """Count what was done; with `simulate` also what a model would have used for it."""
        self._run.metrics(tool_calls=self._tool_calls)
        if self._simulate:
            read = sum(reader.bytes_read for reader in self._readers)
            used = FULLEST * CONTEXT_TOKENS * read / (read + HALF_FULL_BYTES)
            self._tokens += (used - self._tokens) * min(SHOW_EVERY / max(self._pause, SHOW_EVERY), 1.0)
            tokens = int(self._tokens)
            self._run.metrics(
                input_tokens=tokens,
                output_tokens=len(str(self._run.text)) // CHARACTERS_PER_TOKEN,
                context_used_percent=round(100 * tokens / CONTEXT_TOKENS, 1),
                cost={
                    "amount_micros": tokens * MICROS_PER_1000_TOKENS // 1000,
                    "currency": "EUR",
                    "is_estimate": True,
                },
            )


async def _all(parts: Sequence[Coroutine[None, None, Lines]]) -> list[Lines]:
    """Their results; when one fails the others are ended first."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
