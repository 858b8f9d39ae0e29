"""`livebox run register | update | spend`: registered runs by hand, as their registrar or one of their agents."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from generated.models import GovernanceEvent, RunSpend, RunState, SpendEntry, SpendTotals, UpdateRunRequest
from livebox.box import money
from livebox.client import RegisteredRun, Rest
from livebox.commands._agents import agent_ids
from livebox.commands._server import Server, server_options
from livebox.commands._terminal import table
from livebox.printable import printable

_STATES = ("queued", "running", "waiting_input", "completed", "failed", "cancelled")


@click.command("register")
@click.option("--agent", required=True, metavar="AGENT", help="The entry agent, by id or handle: it ends the run.")
@click.option("--with", "others", metavar="AGENT", multiple=True, help="Another agent that may report on it.")
@click.option("--id", "run_id", metavar="UUID", help="The id of the run; made up when not given.")
@click.option("--queued", is_flag=True, help="It has not begun yet.")
@click.option("--intent", metavar="TEXT", help="What it is for, in a few words.")
@click.option("--task", metavar="TEXT", help="What is to be done.")
@click.option("--dim", "dims", metavar="NAME=VALUE", multiple=True, help="What its costs are told apart by.")
@click.option("--mode", metavar="TEXT", help="A word of your own for how it is run.")
@click.option("--parent", metavar="RUN_ID", help="The run above it.")
@click.option("--external-id", metavar="TEXT", help="Its id in another scheme.")
@click.option("--started-at", metavar="TIME", help="When it began by your clock, with an offset.")
@click.option("--max-tokens", type=click.IntRange(1), help="A budget: reaching it ends the run.")
@click.option("--max-steps", type=click.IntRange(1), help="The same in steps.")
@click.option("--max-cost", metavar="MICROS:CURRENCY", help="The same in cost, such as 5000000:EUR for five euros.")
@click.option("--json", "as_json", is_flag=True, help="The run document, instead of its id alone.")
@server_options
def register(
    agent: str,
    others: tuple[str, ...],
    run_id: str | None,
    queued: bool,
    dims: tuple[str, ...],
    parent: str | None,
    max_tokens: int | None,
    max_steps: int | None,
    max_cost: str | None,
    as_json: bool,
    url: str | None,
    token_file: Path | None,
    **texts: str | None,
) -> None:
    """Register a run that no message opens, and print its id.

    What is registered stays as it is. For services, agents and owners.
    """
    budget: dict[str, Any] = {
        **({"tokens": max_tokens} if max_tokens else {}),
        **({"steps": max_steps} if max_steps else {}),
        **({"cost": _cost(max_cost)} if max_cost else {}),
    }
    given: dict[str, Any] = {"run_id": _uuid(run_id, "--id"), "parent_run_id": _uuid(parent, "--parent"), **texts}
    user_dims = _pairs(dims)

    async def registered(rest: Rest) -> RegisteredRun:
        entry, *more = await agent_ids(rest, (agent, *others))
        return await RegisteredRun.register(
            rest,
            agent_id=entry,
            agents=more,
            state="queued" if queued else "running",
            user_dims=user_dims,
            budget=cast(Any, budget),
            **given,
        )

    run = Server(url, token_file).run(registered)
    click.echo(msgspec.json.encode(run.run).decode() if as_json else run.id)


@click.command("update")
@click.argument("run_id")
@click.option("--status", type=click.Choice(_STATES), help="Where it goes; only its entry agent and registrar end it.")
@click.option("--steps", type=click.IntRange(0), help="How many steps you have taken.")
@click.option("--cost-micros", type=click.IntRange(0), help="What it has cost, where no spend is recorded.")
@click.option("--halt-reason", metavar="TEXT", help="Why it was halted; a failed run needs it.")
@click.option("--detector", metavar="TEXT", help="What halted it.")
@click.option("--ended-at", metavar="TIME", help="When it ended by your clock, with an offset; only with an end.")
@click.option("--event", "events", metavar="JSON", multiple=True, help="An object to keep with the run.")
@click.option("--json", "as_json", is_flag=True, help="The run document.")
@server_options
def update(
    run_id: str,
    status: str | None,
    events: tuple[str, ...],
    as_json: bool,
    url: str | None,
    token_file: Path | None,
    **facts: Any,
) -> None:
    """Report on the registered run RUN_ID: all of it is taken, or nothing."""
    request = cast(UpdateRunRequest, {name: value for name, value in facts.items() if value is not None})
    if status is not None:
        request["status"] = cast(RunState, status)
    if events:
        request["governance_events"] = [_event(text) for text in events]
    if not request:
        raise click.UsageError("say what to report: see `livebox run update --help`")
    run = Server(url, token_file).run(lambda rest: rest.update_run(run_id, request))
    if as_json:
        click.echo(msgspec.json.encode(run).decode())
        return
    counted = sum(run.get("reported_steps", {}).values())
    reason = f" ({run['state_reason']})" if "state_reason" in run else ""
    click.echo(f"{run['state']}{reason}\tversion {run['version']}\t{counted} steps reported")


@click.command("spend")
@click.argument("run_id")
@click.argument("amount_micros", type=click.IntRange(0), required=False)
@click.argument("currency", required=False)
@click.option("--tokens", type=click.IntRange(0), help="How many tokens that were.")
@click.option("--agent", metavar="AGENT", help="Whose spend it is, by id or handle; your own by default.")
@click.option("--entry", "entry_id", metavar="UUID", help="An id of your own: the same one counts once.")
@click.option("--json", "as_json", is_flag=True, help="The entry, or what was spent, as JSON.")
@server_options
def spend(
    run_id: str,
    amount_micros: int | None,
    currency: str | None,
    tokens: int | None,
    agent: str | None,
    entry_id: str | None,
    as_json: bool,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Record what the run RUN_ID has spent: AMOUNT_MICROS, millionths of the CURRENCY. Without an amount, show it."""
    server = Server(url, token_file)
    if amount_micros is None:
        if tokens is not None or agent is not None or entry_id is not None:
            raise click.UsageError("an entry needs AMOUNT_MICROS and CURRENCY")
        _print_spend(*server.run(lambda rest: _spent(rest, run_id)), as_json=as_json)
        return
    if currency is None:
        raise click.UsageError("an amount needs its CURRENCY, such as EUR")
    known = _uuid(entry_id, "--entry")

    async def recorded(rest: Rest) -> SpendEntry:
        request: Any = {"amount_micros": amount_micros, "currency": currency}
        if tokens is not None:
            request["tokens"] = tokens
        if agent is not None:
            (request["agent_id"],) = await agent_ids(rest, (agent,))
        return await rest.record_spend(run_id, request, entry_id=known)

    entry = server.run(recorded)
    if as_json:
        click.echo(msgspec.json.encode(entry).decode())
    else:
        late = "\tafter the end" if "late" in entry else ""
        click.echo(f"{entry['id']}\t{entry['amount_micros'] / 1e6:,.4f} {entry['currency']}{late}")


async def _spent(rest: Rest, run_id: str) -> tuple[RunSpend, dict[str, str]]:
    spent = await rest.get_run_spend(run_id)
    ids = [each["agent_id"] for each in spent.get("agents", [])]
    return spent, {agent_id: (await rest.get_principal(agent_id))["handle"] for agent_id in ids}


def _print_spend(spent: RunSpend, handles: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(spent).decode())
        return
    lines: list[tuple[str, str, SpendTotals | None, SpendTotals]] = [
        ("all", "", spent["own"], spent["subtree"]),
        *(("agent", handles[of["agent_id"]], of.get("own"), of["subtree"]) for of in spent.get("agents", [])),
        *((of["name"], of["value"], of.get("own"), of["subtree"]) for of in spent.get("dimensions", [])),
    ]
    table(
        ("", "", "entries", "tokens", "own", "with runs below"),
        [
            (
                *(printable(kind), printable(name), subtree["entries"], subtree.get("tokens", "")),
                *(_amounts(own), _amounts(subtree)),
            )
            for kind, name, own, subtree in lines
        ],
    )


def _amounts(totals: SpendTotals | None) -> str:
    return "" if totals is None else ", ".join(money(cost) for cost in totals.get("costs", []))


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not (name and mark and value):
            raise click.BadParameter(f"{each} is not of the form NAME=VALUE", param_hint="--dim")
        if name in pairs:
            raise click.BadParameter(f"{name} is given twice", param_hint="--dim")
        pairs[name] = value
    return pairs


def _cost(given: str) -> dict[str, Any]:
    micros, mark, currency = given.partition(":")
    if not (micros.isascii() and micros.isdecimal() and mark and currency):
        raise click.BadParameter(f"{given} is not of the form MICROS:CURRENCY", param_hint="--max-cost")
    return {"amount_micros": int(micros), "currency": currency, "is_estimate": False}


def _uuid(given: str | None, option: str) -> str | None:
    if given is None:
        return None
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise click.BadParameter(f"{given} is no UUID", param_hint=option) from None


def _event(text: str) -> GovernanceEvent:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise click.BadParameter(f"{printable(text, 60)} is no JSON object", param_hint="--event")
    return event
