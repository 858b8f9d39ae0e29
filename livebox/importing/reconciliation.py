"""Joins registrations with run rows, and decides what of each is right where they do not hang together."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from generated.validators import BODY_ERRORS
from livebox.importing.findings import Findings
from livebox.importing.records import ENDS, IDS, MOST, Registration, Row, moment

EVENT: Final = "livebox.import"  # `kind` of the event that says where a run came from
NOT_RECORDED: Final = "not recorded"
Unreported = Literal["running", "queued", "skip"]


@dataclass(slots=True)
class Planned:
    """What is to be written of one run, as bodies of requests; `status` is the one that it comes to."""

    run_id: str
    where: str
    registration: dict[str, Any]
    status: str
    report: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    steps: int | None = None
    spend: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def parent(self) -> str | None:
        """The id of the run above it."""
        found: str | None = self.registration.get("parent_run_id")
        return found


class Reconciliation:
    """One join. `agents` are ids by the names in the files; `unreported` says what a run without a row becomes;
    `unreadable_rows` tells how many rows there are of which not even the run is known."""

    def __init__(
        self,
        findings: Findings,
        agents: Mapping[str, str],
        *,
        unreported: Unreported = "running",
        unreadable_rows: int = 0,
    ) -> None:
        self._findings = findings
        self._agents = agents
        self._unreported = unreported
        self._unreadable_rows = unreadable_rows

    def join(self, registrations: Sequence[Registration], rows: Sequence[Row]) -> list[Planned]:
        """What is to be written, in the order of the registrations. Runs that are held back are not among it."""
        reported: dict[str, list[Row]] = {}
        for row in rows:
            reported.setdefault(row.run_id, []).append(row)
        first = self._first(registrations)
        for run_id in (run_id for run_id in reported if run_id not in first):
            for row in reported[run_id] if run_id not in self._findings.held_back else ():
                self._findings.add("no_registration", f"a row of {row.agent}", run_id, row.where)
        planned = [self._plan(each, self._last(each, reported.get(each.run_id, []))) for each in first.values()]
        found = [each for each in planned if each is not None]
        for each in found:
            self._check(each)
        return [each for each in found if each.run_id not in self._findings.held_back]

    def _first(self, registrations: Iterable[Registration]) -> dict[str, Registration]:
        """One registration of each run."""
        first: dict[str, Registration] = {}
        external: dict[str, str] = {}
        for each in registrations:
            known = first.setdefault(each.run_id, each)
            if known is not each:
                same = known.line == each.line
                kind = "duplicate_line" if same else "conflicting_registrations"
                self._findings.add(
                    kind, f"as {known.where}" if same else f"other than {known.where}", each.run_id, each.where
                )
                continue
            name = each.members.get("external_id")
            if name is not None and external.setdefault(name, each.run_id) != each.run_id:
                for run_id in (external[name], each.run_id):
                    self._findings.add("external_id_twice", name, run_id, first[run_id].where)
        return first

    def _last(self, registration: Registration, rows: Sequence[Row]) -> list[Row]:
        """The last row of each agent, in the order of the file."""
        last: dict[str, Row] = {}
        for row in rows:
            before = last.pop(row.agent, None)
            if before is not None:
                same = before.line == row.line
                self._findings.add(
                    "duplicate_line" if same else "overwritten_row", f"by {row.where}", row.run_id, before.where
                )
            last[row.agent] = row
        for row in last.values():
            self._dimensions(registration, row)
        return list(last.values())

    def _dimensions(self, registration: Registration, row: Row) -> None:
        lost = [name for name in registration.dims if name not in row.dims]
        other = [name for name, value in row.dims.items() if registration.dims.get(name) != value]
        words = [f"{what}: {', '.join(names)}" for what, names in (("lost", lost), ("other", other)) if names]
        if words:
            self._findings.add("wiped_dimensions", "; ".join(words), row.run_id, row.where)

    def _plan(self, given: Registration, rows: list[Row]) -> Planned | None:
        if not rows and self._without_row(given):
            return None
        started_at = self._start(given, rows)
        named = [name for name in dict.fromkeys((*given.agents, *self._reporters(given, rows))) if name != given.agent]
        optional = {
            "agents": [self._agent(name, given.run_id, given.where) for name in named],
            **{"user_dims": dict(given.dims), "budget": dict(given.budget)},
            **{"started_at": started_at, "parent_run_id": given.parent},
        }
        registration: dict[str, Any] = {
            "run_id": given.run_id,
            "agent_id": self._agent(given.agent, given.run_id, given.where),
            **given.members,
            **{name: value for name, value in optional.items() if value},
        }
        last = self._decisive(given, rows)
        status = last.status if last is not None else self._unreported
        if status == "queued":
            registration["state"] = "queued"
        plan = Planned(given.run_id, given.where, registration, status)
        if last is not None:
            self._report(plan, given, rows, last)
        return plan

    def _without_row(self, given: Registration) -> bool:
        """Whether nothing is written of a run without a row."""
        if given.run_id in self._findings.held_back:  # there is one, with something wrong in it
            return True
        if self._unreadable_rows:
            self._findings.add("maybe_unreadable", "no run row", given.run_id, given.where)
            return True
        becomes = "left out" if self._unreported == "skip" else self._unreported
        self._findings.add("no_run_row", becomes, given.run_id, given.where)
        return self._unreported == "skip"

    def _start(self, given: Registration, rows: Iterable[Row]) -> str | None:
        for row in rows:
            if row.started_at is None:
                continue
            if given.started_at is None:
                self._findings.add("start_from_row", row.started_at, row.run_id, row.where)
                return row.started_at
            if moment(row.started_at) != moment(given.started_at):
                text = f"{row.started_at} instead of {given.started_at}"
                self._findings.add("later_start", text, row.run_id, row.where)
        return given.started_at

    def _reporters(self, given: Registration, rows: Iterable[Row]) -> list[str]:
        for row in rows:
            if row.agent != given.agent:
                text = f"{row.agent} instead of {given.agent}"
                self._findings.add("leaf_agent", text, row.run_id, row.where)
                if given.agents and row.agent not in given.agents:
                    self._findings.add("reporter_added", row.agent, row.run_id, row.where)
        return [row.agent for row in rows]

    def _decisive(self, given: Registration, rows: Sequence[Row]) -> Row | None:
        """The row that says how the run is: the entry agent's when that ends it, else the last one that ends it."""
        ends = [row for row in rows if row.status in ENDS]
        own = [row for row in ends if row.agent == given.agent]
        if len({row.status for row in ends}) > 1:
            text = ", ".join(f"{row.agent}: {row.status}" for row in ends)
            self._findings.add("conflicting_ends", text, given.run_id, ends[-1].where)
        return next(reversed(own or ends or list(rows)), None)

    def _report(self, plan: Planned, given: Registration, rows: Sequence[Row], last: Row) -> None:
        self._end(plan, last)
        counted = [row.steps for row in rows if row.steps is not None]
        plan.steps = sum(counted) if counted else None
        silent = {given.agent, *given.agents} - {row.agent for row in rows}
        if silent and any(row.steps is not None or row.cost_micros is not None for row in rows):
            text = f"of {', '.join(row.agent for row in rows)}; nothing is known of {', '.join(sorted(silent))}"
            self._findings.add("one_agents_steps", text, plan.run_id, last.where)
        for row in rows:
            plan.events += [dict(event) for event in row.events]
        for row in rows:
            event: dict[str, Any] = {"kind": EVENT, "agent_id": self._agent(row.agent, row.run_id, row.where)}
            kept = {"agent": row.agent, "steps": row.steps, "tokens": row.tokens, "started_at": row.started_at}
            plan.events.append(event | {name: value for name, value in kept.items() if value is not None})
            self._spend(plan, row)

    def _end(self, plan: Planned, last: Row) -> None:
        for name, value in (("halt_reason", last.halt_reason), ("detector", last.detector)):
            if value is not None:
                plan.report[name] = value
        if last.ended_at is not None and last.status in ENDS:
            plan.report["ended_at"] = last.ended_at
        if last.status == "failed" and not plan.report.get("halt_reason", "").strip():
            self._findings.add("end_without_reason", NOT_RECORDED, plan.run_id, last.where)
            plan.report["halt_reason"] = NOT_RECORDED

    def _spend(self, plan: Planned, row: Row) -> None:
        """One entry for each reporter; its id is always the same, so that it counts once."""
        if row.cost_micros is None:
            if row.tokens is not None:
                self._findings.add("tokens_without_cost", str(row.tokens), row.run_id, row.where)
            return
        agent_id = self._agent(row.agent, row.run_id, row.where)
        entry = {"agent_id": agent_id, "amount_micros": row.cost_micros, "currency": row.currency}
        if row.tokens is not None:
            entry["tokens"] = row.tokens
        plan.spend[str(uuid.uuid5(IDS, f"{row.run_id} {agent_id}"))] = entry

    def _agent(self, name: str, run_id: str, where: str) -> str:
        found = self._agents.get(name)
        if found is None:
            self._findings.add("unknown_agent", name, run_id, where)
            return ""
        return found

    def _check(self, plan: Planned) -> None:
        """Hold each request against the contract, so that the server refuses nothing that could be seen here."""
        if plan.run_id in self._findings.held_back:
            return
        bodies: list[tuple[str, dict[str, Any]]] = [("registerRun", plan.registration)]
        bodies += [("recordSpend", entry) for entry in plan.spend.values()]
        bodies += [("updateRun", {"steps": plan.steps})] if plan.steps is not None else []
        bodies += [("updateRun", plan.report)] if plan.report else []
        bodies += [("updateRun", {"governance_events": [event]}) for event in plan.events]
        for operation, body in bodies:
            for error in BODY_ERRORS[operation](body):
                text = f"{operation} {error.name}: {error.message}"
                self._findings.add("bad_value", text, plan.run_id, plan.where)
        budget = plan.registration.get("budget", {}).get("cost")
        currencies = {entry["currency"] for entry in plan.spend.values()}
        if plan.spend and budget is not None:
            currencies.add(budget["currency"])
        if len(currencies) > 1:
            self._findings.add("bad_currency", " and ".join(sorted(currencies)), plan.run_id, plan.where)
        for name in ("amount_micros", "tokens"):
            if sum(entry.get(name, 0) for entry in plan.spend.values()) > MOST:
                self._findings.add("bad_value", f"the sum of {name} is too large", plan.run_id, plan.where)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
