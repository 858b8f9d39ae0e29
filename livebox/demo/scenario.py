"""What the demo does: Alex asks Lotse about a folder, then about one that does not exist, and everybody can watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from generated.models import Message, Run
from livebox.box import ordered
from livebox.client import Livebox
from livebox.demo.follow import follow
from livebox.demo.view import View

PLACE: Final = "Support/General"
AGENT: Final = "Lotse"
MISSING: Final = "no-such-folder"
MIN_STEPS: Final = 5
PATIENCE: Final = 120.0  # seconds until a run must have ended


class Unexpected(Exception):
    """Something in the demo is not as it must be; the text says what."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the states its run went through, and how the run ended."""

    message: Message
    states: Sequence[str]
    run: Run


class Scenario:
    """Alex's side of it, over the public contract: asks the agent in the main thread of a channel."""

    def __init__(self, alex: Livebox, thread_id: str, agent_id: str) -> None:
        self._alex = alex
        self._thread_id = thread_id
        self._agent_id = agent_id

    async def ask(self, text: str, show: Callable[[], View]) -> Asked:
        """Post `text` as Alex, mentioning the agent, and show the run that it opens until it has ended."""
        after = (await self._alex.get_snapshot())["seq"]
        message = await self._alex.create_message(self._thread_id, text, mentions=[self._agent_id])
        if message.get("trigger_state") != "received":
            raise Unexpected(f"the message opened no run: {message.get('trigger_state_reason', 'nobody was asked')}")
        try:
            async with asyncio.timeout(PATIENCE):
                states, run = await follow(self._alex, message["id"], after, show())
        except TimeoutError:
            raise Unexpected(f"the run has not ended after {PATIENCE:.0f} s") from None
        return Asked(await self._alex.get_message(message["id"]), states, run)

    async def report_of(self, asked: Asked) -> AsyncIterator[str]:
        """What the agent wrote in the thread of the run, line by line."""
        async for message in self._alex.list_thread_messages(asked.run["thread_id"]):
            if message["origin"] == "agent" and message["kind"] == "text":
                for line in message.get("body", "").splitlines():
                    yield line


def check_report(asked: Asked) -> None:
    """Raise Unexpected unless the run went from queued to completed and has its steps."""
    steps = ordered(asked.run)
    _same("states", list(asked.states), ["queued", "running", "completed"])
    _same("state", asked.run["state"], "completed")
    _same("trigger state", asked.message.get("trigger_state"), "done")
    _same("steps that did not complete", [step["name"] for step in steps if step["status"] != "completed"], [])
    _same("number of steps", len(steps), asked.run["step_count"])
    if len(steps) < MIN_STEPS or not asked.run.get("summary"):
        raise Unexpected("the run has too few steps or no summary")


def check_failure(asked: Asked) -> None:
    """Raise Unexpected unless the run failed cleanly, for the reason that the folder does not exist."""
    _same("states", list(asked.states), ["queued", "running", "failed"])
    _same("reason", asked.run.get("state_reason"), "runtime_error")
    _same("trigger state", asked.message.get("trigger_state"), "failed")
    _same("summary", asked.run.get("summary"), f"The folder {MISSING} does not exist.")


def _same(what: str, is_now: object, must_be: object) -> None:
    if is_now != must_be:
        raise Unexpected(f"{what}: {is_now!r} instead of {must_be!r}")
