"""`livebox ps`: every unit of agent work that one may see, as a tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import click
import msgspec
from rich.console import Console

from generated.models import AgentRunSnapshot, Run, SnapshotSource
from livebox.client import Problem, Rest
from livebox.commands._agents import is_id
from livebox.commands._server import Server, server_options
from livebox.commands._terminal import table
from livebox.units import COLUMNS, Names, rows, tree

SOURCES: Final = ("direct", "workflow", "fleet", "core_job", "task")
LIMIT: Final = 200
NAMED: Final = 50  # runs that are read for the names of their agents and units
AT_ONCE: Final = 8


@click.command("ps")
@click.argument("run_id", required=False)
@click.option("--all", "everything", is_flag=True, help="Also what has ended, the newest first.")
@click.option("--source", type=click.Choice(SOURCES), help="Only units of this source.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=LIMIT, show_default=True, help="How many units at most."
)
@click.option("--explain", is_flag=True, help="Say which members are only told live, and not stored for good.")
@click.option("--json", "as_json", is_flag=True, help="Each unit as a line of JSON, as the server gives it.")
@server_options
def command(
    run_id: str | None,
    everything: bool,
    source: str | None,
    limit: int,
    explain: bool,
    as_json: bool,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Show every unit of agent work as a tree: runs, sub-agents, workflows, jobs, and what others publish.

    With RUN_ID only that run and what is below it, ended or not. Where the output is no terminal, columns are separated
    by tabs. Needs a token: LIVEBOX_TOKEN or --token-file.
    """
    if run_id is not None and (everything or source):
        raise click.UsageError("with RUN_ID everything below it is shown: leave --all and --source away")

    async def found(rest: Rest) -> tuple[list[AgentRunSnapshot], bool, Names]:
        if run_id is not None:
            units, more = await bounded(rest.list_run_snapshots(run_id, explain=explain), limit)
        else:
            units, more = await all_units(rest, cast(SnapshotSource | None, source), everything, limit, explain)
        return units, more, Names() if as_json else await names(rest, units)

    units, more, known = Server(url, token_file).run(found)
    if as_json:
        for unit in units:
            click.echo(msgspec.json.encode(unit).decode())
    elif not (console := Console(highlight=False)).is_terminal:
        table(COLUMNS, rows(units, known))
    elif units:
        console.print(tree(units, known, explain=explain))
    else:
        click.echo("nothing runs; --all shows what has ended" if not everything else "there is nothing yet")
    if more:
        click.echo(f"there is more: {limit} units are shown, --limit shows others", err=True)


async def all_units(
    rest: Rest, source: SnapshotSource | None, everything: bool, limit: int, explain: bool
) -> tuple[list[AgentRunSnapshot], bool]:
    """At most `limit` units, and whether there are more: all, or those that have not ended.

    Paused ones are neither active nor ended; they are looked for among as many of the newest others.
    """
    if everything:
        return await bounded(rest.list_agent_run_snapshots(source=source, explain=explain), limit)
    units, more = await bounded(rest.list_agent_run_snapshots(source=source, active=True, explain=explain), limit)
    others, _ = await bounded(rest.list_agent_run_snapshots(source=source, active=False, explain=explain), limit)
    units += [unit for unit in others if unit["state"] == "paused"]
    return units[:limit], more or len(units) > limit


async def bounded(units: AsyncIterator[AgentRunSnapshot], limit: int) -> tuple[list[AgentRunSnapshot], bool]:
    """The first `limit` units, and whether there are more."""
    found: list[AgentRunSnapshot] = []
    async for unit in units:
        if len(found) == limit:
            return found, True
        found.append(unit)
    return found, False


async def names(rest: Rest, units: Sequence[AgentRunSnapshot]) -> Names:
    """The agents of the runs, and what they and their units are about, as far as one may see it. Reads at most NAMED
    runs, those of active units first."""
    ids = dict.fromkeys(
        unit["run_id"].partition(":")[0]
        for unit in sorted(units, key=lambda unit: unit["state"] == "terminal")
        if is_id(unit["run_id"].partition(":")[0])
    )
    turn = asyncio.Semaphore(AT_ONCE)

    async def read(run_id: str) -> Run | None:
        async with turn:
            with suppress(Problem):
                return await rest.get_run(run_id)
        return None

    runs = [run for run in await asyncio.gather(*map(read, list(ids)[:NAMED])) if run is not None]
    agents = await _agents(rest, {agent for run in runs for agent in _working(run)})
    workers = {run["id"]: ", ".join(agents[agent] for agent in _working(run) if agent in agents) for run in runs}
    titles: dict[str, str] = {}
    for run in runs:
        titles[run["id"]] = run.get("intent") or run.get("summary") or run.get("headline") or run.get("task") or ""
        document = cast(dict[str, Any], run)
        for kind in ("subagents", "workflows", "jobs"):
            titles |= {f"{run['id']}:{kind}:{key}": unit["name"] for key, unit in document.get(kind, {}).items()}
    return Names({name: worker for name, worker in workers.items() if worker}, titles)


def _working(run: Run) -> list[str]:
    return run.get("agents", [run["agent_id"]])


async def _agents(rest: Rest, ids: Iterable[str]) -> dict[str, str]:
    found = {}
    for agent_id in sorted(ids):
        with suppress(Problem):
            found[agent_id] = (await rest.get_principal(agent_id))["display_name"]
    return found
