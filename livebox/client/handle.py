"""What the author of an agent has in hand while it works on a run."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from generated.models import (
    Invocation,
    Message,
    RecordRunStepRequest,
    Run,
    StepKind,
    StepStatus,
    UpdateRunStepRequest,
)
from livebox.client.draft import Draft, fitting
from livebox.client.holder import Holder
from livebox.client.mailbox import Mailbox
from livebox.client.patches import Patches
from livebox.client.problems import Problem, RunLost
from livebox.client.rest import Rest

FLUSH_PATIENCE: Final = 15.0  # seconds that an end or a question waits for the last live content to arrive


class WorkFailed(Exception):
    """Raise it to end the run as failed with words for people: they see the text as the run's summary.

    `reason` is one of those that adapters may give, see docs/reasons.md.
    """

    def __init__(self, summary: str, reason: str = "runtime_error") -> None:
        super().__init__(summary)
        self.summary = summary
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What people answered: their messages in order, and the key of the choice that the first of them names."""

    messages: Sequence[Message]
    choice: str | None

    @property
    def text(self) -> str:
        """All that they wrote."""
        return "\n".join(message.get("body", "") for message in self.messages)

    def __str__(self) -> str:
        return self.text


class Recorder(Protocol):
    """Who records the steps of a run."""

    async def update_step(self, step_id: str, request: UpdateRunStepRequest) -> None:
        """Update or finish a step."""


class Step:
    """A step while it goes; what is put into `detail` is kept with it."""

    def __init__(self, holder: Recorder, step_id: str, detail: Mapping[str, Any] | None) -> None:
        self._holder = holder
        self.id = step_id
        self.detail: dict[str, Any] = dict(detail or {})

    async def update(self, title: str | None = None) -> None:
        """Record the detail so far, and maybe another title."""
        request: UpdateRunStepRequest = {"detail": self.detail}
        if title is not None:
            request["title"] = fitting(title)
        await self._holder.update_step(self.id, request)


class RunHandle(Draft):
    """One run, from its start to its end. What it shows is a `Draft`: `run.headline = "Counting"` is all it takes.

    Its methods raise RunLost when the run has ended or another holder has it; Problem and Unreachable as `Rest` does.
    """

    def __init__(self, rest: Rest, invocation: Invocation, holder: Holder, patches: Patches, mailbox: Mailbox) -> None:
        super().__init__(invocation["run"], patches.changed)
        self._rest = rest
        self._holder = holder
        self._patches = patches
        self._mailbox = mailbox
        self.run: Run = invocation["run"]
        """The run as the server told it last."""
        self.messages: Sequence[Message] = invocation["messages"]
        """What the run is about, oldest first; for a resumed run also all that was said since."""
        self.resumed = invocation["kind"] == "resume"
        """Whether another process asked and died: `ask` with the same question gives the answer at once."""
        self.cancelled = asyncio.Event()
        """Set when somebody asked for the run to be cancelled; the work is cancelled then, too."""
        self.lost: RunLost | None = None
        """Why the run is no longer ours, once it is so; the work is cancelled then, too."""

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._holder.run_id

    @property
    def thread_id(self) -> str | None:
        """The thread in which people read."""
        return self.run.get("thread_id")

    @property
    def prompt(self) -> str:
        """The text of all messages."""
        return "\n".join(message.get("body", "") for message in self.messages)

    @property
    def watched(self) -> bool | None:
        """Whether somebody looks at the run; None while that is not known."""
        return self._patches.watched

    @asynccontextmanager
    async def step(
        self,
        kind: StepKind,
        name: str,
        *,
        title: str | None = None,
        detail: Mapping[str, Any] | None = None,
        parent: Step | None = None,
    ) -> AsyncIterator[Step]:
        """A step that goes as long as the block and ends as the block does; a tool is also shown as the tool in use."""
        step = Step(self._holder, str(uuid.uuid4()), detail)
        request: RecordRunStepRequest = {"kind": kind, "name": fitting(name, 200), "status": "running"}
        if title is not None:
            request["title"] = fitting(title)
        if detail:
            request["detail"] = dict(detail)
        if parent is not None:
            request["parent_step_id"] = parent.id
        if kind == "tool":
            self.tool(name, title=title)
        try:
            await self._holder.record_step(step.id, request)
            yield step
        except RunLost:
            raise
        except Exception as error:
            await self._end(step, "failed", step.detail or {"error": type(error).__name__})
            raise
        except BaseException:  # cancelled
            if self.lost is None:
                with suppress(RunLost):
                    await self._end(step, "cancelled", step.detail)
            raise
        else:
            await self._end(step, "completed", step.detail)
        finally:
            if kind == "tool":
                self.no_tool(name)

    async def ask(self, prompt: str, choices: Mapping[str, str] | None = None) -> Answer:
        """Ask the people of the thread and wait for what they answer, as long as it takes.

        `choices` are offered by key, each with a label; a person may write something else all the same. An agent that
        dies meanwhile loses nothing: the work is begun again with `resumed` set, and asks the same to get the answer.
        """
        async with self._mailbox.taking:
            messages: list[Message] = []
            if self._asked_already(prompt):
                messages = self._told_since()
            else:
                await self._ask(prompt, choices)
            await self._mailbox.fetch()
            messages += [each for each in await self._mailbox.take_all() if each not in messages]
            while not messages:
                if not await self._mailbox.wait():
                    raise RunLost("run_ended")
                await self._mailbox.fetch()  # so that one whose push was lost is not passed over
                messages = await self._mailbox.take_all()
            self.hear(await self._holder.resume(self.run))
        return Answer(messages, _chosen(messages[0].get("body", ""), choices or {}))

    async def followups(self) -> AsyncIterator[Message]:
        """What people write while the run goes, each message taken into the work when it is given; ends with the run.

        What is not taken when the run ends opens the next one.
        """
        while (message := await self._mailbox.next()) is not None:
            yield message

    async def say(self, text: str, *, key: str | None = None) -> Message | None:
        """Post a message in the run's thread; with the same `key` only once for this run, whatever is begun again."""
        if self.thread_id is None:
            return None
        client_msg_id = uuid.uuid5(uuid.UUID(self.id), key) if key is not None else uuid.uuid4()
        return await self._rest.create_message(self.thread_id, text, client_msg_id=str(client_msg_id))

    async def flush(self, patience: float = FLUSH_PATIENCE) -> None:
        """Wait until the server has what is shown now, `patience` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._patches.flush()

    def hear(self, run: Run) -> None:
        """The server told the run."""
        if run["version"] >= self.run["version"]:
            self.run = run
            self._patches.learn(run)

    def _asked_already(self, prompt: str) -> bool:
        return self.run["state"] == "waiting_input" and self.run.get("question", {}).get("prompt") == prompt

    def _told_since(self) -> list[Message]:
        """What the process that asked had taken already, when it died before it went on."""
        asked_at = self.run.get("question", {}).get("asked_at", "")
        return [
            message
            for message in self.messages
            if message["created_at"] >= asked_at and message.get("trigger_state") == "followup_delivered"
        ]

    async def _ask(self, prompt: str, choices: Mapping[str, str] | None) -> None:
        if self.run["state"] == "waiting_input":  # begun again with another question than the one that was answered
            self.hear(await self._holder.resume(self.run))
        await self.flush()
        question_id = str(uuid.uuid4())
        while True:
            try:
                run = await self._holder.wait_for_input(prompt, choices, question_id)
            except Problem as problem:
                if problem.code != "followups_pending":
                    raise
                await self._mailbox.take_early()
                continue
            self.hear(run)
            if run["state"] != "waiting_input":  # it was to be cancelled, and so it ended
                raise RunLost("run_ended", run)
            return

    async def _end(self, step: Step, status: StepStatus, detail: Mapping[str, Any]) -> None:
        request: UpdateRunStepRequest = {"status": status}
        if detail:
            request["detail"] = dict(detail)
        await self._holder.update_step(step.id, request)


def _chosen(text: str, choices: Mapping[str, str]) -> str | None:
    said = text.strip().casefold()
    for key, label in choices.items():
        if said in (key.casefold(), label.strip().casefold()):
            return key
    return None
