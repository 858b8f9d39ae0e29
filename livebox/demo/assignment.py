"""One claimed run, as the agent that works on it sees it: steps by name, a look whether to go on, one end."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from generated.models import (
    FinishRunRequest,
    Invocation,
    RecordRunStepRequest,
    StepKind,
    StepStatus,
    UpdateRunStepRequest,
)
from livebox.client import Problem, Rest

GONE: Final = frozenset({"run_ended", "invocation_superseded", "token_renewed", "already_started", "not_found"})
"""What the server says when the run is not, or no longer, this agent's to work on."""
RENEW_BEFORE: Final = timedelta(minutes=2)


class CancelAsked(Exception):
    """Somebody asked for the run to be cancelled."""


class NotOurs(Exception):
    """The run has ended, or another holder has it: there is nothing left to do for us."""


class Step:
    """A step while it goes; what is put into `detail` is kept with it."""

    def __init__(self) -> None:
        self.detail: dict[str, Any] = {}


class Assignment:
    """Talks about one run to the server. All ids come from the run's, so that whatever is repeated is one thing."""

    def __init__(self, rest: Rest, invocation: Invocation) -> None:
        self._rest = rest
        self._token = invocation["token"]
        self.run = invocation["run"]
        self.run_id = self.run["id"]
        self.text = "\n".join(message.get("body", "") for message in invocation["messages"])

    async def start(self, model: str) -> None:
        """From queued to running."""
        self.run = await self._rest.start_run(self.run_id, self._token, {"model": model})

    @asynccontextmanager
    async def step(self, name: str, title: str, kind: StepKind = "tool") -> AsyncIterator[Step]:
        """A step that runs as long as the block, and ends as the block does."""
        step_id = self.id_of(name)
        request: RecordRunStepRequest = {"kind": kind, "name": name, "title": title, "status": "running"}
        await self._rest.record_run_step(self.run_id, step_id, self._token, request)
        step = Step()
        try:
            yield step
        except CancelAsked:
            await self._end_step(step_id, "cancelled", step.detail)
            raise
        except NotOurs:
            raise
        except Exception as error:
            await self._end_step(step_id, "failed", step.detail or {"error": type(error).__name__})
            raise
        await self._end_step(step_id, "completed", step.detail)

    async def look(self) -> None:
        """Say that the work goes on; raise CancelAsked or NotOurs when there is no reason to."""
        try:
            beat = await self._rest.heartbeat_run(self.run_id, self._token)
            if beat["cancel_requested"]:
                await self._rest.heartbeat_run(self.run_id, self._token, cancel_seen=True)
                raise CancelAsked
            if datetime.fromisoformat(beat["token_expires_at"]) - datetime.now(UTC) < RENEW_BEFORE:
                self._token = (await self._rest.renew_invocation_token(self.run_id, self._token))["token"]
        except Problem as problem:
            if problem.code in GONE:
                raise NotOurs(problem.code) from problem
            raise

    async def say(self, text: str) -> None:
        """Post a message in the run's thread, once."""
        if "thread_id" in self.run:
            await self._rest.create_message(self.run["thread_id"], text, client_msg_id=self.id_of("report"))

    async def finish(self, request: FinishRunRequest) -> None:
        """End the run."""
        self.run = await self._rest.finish_run(self.run_id, self._token, request)

    def id_of(self, name: str) -> str:
        """The UUID of one named thing of this run, always the same."""
        return str(uuid.uuid5(uuid.UUID(self.run_id), name))

    async def _end_step(self, step_id: str, status: StepStatus, detail: dict[str, Any]) -> None:
        request: UpdateRunStepRequest = {"status": status}
        if detail:
            request["detail"] = detail
        await self._rest.update_run_step(self.run_id, step_id, self._token, request)
