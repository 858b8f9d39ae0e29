"""`livebox watch`: a run, or everything that runs now, live in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from generated.models import Run, RunSummary
from livebox.box import STYLES, active, box, changes, line
from livebox.client import Livebox, Problem
from livebox.commands._server import Server, server_options
from livebox.demo.view import described
from livebox.printable import printable

REFRESH: Final = 8  # times a second


@click.command("watch")
@click.argument("run_id", required=False)
@click.option("--active", "running_now", is_flag=True, help="Everything that runs now; the same as no RUN_ID.")
@click.option(
    "--json", "as_json", is_flag=True, help="Each document, or each list of what runs now, as a line of JSON."
)
@server_options
def command(run_id: str | None, running_now: bool, as_json: bool, url: str | None, token_file: Path | None) -> None:
    """Watch the run RUN_ID, or everything that runs now, live.

    A run is watched until it has ended, and leaves one line; status 1 unless it completed. Running now goes on until
    Ctrl-C. Where the output is no terminal, each change is a plain line. What is missed while the server is away is
    made up for. Needs a token: LIVEBOX_TOKEN or --token-file.
    """
    if run_id is not None and running_now:
        raise click.UsageError("give either RUN_ID or --active")
    server = Server(url, token_file)
    console = Console(highlight=False)
    live = console.is_terminal and not as_json
    with suppress(KeyboardInterrupt):
        if run_id is None:
            server.run(lambda livebox: _table(livebox, console) if live else _rows(livebox, as_json))
            return
        run = server.run(lambda livebox: _box(livebox, run_id, console) if live else _lines(livebox, run_id, as_json))
        if run["state"] != "completed":
            sys.exit(1)


class Screen:
    """What is shown now; it is drawn again and again, so that times go on."""

    def __init__(self, livebox: Livebox) -> None:
        self._livebox = livebox
        self._spinner = Spinner("dots")
        self.agents: dict[str, str] = {}
        self.run: Run | None = None
        self.runs: list[RunSummary] | None = None

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self.run is not None:
            agent = self.agents.get(self.run["agent_id"], "The run")
            parts.append(box(self.run, agent, describe=described, spinner=self._spinner))
        elif self.runs is not None:
            parts.append(active(self.runs, self.agents))
        if not parts:
            parts.append(Text("connecting", "dim"))
        elif self._livebox.gateway.ready is None:
            parts.append(Text("the server is away", "yellow"))
        return Group(*parts)


async def _box(livebox: Livebox, run_id: str, console: Console) -> Run:
    screen = Screen(livebox)
    with Live(screen, console=console, transient=True, refresh_per_second=REFRESH):
        async for run in livebox.follow_run(run_id):
            await _name(livebox, run["agent_id"], screen.agents)
            screen.run = run
    text = line(run, screen.agents[run["agent_id"]])
    console.print(Text(text, style=STYLES[run["state"]]), soft_wrap=True)
    return run


async def _lines(livebox: Livebox, run_id: str, as_json: bool) -> Run:
    agents: dict[str, str] = {}
    before: Run | None = None
    async for run in livebox.follow_run(run_id):
        if as_json:
            click.echo(msgspec.json.encode(run).decode())
        else:
            for text in changes(before, run, described):
                click.echo(text)
        before = run
    if not as_json:
        await _name(livebox, run["agent_id"], agents)
        click.echo(line(run, agents[run["agent_id"]]))
    return run


async def _table(livebox: Livebox, console: Console) -> None:
    screen = Screen(livebox)
    with Live(screen, console=console, refresh_per_second=REFRESH):
        async for runs in livebox.follow_active():
            for run in runs:
                await _name(livebox, run["agent_id"], screen.agents)
            screen.runs = runs


async def _rows(livebox: Livebox, as_json: bool) -> None:
    before: Mapping[str, RunSummary] = {}
    async for runs in livebox.follow_active():
        if as_json:
            click.echo(msgspec.json.encode(runs).decode())
        now = {run["id"]: run for run in runs}
        for run_id in () if as_json else (run_id for run_id in before if run_id not in now):
            click.echo(f"{run_id}\tended")
        for run in () if as_json else runs:
            if before.get(run["id"]) != run:
                headline = printable(run.get("headline", ""))
                click.echo(f"{run['id']}\t{run['state']}\t{run['step_count']}\t{headline}")
        before = now


async def _name(livebox: Livebox, agent_id: str, known: dict[str, str]) -> None:
    """Find the agent's name; who may see a run may not always see its agent."""
    if agent_id not in known:
        known[agent_id] = "The run"
        with suppress(Problem):
            known[agent_id] = (await livebox.get_principal(agent_id))["display_name"]
