"""How the demo shows a run while it goes: a live box on a terminal, plain lines elsewhere, one line at the end."""

from __future__ import annotations

from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from generated.models import Run, RunStep
from livebox.box import MARKS, STYLES, box, line, ordered
from livebox.demo.folder_text import counted, size
from livebox.printable import printable


class View(Protocol):
    """Shows one run."""

    def state(self, state: str) -> None:
        """The run went to this state."""

    def run(self, run: Run) -> None:
        """The run as it is now."""

    def close(self) -> None:
        """Nothing more will change."""

    def ended(self, run: Run) -> None:
        """The run has ended; it collapses to one line."""


def view(console: Console, agent: str) -> View:
    """The view that suits the console."""
    return LiveBox(console, agent) if console.is_terminal else Lines(console, agent)


class Lines:
    """Each state and each step on a line of its own."""

    def __init__(self, console: Console, agent: str) -> None:
        self._console = console
        self._agent = agent
        self._shown: set[tuple[str, str]] = set()

    def state(self, state: str) -> None:
        """One line."""
        self._print(f"  {state}")

    def run(self, run: Run) -> None:
        """A line for each step that has ended since."""
        for step in ordered(run):
            if step["status"] != "running" and (step["id"], step["status"]) not in self._shown:
                self._shown.add((step["id"], step["status"]))
                self._print(f"    {MARKS[step['status']]} {described(step)}")

    def close(self) -> None:
        """Lines stay as they are."""

    def ended(self, run: Run) -> None:
        """The run in one line."""
        self._print(line(run, self._agent))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveBox:
    """A box that changes in place."""

    def __init__(self, console: Console, agent: str) -> None:
        self._console = console
        self._agent = agent
        self._run: Run | None = None
        self._spinner = Spinner("dots")
        self._live = Live(self, console=console, transient=True, refresh_per_second=12)
        self._live.start()

    def state(self, state: str) -> None:
        """The title of the box shows it."""

    def run(self, run: Run) -> None:
        """Shown at the next refresh."""
        self._run = run

    def close(self) -> None:
        """The box goes away."""
        self._live.stop()

    def ended(self, run: Run) -> None:
        """A line stays."""
        text = line(run, self._agent)
        self._console.print(Text(text, style=STYLES[run["state"]]), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        if self._run is None:
            return Panel(Text("waiting for the agent", "dim"), title=self._agent, title_align="left", expand=False)
        return box(self._run, self._agent, describe=described, spinner=self._spinner)


def described(step: RunStep) -> str:
    """A step with what it found, in one line."""
    found = _found(step.get("detail", {}))
    return printable(f"{step.get('title') or step['name']}{f': {found}' if found else ''}")


def _found(detail: dict[str, Any]) -> str:
    if "files" in detail:
        return (
            f"{counted(detail['files'], 'file')} in {counted(detail['folders'] + 1, 'folder')}, {size(detail['bytes'])}"
        )
    if "languages" in detail:
        return ", ".join(f"{each['name']} {each['lines']:,}" for each in detail["languages"][:4])
    if "largest" in detail:
        return ", ".join(f"{file['path']} ({size(file['bytes'])})" for file in detail["largest"][:2])
    if "todos" in detail:
        return counted(detail["todos"], "TODO")
    return ""
