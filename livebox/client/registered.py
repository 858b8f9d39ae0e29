"""A registered run in the hands of who works on it: its registrar, or one of the agents that the registration names."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal

from generated.models import (
    AgentRunSnapshot,
    GovernanceEvent,
    LiveSnapshot,
    PublishedSnapshot,
    RecordRunStepRequest,
    RecordSpendRequest,
    RegisterRunRequest,
    Run,
    RunBudget,
    RunSpend,
    SpendEntry,
    StepKind,
    StepStatus,
    UpdateRunRequest,
    UpdateRunStepRequest,
)
from livebox.client.draft import fitting
from livebox.client.handle import Step
from livebox.client.problems import Problem, RunEnded, Unreachable
from livebox.client.rest import ENDED, Rest

_KEYS: Final = uuid.UUID("5f1d3a52-7c1e-5b0e-9a43-0d6a1c7e2b94")  # of the ids that are made from a key


class RegisteredRun:
    """One registered run. Several agents work on it, each with a client and a handle of its own.

    Its methods raise the refusals of `Rest`: NotFound, StatusNotYours, RunEnded, CurrencyMismatch and the other
    subclasses of Problem; and Unreachable when no answer came. Whatever they send is safe to send again.
    """

    def __init__(self, rest: Rest, run: Run) -> None:
        self._rest = rest
        self.run = run
        """The run as the server told it last."""

    @classmethod
    async def register(
        cls,
        rest: Rest,
        *,
        agent_id: str,
        run_id: str | None = None,
        agents: Sequence[str] = (),
        state: Literal["queued", "running"] = "running",
        intent: str | None = None,
        task: str | None = None,
        user_dims: Mapping[str, str] | None = None,
        mode: str | None = None,
        parent_run_id: str | None = None,
        parent_span: str | None = None,
        external_id: str | None = None,
        started_at: str | None = None,
        budget: RunBudget | None = None,
    ) -> RegisteredRun:
        """Register a run of the entry agent `agent_id`, on which `agents` may report as well.

        `run_id` is any UUID; one is made up when none is given. `user_dims` is what its costs are told apart by, and
        `user_id` in it names the person whom it is for. `started_at` is a time with an offset, by your clock. All of it
        is written once. A registration whose answer was lost is sent again and registers once.

        Raises AlreadyRegistered, ExternalIdTaken, NotFound for a parent that is not there, Problem `forbidden` for who
        may not register.
        """
        request: RegisterRunRequest = {"run_id": run_id or str(uuid.uuid4()), "agent_id": agent_id, "state": state}
        given: dict[str, Any] = {
            "agents": list(agents),
            "user_dims": dict(user_dims or {}),
            "budget": budget,
            **{"intent": intent, "task": task, "mode": mode, "parent_run_id": parent_run_id},
            **{"parent_span": parent_span, "external_id": external_id, "started_at": started_at},
        }
        request.update({name: value for name, value in given.items() if value})  # type: ignore[typeddict-item]
        return cls(rest, await rest.register_run(request))

    @classmethod
    async def find(cls, rest: Rest, run_id: str) -> RegisteredRun:
        """The run of that id. Raises NotFound when nobody registered it, or it is not for one's eyes."""
        return cls(rest, await rest.get_run(run_id))

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.run["id"]

    async def refresh(self) -> Run:
        """The run as it is now."""
        self.run = await self._rest.get_run(self.id)
        return self.run

    async def report(
        self,
        *,
        steps: int | None = None,
        cost_micros: int | None = None,
        governance_events: Sequence[GovernanceEvent] = (),
    ) -> Run:
        """Tell how many `steps` you have taken yourself (a lower count than before changes nothing), what the run has
        cost in millionths of its currency where nothing is recorded as spend, and events to keep with it."""
        request: UpdateRunRequest = {}
        if steps is not None:
            request["steps"] = steps
        if cost_micros is not None:
            request["cost_micros"] = cost_micros
        if governance_events:
            request["governance_events"] = list(governance_events)
        return await self.update(request)

    async def start(self) -> Run:
        """From `queued` or `waiting_input` to `running`."""
        return await self.update({"status": "running"})

    async def complete(self, *, ended_at: str | None = None) -> Run:
        """End it as completed; for the entry agent and the registrar. The same end again changes nothing."""
        return await self._end({"status": "completed"}, ended_at)

    async def fail(self, halt_reason: str, *, detector: str | None = None, ended_at: str | None = None) -> Run:
        """End it as failed. `halt_reason` is one that adapters may give (docs/reasons.md), anything else is kept and
        counts as `adapter_error`; `detector` names what halted it."""
        request: UpdateRunRequest = {"status": "failed", "halt_reason": halt_reason}
        if detector is not None:
            request["detector"] = detector
        return await self._end(request, ended_at)

    async def cancel(self) -> Run:
        """End it as cancelled, at once; also for the person in `user_dims.user_id`."""
        self.run = await self._rest.cancel_run(self.id)
        return self.run

    async def update(self, request: UpdateRunRequest) -> Run:
        """Report whatever may change, as the operation takes it."""
        self.run = await self._rest.update_run(self.id, request)
        return self.run

    async def spend(
        self,
        amount_micros: int,
        currency: str,
        *,
        tokens: int | None = None,
        agent_id: str | None = None,
        key: str | None = None,
    ) -> SpendEntry:
        """Record what was spent: millionths of the currency unit (ISO 4217), and tokens where they are known.

        An agent records its own; the registrar says whose it is with `agent_id`. One call counts once, however often
        its answer is lost; with a `key` of your own a later call with the same one counts nothing more, either.
        """
        request: RecordSpendRequest = {"amount_micros": amount_micros, "currency": currency}
        if tokens is not None:
            request["tokens"] = tokens
        if agent_id is not None:
            request["agent_id"] = agent_id
        entry_id = str(uuid.uuid5(_KEYS, f"{self.id}:{key}")) if key is not None else None
        return await self._rest.record_spend(self.id, request, entry_id=entry_id)

    async def get_spend(self) -> RunSpend:
        """What it has cost, by agent and dimension, itself and with the runs below it."""
        return await self._rest.get_run_spend(self.id)

    @asynccontextmanager
    async def step(
        self, kind: StepKind, name: str, *, title: str | None = None, detail: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Step]:
        """A durable step that goes as long as the block and ends as the block does.

        Raises RunEnded at its end when the run ended meanwhile, as with the step that reaches a budget, and took the
        step with it.
        """
        step = Step(self, str(uuid.uuid4()), detail)
        request: RecordRunStepRequest = {"kind": kind, "name": fitting(name, 200), "status": "running"}
        if title is not None:
            request["title"] = fitting(title)
        if detail:
            request["detail"] = dict(detail)
        await self._rest.record_run_step(self.id, step.id, None, request)
        try:
            yield step
        except BaseException as error:
            ended = isinstance(error, Exception)
            # The step may have ended with its run; what went wrong first is what is told.
            with suppress(Problem, Unreachable):
                await self._end_step(step, "failed" if ended else "cancelled")
            raise
        try:
            await self._end_step(step, "completed")
        except Problem as problem:
            if problem.code == "step_finished" and problem.current and problem.current["state"] in ENDED:
                ended_run = {"code": "run_ended", "title": "The run has ended", "current": problem.current}
                raise RunEnded(problem.status, ended_run) from None
            raise

    async def update_step(self, step_id: str, request: UpdateRunStepRequest) -> None:
        """Update or finish a step by its id."""
        await self._rest.update_run_step(self.id, step_id, None, request)

    def snapshots(self, *, explain: bool = False) -> AsyncIterator[AgentRunSnapshot]:
        """The run and the units of work under it."""
        return self._rest.list_run_snapshots(self.id, explain=explain)

    async def publish(
        self, unit_id: str, snapshot: PublishedSnapshot, live: LiveSnapshot | None = None
    ) -> AgentRunSnapshot:
        """Show a unit of your own work below the run, or what became of it; `unit_id` is an id of your own."""
        below: PublishedSnapshot = {"parent": self.id, **snapshot}
        return await self._rest.put_agent_run_snapshot(unit_id, below, live)

    async def _end(self, request: UpdateRunRequest, ended_at: str | None) -> Run:
        if ended_at is not None:
            request["ended_at"] = ended_at
        return await self.update(request)

    async def _end_step(self, step: Step, status: StepStatus) -> None:
        request: UpdateRunStepRequest = {"status": status}
        if step.detail:
            request["detail"] = dict(step.detail)
        await self.update_step(step.id, request)
