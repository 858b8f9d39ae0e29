"""Who works on units of agent work, and on what: their snapshots do not say so, the runs that they belong to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from generated.models import AgentRunSnapshot, Run
from livebox.client import Problem, Rest
from livebox.ids import is_id
from livebox.units import Names

NAMED: Final = 50  # runs that are read
AT_ONCE: Final = 8


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
