"""One invocation at work, from its start to its one end, whatever happens to the work, the server or this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

from generated.models import FinishRunRequest, Heartbeat, Invocation, PatchOp, ResultFrame, StartRunRequest
from livebox.client.draft import checked, storable
from livebox.client.gateway import Gateway
from livebox.client.handle import RunHandle, WorkFailed
from livebox.client.holder import Holder, expires_soon
from livebox.client.mailbox import Mailbox
from livebox.client.patches import EVERY, UNWATCHED, Patches
from livebox.client.pauses import Pauses
from livebox.client.problems import GatewayLost, Problem, RunLost, Unreachable
from livebox.client.rest import ENDED, Rest

SUMMARY_MAX: Final = 4000  # characters
Result = str | FinishRunRequest | None
Work = Callable[[RunHandle], Awaitable[Result]]
"""What an author writes. What it gives is the summary, or a whole request to finish with metrics and cost."""

_log = logging.getLogger("livebox.client")


class Pace:
    """How often and how long, in seconds: heartbeats, patches while somebody looks and while nobody does, the time that
    a cancelled work has to come to its end."""

    def __init__(
        self, *, heartbeat: float = 10.0, patch: float = EVERY, unwatched: float = UNWATCHED, grace: float = 10.0
    ) -> None:
        self.heartbeat = heartbeat
        self.patch = patch
        self.unwatched = unwatched
        self.grace = grace


class Working:
    """Works on one run. `go` returns when there is nothing more to do for it here."""

    def __init__(
        self,
        rest: Rest,
        gateway: Gateway | None,
        invocation: Invocation,
        *,
        start: StartRunRequest,
        pace: Pace,
        name: str,
    ) -> None:
        self._name = name
        self._gateway = gateway
        self._start = start
        self._pace = pace
        self._holder = Holder(rest, invocation)
        self._mailbox = Mailbox(self._holder)
        self.handle: RunHandle
        self._patches = Patches(
            invocation["run"],
            lambda: self.handle.snapshot(),
            self._patch,
            self._holder.get,
            lambda run: self.handle.hear(run),
            every=pace.patch,
            unwatched=pace.unwatched,
        )
        self.handle = RunHandle(rest, invocation, self._holder, self._patches, self._mailbox)
        self._bound: tuple[str, str] | None = None
        self._beat_now = asyncio.Event()
        self._work: asyncio.Task[Result] | None = None
        self._leaving = False
        self._stopping = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    async def go(self, work: Work) -> None:
        """From the start to the end of the run."""
        handle = self.handle
        try:
            if handle.run["state"] == "queued":
                handle.hear(await self._holder.start(self._start))
            self._work = asyncio.ensure_future(work(handle))
            if self._stopping.is_set():
                self._work.cancel()
            for loop in (self._beat(), self._patches.keep(), self._look()):
                self._aside(loop)
            await self._worked()
            if handle.lost is not None:
                raise handle.lost
            if self._leaving and handle.run["state"] == "waiting_input":
                _log.info("run %s: left waiting, for another process to go on", handle.id)
                return
            await self._finish(self._end())
            _log.info("run %s: %s", handle.id, handle.run["state"])
        except RunLost as lost:
            self._lose(lost)
            _log.warning("run %s: %s", handle.id, lost)
        except (Problem, Unreachable) as error:
            _log.error("run %s: given up: %s", handle.id, error)
        finally:
            self._mailbox.close(handle.lost)
            await _ended([*self._background, *([self._work] if self._work is not None else [])])

    @property
    def lost(self) -> bool:
        """Whether the run is no longer ours: nothing makes this one go on."""
        return self.handle.lost is not None

    # what comes in

    def again(self, invocation: Invocation) -> None:
        """The run was handed out once more: go on with its newest token."""
        self._holder.token = invocation["token"]
        self._beat_now.set()
        self._aside(self._mailbox.fetch())

    def session_began(self) -> None:
        """There is a new session with the gateway: bind the run to it, and see what is left of what was shown."""
        self._beat_now.set()
        self._patches.doubt()

    def cancel_requested(self) -> None:
        """Somebody asked for the run to be cancelled."""
        handle = self.handle
        if not handle.cancelled.is_set() and handle.lost is None:
            handle.cancelled.set()
            self._aside(self._acknowledge())
            self._stop_work("cancelled")

    def followup(self, frame: dict[str, Any]) -> None:
        """A follow-up came."""
        self._mailbox.add(frame)

    def watch(self, watched: bool) -> None:
        """Somebody looks, or nobody does."""
        self._patches.watched = watched

    def leave(self) -> None:
        """This process ends: end the run as failed, but for one that waits for input."""
        self._leaving = True
        self._stop_work("leaving")

    # the work

    async def _worked(self) -> None:
        """Wait for the work; for one that was cancelled not longer than the grace."""
        assert self._work is not None  # noqa: S101 - it was just begun
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({self._work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not self._work.done():
                await asyncio.wait({self._work}, timeout=self._pace.grace)
        finally:
            stopping.cancel()

    def _stop_work(self, why: str) -> None:
        self._stopping.set()
        if self._work is not None:
            self._work.cancel(why)

    def _end(self) -> FinishRunRequest:
        """How the run ends, by what became of the work."""
        work = self._work
        if work is None or not work.done() or work.cancelled() or work.exception() is not None:
            return self._ended_early(work.exception() if work and work.done() and not work.cancelled() else None)
        try:
            return _completed(work.result())
        except (TypeError, ValueError, AttributeError) as error:
            _log.error("run %s: its result cannot be sent: %r", self.handle.id, error)
            return self._not_accepted()

    def _not_accepted(self) -> FinishRunRequest:
        return {
            "state": "failed",
            "reason": "adapter_error",
            "summary": f"The result of {self._name} was not accepted.",
        }

    def _ended_early(self, error: BaseException | None) -> FinishRunRequest:
        if isinstance(error, WorkFailed):
            return _fitting({"state": "failed", "reason": error.reason, "summary": error.summary})
        if self.handle.cancelled.is_set():
            return {"state": "cancelled", "summary": "Stopped, as it was asked to."}
        if self._leaving:
            summary = f"{self._name} was stopped before it was done."
        elif isinstance(error, Problem):
            summary = f"The server did not take a part of the work ({error.code})."
        elif error is None:
            summary = "The work was given up."
        else:  # its text may hold anything, so only its name is told
            _log.error("run %s: the work failed", self.handle.id, exc_info=error)
            summary = f"{self._name} ran into an error of its own ({type(error).__name__})."
        return {"state": "failed", "reason": "runtime_error", "summary": summary}

    async def _finish(self, request: FinishRunRequest) -> None:
        """Show the last state and end the run, once: what is repeated is the same request."""
        handle = self.handle
        if handle.run["state"] in ENDED:
            return
        if handle.run["state"] == "waiting_input" and request["state"] != "failed":
            handle.hear(await self._holder.resume(handle.run))
        try:
            await handle.flush()
        except (Problem, Unreachable, ValueError, TypeError) as error:  # nothing that is shown may keep it from ending
            _log.error("run %s: its last content is not shown: %s", handle.id, error)
        try:
            run = await self._holder.finish(request)
        except Problem as problem:
            if problem.status not in (400, 413):
                raise
            _log.error("run %s: its result was not accepted: %s", handle.id, problem)
            run = await self._holder.finish(self._not_accepted())
        handle.hear(run)

    # beside it

    async def _patch(self, base_version: int, ops: list[PatchOp]) -> int:
        if self._gateway is None or self._gateway.ready is None:
            return await self._holder.patch(base_version, ops)
        frame = {"type": "run.update", "run_id": self.handle.id, "base_version": base_version, "ops": ops}
        return (await self._framed(frame))["version"]

    async def _framed(self, frame: dict[str, Any]) -> ResultFrame:
        """Send a frame about the run; with its token where the session has not seen that."""
        gateway = self._gateway

        async def sent(token: str) -> ResultFrame:
            if gateway is None or gateway.ready is None:
                raise GatewayLost("there is no session")
            bound = (gateway.ready["session_id"], token)
            result = await gateway.request(frame if self._bound == bound else {**frame, "invocation": token})
            self._bound = bound
            return result

        return await self._holder.told(sent)

    async def _look(self) -> None:
        """A resumed run may have answers already."""
        if self.handle.resumed:
            await self._mailbox.fetch()

    async def _beat(self) -> None:
        """Signs of life, and what their answers ask for; at once when a session begins."""
        pauses = Pauses()
        while True:
            self._beat_now.clear()
            try:
                await self._heard(await self._alive())
                pauses.reset()
                wait = self._pace.heartbeat
            except (GatewayLost, Unreachable, Problem) as error:
                _log.debug("run %s: no answer to a heartbeat: %s", self.handle.id, error)
                wait = pauses.next(error.retry_after if isinstance(error, Problem) else None)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._beat_now.wait()

    async def _alive(self, *, cancel_seen: bool = False) -> Heartbeat:
        if self._gateway is None or self._gateway.ready is None:
            return await self._holder.heartbeat(cancel_seen=cancel_seen)
        frame: dict[str, Any] = {"type": "heartbeat", "run_id": self.handle.id}
        if cancel_seen:
            frame["cancel_seen"] = True
        return (await self._framed(frame))["heartbeat"]

    async def _heard(self, heartbeat: Heartbeat) -> None:
        if heartbeat["cancel_requested"]:
            self.cancel_requested()
        if heartbeat["followups_pending"]:
            await self._mailbox.fetch()
        if expires_soon(heartbeat["token_expires_at"]):
            await self._holder.renew(self._holder.token)

    async def _acknowledge(self) -> None:
        """Say that the request to cancel has arrived."""
        pauses = Pauses()
        while True:
            try:
                await self._alive(cancel_seen=True)
                return
            except (GatewayLost, Unreachable, Problem) as error:
                await asyncio.sleep(pauses.next(error.retry_after if isinstance(error, Problem) else None))

    def _aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it beside the work; a run that is found to be lost there ends the work."""

        async def guarded() -> None:
            try:
                await coroutine
            except RunLost as lost:
                self._lose(lost)
            except (Problem, Unreachable) as error:
                _log.warning("run %s: %s", self.handle.id, error)
            except Exception:
                _log.exception("run %s: a part beside the work failed", self.handle.id)

        task = asyncio.create_task(guarded())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _lose(self, lost: RunLost) -> None:
        if self.handle.lost is None:
            self.handle.lost = lost
            if lost.run is not None:
                self.handle.run = lost.run
            self._mailbox.close(lost)
            self._stop_work("lost")


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel them, and see that their errors are known."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=1.0)
        for task in done:
            if not task.cancelled():
                task.exception()


def _completed(result: Result) -> FinishRunRequest:
    """The end that a result stands for. Raises TypeError, ValueError or AttributeError when it stands for none."""
    request: FinishRunRequest = {"state": "completed"}
    if isinstance(result, str):
        request["summary"] = result
    elif result is not None:
        request = cast(FinishRunRequest, {**request, **result})
    return checked(_fitting(request))


def _fitting(request: FinishRunRequest) -> FinishRunRequest:
    """With a summary that the contract takes, or none."""
    if "summary" in request:
        summary = storable(request["summary"]).strip()[:SUMMARY_MAX]
        if summary:
            request["summary"] = summary
        else:
            del request["summary"]
    return request
