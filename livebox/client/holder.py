"""The holder of a claimed run: its invocation token, and what it tells the server durably.

Every request here may be repeated, and is: an answer that was lost is asked for again with the same request, and a
token that ran out is renewed. What cannot be helped is RunLost: the run ended, or somebody else holds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from generated.models import (
    FinishRunRequest,
    Heartbeat,
    Invocation,
    PatchOp,
    RecordRunStepRequest,
    Run,
    RunFollowupMessage,
    StartRunRequest,
    UpdateRunStepRequest,
)
from livebox.client.problems import Problem, RunLost
from livebox.client.rest import Rest

T = TypeVar("T")

LOST: Final = frozenset({"run_ended", "invocation_superseded", "already_started", "not_found", "invalid_token"})
"""What the server says when the run is not, or no longer, this holder's to work on."""
RENEW_BEFORE: Final = timedelta(minutes=2)
_TOKEN_TRIES: Final = 3


class Holder:
    """Tells the server about one run. All methods raise RunLost, Problem for another refusal, and Unreachable."""

    def __init__(self, rest: Rest, invocation: Invocation) -> None:
        self._rest = rest
        self._renewing = asyncio.Lock()
        self.run_id = invocation["run"]["id"]
        self.token = invocation["token"]

    async def start(self, request: StartRunRequest) -> Run:
        """From queued to running."""
        return await self.told(lambda token: self._rest.start_run(self.run_id, token, request))

    async def heartbeat(self, *, cancel_seen: bool = False) -> Heartbeat:
        """A sign of life over REST."""
        return await self.told(lambda token: self._rest.heartbeat_run(self.run_id, token, cancel_seen=cancel_seen))

    async def record_step(self, step_id: str, request: RecordRunStepRequest) -> None:
        """Record a step under this id."""
        await self.told(lambda token: self._rest.record_run_step(self.run_id, step_id, token, request))

    async def update_step(self, step_id: str, request: UpdateRunStepRequest) -> None:
        """Update or finish a step."""
        await self.told(lambda token: self._rest.update_run_step(self.run_id, step_id, token, request))

    async def wait_for_input(self, prompt: str, choices: Mapping[str, str] | None, question_id: str) -> Run:
        """From running to waiting_input."""

        def asked(token: str) -> Awaitable[Run]:
            return self._rest.await_run_input(self.run_id, token, prompt, choices, question_id=question_id)

        return await self.told(asked)

    async def resume(self, run: Run) -> Run:
        """From waiting_input to running; `run` is what waits, with its question."""
        question_id = run.get("question", {}).get("question_id")
        return await self.told(lambda token: self._rest.resume_run(self.run_id, token, question_id=question_id))

    async def followups(self) -> list[RunFollowupMessage]:
        """Those that wait to be taken, in order."""

        async def listed(_: str) -> list[RunFollowupMessage]:
            found = self._rest.list_run_followups(self.run_id)
            return [each async for each in found if each["followup"]["state"] == "pending"]

        return await self.told(listed)

    async def take(self, message_id: str) -> RunFollowupMessage | None:
        """Take a follow-up into the work; None when it was withdrawn or is no longer allowed."""
        try:
            return await self.told(lambda token: self._rest.ack_followup(self.run_id, message_id, token))
        except Problem as problem:
            if problem.code == "followup_closed":
                return None
            raise

    async def finish(self, request: FinishRunRequest) -> Run:
        """End the run."""
        return await self.told(lambda token: self._rest.finish_run(self.run_id, token, request))

    async def get(self) -> Run:
        """The run as the server has it."""
        return await self.told(lambda _: self._rest.get_run(self.run_id))

    async def patch(self, base_version: int, ops: list[PatchOp]) -> int:
        """Patch the live content over REST; its new version."""
        patched = await self.told(lambda token: self._rest.patch_run(self.run_id, token, base_version, ops))
        return patched["version"]

    async def told(self, request: Callable[[str], Awaitable[T]]) -> T:
        """What `request` gives with the present token; with a newer one when that is what is wrong."""
        for _ in range(_TOKEN_TRIES):
            token = self.token
            try:
                return await request(token)
            except Problem as problem:
                if problem.code in ("token_expired", "token_renewed") or (problem.code in LOST and self.token != token):
                    if self.token == token:
                        await self.renew(token)
                    continue
                if problem.code in LOST:
                    raise RunLost(problem.code, problem.run) from problem
                raise
        raise RunLost("token_expired")

    async def renew(self, token: str | None = None) -> None:
        """Take the next token, unless the present one is another than `token` already."""
        async with self._renewing:
            if token is not None and self.token != token:
                return
            try:
                answer = await self._rest.renew_invocation_token(self.run_id, self.token)
            except Problem as problem:
                if problem.code in LOST or problem.code in ("token_expired", "token_renewed"):
                    raise RunLost(problem.code, problem.run) from problem
                raise
            self.token = answer["token"]


def expires_soon(expires_at: str) -> bool:
    """Whether a token should be renewed. A clock that is wrong costs a renewal too many, or one `token_expired`."""
    return datetime.fromisoformat(expires_at) - datetime.now(UTC) < RENEW_BEFORE
