"""The operations of the contract as typed methods, for people's tools and for agents."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal, cast

from generated.models import (
    ActiveRunState,
    Channel,
    ClaimedInvocations,
    EventPage,
    FinishRunRequest,
    Heartbeat,
    InvocationToken,
    Message,
    Patched,
    PatchOp,
    Principal,
    Readiness,
    RecordRunStepRequest,
    Run,
    RunFollowupMessage,
    RunState,
    RunStep,
    RunSummary,
    Snapshot,
    Space,
    StartRunRequest,
    Thread,
    UpdateRunStepRequest,
)
from livebox.client.registration import Registration

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


class Rest(Registration):
    """A Livebox server, as one principal sees it. Use it as an async context manager.

    Methods are named after the operations. They raise `Problem` when the server refuses and `Unreachable` when no
    answer comes; lists give every item, page after page. Operations without a method go through `call`.
    """

    # messages

    async def create_message(
        self, thread_id: str, body: str, *, mentions: Sequence[str] = (), client_msg_id: str | None = None
    ) -> Message:
        """Post a message. The same `client_msg_id` (made up when not given) never posts twice."""
        request: dict[str, Any] = {"body": body, "client_msg_id": client_msg_id or str(uuid.uuid4())}
        if mentions:
            request["mentions"] = list(mentions)
        answer = await self.call("createMessage", path={"thread_id": thread_id}, body=request)
        return cast(Message, answer.body)

    async def get_message(self, message_id: str) -> Message:
        """One message."""
        return cast(Message, (await self.call("getMessage", path={"message_id": message_id})).body)

    def list_thread_messages(self, thread_id: str, *, order: Literal["asc", "desc"] = "asc") -> AsyncIterator[Message]:
        """The messages of a thread, oldest first unless `order` is desc."""
        return self._items("listThreadMessages", {"thread_id": thread_id}, {"order": order})

    # runs

    async def get_run(self, run_id: str) -> Run:
        """One run, whole."""
        return cast(Run, (await self.call("getRun", path={"run_id": run_id})).body)

    async def get_run_if_changed(self, run_id: str, version: int) -> Run | None:
        """The run, or None while its version is still `version`."""
        answer = await self.call("getRun", path={"run_id": run_id}, headers={"If-None-Match": f'"{version}"'})
        return cast(Run, answer.body) if answer.status == 200 else None

    async def watch_run(self, run_id: str, *, every: float = 0.2) -> AsyncIterator[Run]:
        """The run now and whenever it has changed, until it has ended; asks each `every` seconds."""
        run = await self.get_run(run_id)
        yield run
        while run["state"] not in ENDED:
            await asyncio.sleep(every)
            changed = await self.get_run_if_changed(run_id, run["version"])
            if changed is not None:
                run = changed
                yield run

    async def find_run(self, message: Message) -> Run | None:
        """The run that a message opened or joined as a follow-up; None when there is none (or no longer) to see."""
        thread = await self.get_thread(message["thread_id"])
        threads = [thread["id"]]
        if thread["is_main"]:  # the run may have got a thread of its own
            grown = self.list_threads(channel_id=thread["channel_id"])
            threads += [found["id"] async for found in grown if found.get("parent_message_id") == message["id"]]
        for thread_id in reversed(threads):
            async for summary in self.list_thread_runs(thread_id):
                if "finished_at" in summary and summary["finished_at"] < message["created_at"]:
                    break  # they come newest first
                run = await self.get_run(summary["id"])
                if run.get("triggering_message_id") == message["id"] or message["id"] in run.get("followups", {}):
                    return run
        return None

    async def cancel_run(self, run_id: str) -> Run:
        """Ask for the run to be cancelled. It has ended when its state says so; until then `cancel` says who asked."""
        return cast(Run, (await self.call("cancelRun", path={"run_id": run_id}, body={})).body)

    def list_run_steps(self, run_id: str) -> AsyncIterator[RunStep]:
        """The steps of a run, in the order in which they were recorded."""
        return self._items("listRunSteps", {"run_id": run_id})

    def list_run_followups(self, run_id: str) -> AsyncIterator[RunFollowupMessage]:
        """What came for the run while it was active, in order, each with what became of it."""
        return self._items("listRunFollowups", {"run_id": run_id})

    def list_thread_runs(self, thread_id: str, *, state: RunState | None = None) -> AsyncIterator[RunSummary]:
        """The runs of a thread, newest first."""
        return self._items("listThreadRuns", {"thread_id": thread_id}, {"state": state})

    def list_active_runs(
        self, *, agent_id: str | None = None, state: ActiveRunState | None = None
    ) -> AsyncIterator[RunSummary]:
        """All active runs that the principal may see, newest first."""
        return self._items("listActiveRuns", {}, {"agent_id": agent_id, "state": state})

    # run control: `invocation` is the token that came with the claimed run

    async def claim_invocations(self, claim_id: str, *, limit: int = 1) -> ClaimedInvocations:
        """Take work. Repeat a claim whose answer was lost with the same `claim_id`: the answer is the same."""
        body = {"claim_id": claim_id, "limit": limit}
        return cast(ClaimedInvocations, (await self.call("claimInvocations", body=body)).body)

    async def start_run(self, run_id: str, invocation: str, request: StartRunRequest | None = None) -> Run:
        """Begin to work on a claimed run."""
        return cast(Run, await self._controlled("startRun", run_id, invocation, request or {}))

    async def patch_run(self, run_id: str, invocation: str, base_version: int, ops: Sequence[PatchOp]) -> Patched:
        """Patch the live content of a run, once: a busy server is not asked again, since there may be newer content."""
        answer = await self.call(
            "patchRun",
            path={"run_id": run_id},
            headers={"Livebox-Invocation": invocation},
            body={"base_version": base_version, "ops": list(ops)},
            patience=0.0,
        )
        return cast(Patched, answer.body)

    async def record_run_step(
        self, run_id: str, step_id: str, invocation: str | None, request: RecordRunStepRequest
    ) -> RunStep:
        """Record a step under an id of your own; the same id records nothing twice. Registered runs need no token."""
        return cast(RunStep, await self._controlled("recordRunStep", run_id, invocation, request, step_id=step_id))

    async def update_run_step(
        self, run_id: str, step_id: str, invocation: str | None, request: UpdateRunStepRequest
    ) -> RunStep:
        """Update or finish a step. Registered runs need no token."""
        return cast(RunStep, await self._controlled("updateRunStep", run_id, invocation, request, step_id=step_id))

    async def heartbeat_run(self, run_id: str, invocation: str, *, cancel_seen: bool = False) -> Heartbeat:
        """Say that you are alive, and with `cancel_seen` that you know of the request to cancel."""
        body = {"cancel_seen": True} if cancel_seen else {}
        return cast(Heartbeat, await self._controlled("heartbeatRun", run_id, invocation, body))

    async def renew_invocation_token(self, run_id: str, invocation: str) -> InvocationToken:
        """A new token; the old one passes until the new one is first used. Repeat it with the old one if need be."""
        return cast(InvocationToken, await self._controlled("renewInvocationToken", run_id, invocation, {}))

    async def await_run_input(
        self,
        run_id: str,
        invocation: str,
        prompt: str,
        choices: Mapping[str, str] | None = None,
        *,
        question_id: str | None = None,
    ) -> Run:
        """Ask the people of the thread, and wait for their answer.

        `question_id` names the question, so that a late repeat asks nothing new; one is chosen when none is given.
        """
        body = {
            "prompt": prompt,
            **({"choices": dict(choices)} if choices else {}),
            "question_id": question_id or str(uuid.uuid4()),
        }
        return cast(Run, await self._controlled("awaitRunInput", run_id, invocation, body))

    async def resume_run(self, run_id: str, invocation: str, *, question_id: str | None = None) -> Run:
        """Go on after an answer. `question_id` is that of the question: a late repeat then goes on from no other."""
        body = {"question_id": question_id} if question_id else {}
        return cast(Run, await self._controlled("resumeRun", run_id, invocation, body))

    async def ack_followup(self, run_id: str, message_id: str, invocation: str) -> RunFollowupMessage:
        """Take a follow-up into the work."""
        answer = await self._controlled("ackFollowup", run_id, invocation, {}, message_id=message_id)
        return cast(RunFollowupMessage, answer)

    async def finish_run(self, run_id: str, invocation: str, request: FinishRunRequest) -> Run:
        """End the run."""
        return cast(Run, await self._controlled("finishRun", run_id, invocation, request))

    # structure

    async def get_principal(self, principal_id: str) -> Principal:
        """One principal."""
        return cast(Principal, (await self.call("getPrincipal", path={"principal_id": principal_id})).body)

    def list_spaces(self) -> AsyncIterator[Space]:
        """The spaces that the principal may see."""
        return self._items("listSpaces", {})

    def list_channels(self, *, space_id: str | None = None) -> AsyncIterator[Channel]:
        """The channels that the principal may see."""
        return self._items("listChannels", {}, {"space_id": space_id})

    def list_threads(self, *, channel_id: str | None = None) -> AsyncIterator[Thread]:
        """The threads that the principal may see, newest first."""
        return self._items("listThreads", {}, {"channel_id": channel_id})

    async def get_thread(self, thread_id: str) -> Thread:
        """One thread."""
        return cast(Thread, (await self.call("getThread", path={"thread_id": thread_id})).body)

    async def create_thread(self, channel_id: str, title: str = "") -> Thread:
        """A new thread in a channel."""
        answer = await self.call("createThread", path={"channel_id": channel_id}, body={"title": title})
        return cast(Thread, answer.body)

    # sync and service

    async def get_snapshot(self) -> Snapshot:
        """Everything that the principal may see, at one moment."""
        return cast(Snapshot, (await self.call("getSnapshot")).body)

    async def list_events(self, after: int, *, limit: int | None = None) -> EventPage:
        """What happened after the position `after` of the log."""
        return cast(EventPage, (await self.call("listEvents", query={"after": after, "limit": limit})).body)

    async def get_readiness(self) -> Readiness:
        """Whether the server can do its work; one that cannot yet is waited for within the patience."""
        return cast(Readiness, (await self.call("getReadiness")).body)

    async def _controlled(self, operation_id: str, run_id: str, invocation: str | None, body: Any, **path: str) -> Any:
        headers = {} if invocation is None else {"Livebox-Invocation": invocation}
        return (await self.call(operation_id, path={"run_id": run_id, **path}, headers=headers, body=body)).body
