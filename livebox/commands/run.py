"""`livebox run`: look at runs, ask for one to be cancelled, register runs and report on them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from generated.models import ActiveRunState, Run, RunState, RunSummary
from livebox.box import ordered
from livebox.client import ENDED, Rest
from livebox.commands._registered import register, spend, update
from livebox.commands._server import Server, server_options
from livebox.commands._terminal import table
from livebox.demo.view import described
from livebox.printable import printable

STATES = ("queued", "running", "waiting_input", "completed", "failed", "cancelled")
ACTIVE = STATES[:3]
WAIT_EVERY = 0.2  # seconds

# What `show` prints of a run, in this order, where the run has it.
_FACTS = (
    *("id", "state", "state_reason", "version", "agent_id", "thread_id", "triggered_by", "triggering_message_id"),
    *("model", "headline", "queued_at", "claimed_at", "started_at", "finished_at", "duration_ms", "step_count"),
    *(
        "stalled_since",
        "summary",
        "intent",
        "task",
        "user_dims",
        "mode",
        "parent_run_id",
        "external_id",
        "registered_by",
    ),
    *(
        "agents",
        "budget",
        "cost",
        "reported_steps",
        "reported_started_at",
        "reported_ended_at",
        "halt_reason",
        "detector",
    ),
)


@click.group("run")
def command() -> None:
    """List, show, cancel and register runs on a running server.

    Needs a token: LIVEBOX_TOKEN or --token-file. Where the output is no terminal, columns are separated by tabs.
    """


for each in (register, update, spend):
    command.add_command(each)


@command.command("ls")
@click.option("--thread", metavar="ID", help="The runs of this thread, ended ones too.")
@click.option("--agent", metavar="ID", help="Only active runs of this agent.")
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@server_options
def ls(
    thread: str | None, agent: str | None, state: str | None, as_json: bool, url: str | None, token_file: Path | None
) -> None:
    """List what runs now, or the runs of a thread, newest first."""
    if thread and agent:
        raise click.UsageError("--agent goes with the active runs, not with --thread")
    if not thread and state is not None and state not in ACTIVE:
        raise click.UsageError(f"runs that are {state} are listed by thread: give --thread")

    async def listed(rest: Rest) -> list[RunSummary]:
        runs: AsyncIterator[RunSummary] = (
            rest.list_thread_runs(thread, state=cast(RunState | None, state))
            if thread
            else rest.list_active_runs(agent_id=agent, state=cast(ActiveRunState | None, state))
        )
        return [run async for run in runs]

    found = Server(url, token_file).run(listed)
    if as_json:
        for run in found:
            click.echo(msgspec.json.encode(run).decode())
        return
    table(
        ("id", "state", "reason", "queued", "duration", "steps", "headline"),
        [
            (
                *(run["id"], run["state"], run.get("state_reason", ""), run["queued_at"], _seconds(run)),
                *(run["step_count"], printable(run.get("headline", ""))),
            )
            for run in found
        ],
    )


@command.command("show")
@click.argument("run_id")
@click.option("--follow", is_flag=True, help="Stay until the run has ended; status 1 unless it completed.")
@click.option("--json", "as_json", is_flag=True, help="The run document, one a line.")
@server_options
def show(run_id: str, follow: bool, as_json: bool, url: str | None, token_file: Path | None) -> None:
    """Show the run RUN_ID with its steps."""

    async def shown(rest: Rest) -> Run:
        if not follow:
            run = await rest.get_run(run_id)
            if as_json:
                _print_json(run)
            return run
        async for run in rest.watch_run(run_id, every=WAIT_EVERY):
            if as_json:
                _print_json(run)
            else:
                click.echo(f"{run['state']}\t{run['version']}\t{_last_step(run)}", err=True)
        return run

    run = Server(url, token_file).run(shown)
    if not as_json:
        _print(run)
    if follow and run["state"] != "completed":
        sys.exit(1)


@command.command("cancel")
@click.argument("run_id")
@click.option("--wait", is_flag=True, help="Stay until the run has ended.")
@server_options
def cancel(run_id: str, wait: bool, url: str | None, token_file: Path | None) -> None:
    """Ask for the run RUN_ID to be cancelled.

    A run that has not begun, or waits for input, ends at once; the agent of a running one is asked. Status 1 when the
    run has ended in another way.
    """

    async def cancelled(rest: Rest) -> Run:
        run = await rest.cancel_run(run_id)
        while wait and run["state"] not in ENDED:
            await asyncio.sleep(WAIT_EVERY)
            run = await rest.get_run(run_id)
        return run

    run = Server(url, token_file).run(cancelled)
    if run["state"] not in ENDED:
        click.echo(f"asked: the run is {run['state']} until its agent ends it")
    elif run["state"] == "cancelled":
        click.echo("cancelled")
    else:
        raise click.ClickException(f"the run ended otherwise first: it is {run['state']}")


def _print(run: Run) -> None:
    document = cast(dict[str, Any], run)
    table(("", ""), [(name, printable(_plain(document[name]), 1000)) for name in _FACTS if name in document])
    cancel_asked = run.get("cancel")
    if cancel_asked is not None:
        click.echo(f"cancel\t{cancel_asked.get('outcome', 'asked for')} {cancel_asked['requested_at']}")
    steps = ordered(run)
    if steps:
        click.echo()
        table(
            ("step", "status", "ms", "what"),
            [(step["ordinal"], step["status"], step.get("duration_ms", ""), described(step)) for step in steps],
        )


def _plain(value: Any) -> Any:
    """Objects and lists as JSON, everything else as it is."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _print_json(run: Run) -> None:
    click.echo(msgspec.json.encode(run).decode())


def _last_step(run: Run) -> str:
    steps = ordered(run)
    return described(steps[-1]) if steps else ""


def _seconds(run: RunSummary) -> str:
    return f"{run['duration_ms'] / 1000:.1f} s" if "duration_ms" in run else ""
