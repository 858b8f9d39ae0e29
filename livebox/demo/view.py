"""How the demo shows a run while it goes: a live box on a terminal, plain lines elsewhere, one line at the end."""

from __future__ import annotations

from typing import Any, Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from generated.models import Run, RunStep
from livebox.demo.folder_text import counted, size
from livebox.printable import printable

_MARKS: Final = {"completed": "✓", "failed": "✗", "cancelled": "-"}
_STYLES: Final = {"completed": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "queued": "dim"}


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
                self._print(f"    {_MARKS[step['status']]} {described(step)}")

    def close(self) -> None:
        """Lines stay as they are."""

    def ended(self, run: Run) -> None:
        """The run in one line."""
        self._print(summary(run, self._agent))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveBox:
    """A box that changes in place."""

    def __init__(self, console: Console, agent: str) -> None:
        self._console = console
        self._agent = agent
        self._states: list[str] = []
        self._run: Run | None = None
        self._spinner = Spinner("dots")
        self._live = Live(self, console=console, transient=True, refresh_per_second=12)
        self._live.start()

    def state(self, state: str) -> None:
        """The title shows the states so far."""
        self._states.append(state)

    def run(self, run: Run) -> None:
        """Shown at the next refresh."""
        self._run = run

    def close(self) -> None:
        """The box goes away."""
        self._live.stop()

    def ended(self, run: Run) -> None:
        """A line stays."""
        text = summary(run, self._agent)
        self._console.print(Text(text, style=_STYLES[run["state"]]), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        steps = Table.grid(padding=(0, 1))
        for step in ordered(self._run) if self._run else []:
            status = step["status"]
            mark: RenderableType = self._spinner if status == "running" else Text(_MARKS[status], _STYLES[status])
            steps.add_row(mark, Text(described(step)))
        title = Text(" → ").join(Text(state, _STYLES.get(state, "")) for state in self._states)
        body: RenderableType = steps if steps.row_count else Text("waiting for the agent", "dim")
        return Panel(Group(body), title=Text(f"{self._agent} ") + title, title_align="left", expand=False)


def ordered(run: Run) -> list[RunStep]:
    """The steps of the run document, in their order."""
    return sorted(run.get("steps", {}).values(), key=lambda step: step["ordinal"])


def described(step: RunStep) -> str:
    """A step with what it found, in one line."""
    found = _found(step.get("detail", {}))
    return printable(f"{step.get('title') or step['name']}{f': {found}' if found else ''}")


def summary(run: Run, agent: str) -> str:
    """The ended run in one line."""
    state = run["state"]
    facts = [f"{_MARKS[state]} {agent} {state}"]
    if "state_reason" in run:
        facts[0] += f" ({run['state_reason']})"
    if "duration_ms" in run:
        facts[0] += f" in {run['duration_ms'] / 1000:.1f} s"
    facts.append(counted(run["step_count"], "step"))
    return printable(", ".join(facts) + (f": {run['summary']}" if "summary" in run else ""), 400)


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
