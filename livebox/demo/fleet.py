"""The demo of a registered run: two agents in two processes work on it, and it ends as it was registered."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click

from generated.models import AgentRunSnapshot, Run, RunSpend
from livebox.box import MARKS, line, money, ordered
from livebox.client import ENDED, RegisteredRun, Rest
from livebox.demo.fleet_agent import APPROVAL, DRAFTED, RESEARCHER, WRITER, approved, done
from livebox.demo.launcher import Launcher, while_alive
from livebox.demo.process import AgentProcess
from livebox.demo.scenario import PATIENCE, Unexpected
from livebox.printable import printable
from livebox.unit_names import names
from livebox.units import tree
from livebox.world import OWNER, World

ENTRY: Final = "lotse"
SECOND: Final = "texter"
ROLES: Final = {ENTRY: RESEARCHER, SECOND: WRITER}
BY: Final = {RESEARCHER: "Lotse", WRITER: "Texter"}
DIMS: Final = {"team": "support", "cost_centre": "4711"}
LOOK_EVERY: Final = 0.03  # seconds


class FleetLauncher(Launcher):
    """Registers a run as the owner, starts its agents, shows the units of work, and looks whether all is true."""

    async def _act(self, url: str, world: World, asked_to_stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            token = self._token("alex")
            owner = await stack.enter_async_context(Rest(url, self._token(OWNER)))
            alex = await stack.enter_async_context(Rest(url, token))
            run = await RegisteredRun.register(
                owner,
                agent_id=world.principals[ENTRY],
                agents=[world.principals[SECOND]],
                intent="folder report",
                task="Find out what is in the folder, and write it up.",
                user_dims={"user_id": world.principals["alex"], **DIMS},
                budget={"tokens": 100_000},
            )
            click.echo(f"\nThe owner registered the run {run.id} for Lotse, and Texter may report on it.")
            agents = [self._agent(handle, url, run.id) for handle in (ENTRY, SECOND)]
            for agent in agents:
                await stack.enter_async_context(agent)
                click.echo(f"{agent.name} runs as process {agent.pid}, the {ROLES[agent.name.lower()]}.")
            click.echo("They ask no model: the tokens and the cost that they report are simulated.\n")
            try:
                async with asyncio.timeout(PATIENCE):
                    await while_alive([agent.failed() for agent in agents], self._work(run, alex))
                    for agent in agents:
                        await agent.ended()
            except TimeoutError:
                raise Unexpected(f"the run has not ended after {PATIENCE:.0f} s") from None
            click.echo("\nlivebox ps, when it has ended:")
            await self._show(alex, run)
            check(run.run, await alex.get_run_spend(run.id), world, [unit async for unit in run.snapshots()])
            self._done = True
            if not self._options.exit_when_done:
                _invite(url, token, run.id)
                await asked_to_stop.wait()
                click.echo("Stopping.")

    def _agent(self, handle: str, url: str, run_id: str) -> AgentProcess:
        arguments = ["--url", url, "--run", run_id, "--role", ROLES[handle]]
        arguments += ["--root", str(self._options.root), "--pace", str(self._options.pace)]
        module = "livebox.demo.fleet_agent"
        return AgentProcess(self._folder, BY[ROLES[handle]], self._token(handle), module, arguments)

    async def _work(self, run: RegisteredRun, alex: Rest) -> None:
        """Tell each step as it is done; let the agents go on once the draft is there; until the run has ended."""
        told: set[str] = set()
        while True:
            now = await run.refresh()
            for step in ordered(now):
                if step["status"] != "running" and step["id"] not in told:
                    told.add(step["id"])
                    found = step.get("detail", {})
                    title, by = step.get("title", ""), BY.get(found.get("by", ""), "?")
                    click.echo(printable(f"{MARKS[step['status']]} {by}: {title}: {found.get('found', '')}", 200))
            if now["state"] in ENDED:
                return
            if done(now, DRAFTED) and not approved(now) and await self._both_wait(run):
                click.echo("\nlivebox ps, while it runs:")
                await self._show(alex, run)
                click.echo("\nThe owner approves the draft.")
                await run.report(governance_events=[{"kind": APPROVAL, "by": OWNER}])
            await asyncio.sleep(LOOK_EVERY)

    async def _both_wait(self, run: RegisteredRun) -> bool:
        """Whether both agents show that they wait, the writer for its approval."""
        states = {unit["run_id"].partition("/")[0]: unit["state"] async for unit in run.snapshots()}
        return states.get(WRITER) == "waiting_input" and states.get(RESEARCHER) == "waiting_tool"

    async def _show(self, alex: Rest, run: RegisteredRun) -> None:
        """The tree, as `livebox ps RUN_ID` draws it for Alex, whom the run is for."""
        units = [unit async for unit in alex.list_run_snapshots(run.id)]
        self._console.print(tree(units, await names(alex, units)))
        if run.run["state"] in ENDED:
            click.echo("\n" + ending(run.run, await alex.get_run_spend(run.id)))


def ending(run: Run, spend: RunSpend) -> str:
    """The ended run in one line: its entry agent, dimensions, steps and cost over both agents."""
    steps = _by_name(run, {agent: f"{count}" for agent, count in run.get("reported_steps", {}).items()})
    costs = _by_name(
        run,
        {
            each["agent_id"]: ", ".join(money(cost) for cost in each["own"].get("costs", []))
            for each in spend.get("agents", [])
            if "own" in each
        },
    )
    dims = ", ".join(f"{name}={value}" for name, value in run.get("user_dims", {}).items() if name != "user_id")
    return printable(f"{line(run, 'Lotse')}; steps: {steps}; cost: {costs}; {dims}", 400)


def _by_name(run: Run, values: Mapping[str, str]) -> str:
    known = dict(zip(run.get("agents", []), BY.values(), strict=False))
    return " + ".join(
        f"{known.get(agent, agent)} {values[agent]}" for agent in run.get("agents", []) if agent in values
    )


def check(run: Run, spend: RunSpend, world: World, units: list[AgentRunSnapshot]) -> None:
    """Raise Unexpected unless the run is as it was registered and holds what both agents did."""
    agents = [world.principals[ENTRY], world.principals[SECOND]]
    costs = {each["agent_id"]: _micros(each["own"]) for each in spend.get("agents", []) if "own" in each}
    steps = run.get("reported_steps", {})
    for what, is_now, must_be in (
        ("state", run["state"], "completed"),
        ("entry agent", run["agent_id"], agents[0]),
        ("agents", run.get("agents"), agents),
        ("dimensions", run.get("user_dims"), {"user_id": world.principals["alex"], **DIMS}),
        ("who reported steps", sorted(steps), sorted(agents)),
        ("steps over both", run["step_count"], sum(steps.values())),
        ("who spent", sorted(costs), sorted(agents)),
        ("cost over both", run.get("cost", {}).get("amount_micros"), sum(costs.values())),
        ("tokens", spend["own"].get("tokens"), sum(each.get("tokens_used", 0) for each in _budgets(units, "direct"))),
        ("units that have not ended", [unit["run_id"] for unit in units if unit["state"] != "terminal"], []),
        ("number of units", len(units), 3),
    ):
        if is_now != must_be:
            raise Unexpected(f"{what}: {is_now!r} instead of {must_be!r}")


def _micros(totals: Mapping[str, object]) -> int:
    costs = totals.get("costs", [])
    return sum(cost["amount_micros"] for cost in costs) if isinstance(costs, list) else 0


def _budgets(units: list[AgentRunSnapshot], source: str) -> list[Mapping[str, int]]:
    return [unit["budget"] for unit in units if unit["source"] == source]  # type: ignore[misc]


def _invite(url: str, token: str, run_id: str) -> None:
    """Lines to paste."""
    click.echo(f"\nThe server stays up at {url} until you press Ctrl-C. Look at the run as Alex:\n")
    if shutil.which("livebox") is None:
        click.echo(f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH")
    click.echo(f"export LIVEBOX_URL={shlex.quote(url)} LIVEBOX_TOKEN={token}")
    click.echo("livebox ps --all")
    click.echo(f"livebox ps {run_id}")
    click.echo(f"livebox run spend {run_id}")
    click.echo(f"livebox run show {run_id}")
