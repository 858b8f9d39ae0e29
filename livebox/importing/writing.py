"""Writes a plan through the public contract. What is there already is compared, so that a repeat does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from generated.models import RecordSpendRequest, RegisterRunRequest, Run, SpendEntry, UpdateRunRequest
from livebox.client import AlreadyRegistered, NotFound, Problem
from livebox.importing.findings import Findings
from livebox.importing.reconciliation import Planned, same
from livebox.importing.records import ENDS, moment

EVENTS_AT_ONCE: Final = 100  # in one request
AT_ONCE: Final = 16  # runs
_COMPARED: Final = (
    *("agent_id", "intent", "task", "user_dims", "mode", "parent_run_id", "parent_span", "external_id", "budget"),
)


class Server(Protocol):
    """What of the client is used."""

    async def get_run(self, run_id: str) -> Run:
        """One run."""

    async def register_run(self, request: RegisterRunRequest) -> Run:
        """Create a run."""

    async def update_run(self, run_id: str, request: UpdateRunRequest) -> Run:
        """Report on it."""

    async def record_spend(self, run_id: str, request: RecordSpendRequest, *, entry_id: str) -> SpendEntry:
        """Add an entry to its ledger."""


@dataclass(slots=True)
class Written:
    """The ids of the runs that were registered, that were there and got something more, and that had it all."""

    registered: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)


async def look(server: Server, planned: Iterable[Planned]) -> dict[str, Run]:
    """Which runs, and which of their parents, the server has and shows already."""
    wanted = {each.run_id for each in planned} | {each.parent for each in planned if each.parent is not None}
    found: dict[str, Run] = {}
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: str) -> None:
        async with turn:
            with suppress(NotFound):
                found[run_id] = await server.get_run(run_id)

    await _together(one(run_id) for run_id in sorted(wanted))
    return found


def compare(planned: Sequence[Planned], there: Mapping[str, Run], findings: Findings) -> list[Planned]:
    """Those that are not there, or are there as they are planned; what is wrong with the others is told."""
    fitting = []
    for each in planned:
        run = there.get(each.run_id)
        if run is not None:
            wrong = differences(each, run)
            if wrong:
                findings.add("differs_on_server", ", ".join(wrong), each.run_id, each.where)
                continue
            if run["state"] in ENDS and each.status in ENDS and run["state"] != each.status:
                text = f"{run['state']} there, {each.status} here"
                findings.add("ended_otherwise", text, each.run_id, each.where)
                continue
            if run["state"] in ENDS and (each.status not in ENDS or missing(each, run)):
                findings.add("moved_on", f"it is {run['state']} there", each.run_id, each.where)
        fitting.append(each)
    return fitting


def differences(plan: Planned, run: Run) -> list[str]:
    """The members in which the registered run is another than the planned one."""
    stored = cast(Mapping[str, Any], run)
    given = plan.registration
    if "registered_at" not in stored:
        return ["it was not registered but opened by a message"]
    wrong = [name for name in _COMPARED if not same(given.get(name), stored.get(name))]
    if {given["agent_id"], *given.get("agents", [])} != set(stored.get("agents", [])):
        wrong.append("agents")
    starts = [moment(time) for time in (given.get("started_at"), stored.get("reported_started_at")) if time is not None]
    if len(starts) == 1 or len(set(starts)) == 2:
        wrong.append("started_at")
    return wrong


def missing(plan: Planned, run: Run) -> list[dict[str, Any]]:
    """The events of the plan that are not kept with the run yet."""
    kept = list(run.get("governance_events", []))
    left = []
    for event in plan.events:
        at = next((place for place, each in enumerate(kept) if same(each, event)), None)
        if at is None:
            left.append(event)
        else:
            kept.pop(at)
    return left


async def write(server: Server, planned: Sequence[Planned], findings: Findings, written: Written) -> None:
    """Write each run after its parent, several at once, and note it in `written`. What the server refuses is told, and
    holds back what is below it. Raises Unreachable when the server goes away; the same again goes on from there."""
    done = {plan.run_id: asyncio.Event() for plan in planned}
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(plan: Planned) -> None:
        if plan.parent in done:
            await done[plan.parent].wait()
        if plan.parent in findings.held_back:
            findings.add("parent_held_back", f"parent {plan.parent} is not written", plan.run_id, plan.where)
        else:
            try:
                async with turn:
                    await _write(server, plan, written, findings)
            except Problem as problem:
                findings.add("refused", str(problem), plan.run_id, plan.where)
        done[plan.run_id].set()

    await _together(one(plan) for plan in planned)


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of them at the same time; raises what the first of them raises, and ends the others."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _write(server: Server, plan: Planned, written: Written, findings: Findings) -> None:
    try:
        run = await server.register_run(cast(RegisterRunRequest, plan.registration))
        before = 0
    except AlreadyRegistered:
        run = await server.get_run(plan.run_id)
        before = run["version"]
        if not compare([plan], {plan.run_id: run}, Findings()):
            findings.add(
                "differs_on_server", ", ".join(differences(plan, run)) or run["state"], plan.run_id, plan.where
            )
            return
    await _report(server, plan, run, fresh=not before)
    for entry_id, entry in plan.spend.items():
        await server.record_spend(plan.run_id, cast(RecordSpendRequest, entry), entry_id=entry_id)
    if not before:
        written.registered.append(plan.run_id)
    elif (await server.get_run(plan.run_id))["version"] == before:
        written.unchanged.append(plan.run_id)
    else:
        written.completed.append(plan.run_id)


async def _report(server: Server, plan: Planned, run: Run, *, fresh: bool) -> None:
    """Events before the end, since none is taken after it; steps behind it, and spend last, so that no budget ends a
    run which has ended already. Only a `fresh` run is put where the row has it, others may have gone on."""
    if run["state"] not in ENDS:
        events = missing(plan, run)
        while len(events) > EVENTS_AT_ONCE:
            run = await server.update_run(plan.run_id, {"governance_events": events[:EVENTS_AT_ONCE]})
            events = events[EVENTS_AT_ONCE:]
        stored = cast(Mapping[str, Any], run)
        report = {name: value for name, value in plan.report.items() if plan.status in ENDS or name not in stored}
        if plan.status in ENDS or (fresh and plan.status == "waiting_input"):
            report["status"] = plan.status
        if events:
            report["governance_events"] = events
        if report:
            run = await server.update_run(plan.run_id, cast(UpdateRunRequest, report))
    if plan.steps is not None and run.get("reported_steps", {}).get(run.get("registered_by", ""), -1) < plan.steps:
        await server.update_run(plan.run_id, {"steps": plan.steps})
