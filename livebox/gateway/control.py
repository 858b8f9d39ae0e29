"""Frames about a run that its agent works on: patches, beats, acknowledgements, with the token that holds the run.

The same operations as over REST, with the same answers; the pointers of errors lead into the frame. A token is shown
once per session and run. It is verified here and compared with the run's present one at every frame, by the live plane
or in the statement that does the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from db import SUCCESS, Answer, DatabaseError
from generated.field_errors import FieldError, field_error
from generated.operations import OPERATIONS
from handlers import run_control
from livebox import responses
from livebox.auth import INVALID, Unauthenticated
from livebox.context import Context
from livebox.gateway import frames
from livebox.gateway.frames import FrameRefused
from livebox.invocations import Invocation, InvocationInvalid
from livebox.live.patch import PatchRefused
from livebox.live.request import Request, patch_request

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub
    from livebox.gateway.session import Session

RUNS_MAX: Final = 1000
"""Most runs of which a session remembers the invocation token; the one that was shown first of those that it does not
hold any more goes."""


class TokenMissing(FrameRefused):
    """A frame of run control without an invocation token, the first for its run."""


class Control:
    """The part of one session that agents use."""

    __slots__ = ("_hub", "_session", "_shown")

    def __init__(self, hub: Hub, session: Session) -> None:
        self._hub = hub
        self._session = session
        self._shown: dict[str, Invocation] = {}

    def update(self, frame: dict[str, Any], size: int) -> Awaitable[None] | None:
        """Apply a patch; the frame is of `size` bytes. What has to wait for something is to be awaited."""
        if not self._session.admitted(frame, "patch"):
            return None
        invocation = self._invocation(frame)
        try:
            asked = Request(frame["base_version"], frame["ops"], size)
            version = self._hub.plane.patch_now(self._session.caller, frame["run_id"], invocation, asked)
        except PatchRefused as refused:
            self._patch_refused(frame, refused)
            return None
        if version is None:
            return self._patch(frame, invocation, asked)
        self._patched(frame, invocation, version)
        return None

    async def _patch(self, frame: dict[str, Any], invocation: Invocation, asked: Request) -> None:
        try:
            version = await self._hub.plane.patch(self._session.caller, frame["run_id"], invocation, asked)
        except PatchRefused as refused:
            self._patch_refused(frame, refused)
            return
        self._patched(frame, invocation, version)

    def _patched(self, frame: dict[str, Any], invocation: Invocation, version: int) -> None:
        if self._session.held.get(invocation.run_id) is not invocation:
            self._session.hold(invocation)
        self._session.result(frame, {"version": version})

    def _patch_refused(self, frame: dict[str, Any], refused: PatchRefused) -> None:
        self._session.send(
            frames.error(
                refused.code,
                reply_to=frames.reply_to(frame),
                errors=refused.errors,
                detail=refused.detail,
                wait=refused.wait,
                extra=refused.extra,
            )
        )

    async def judged(self, frame: dict[str, Any], errors: list[FieldError], size: int) -> bool:
        """Was a patch that breaks the contract answered in the order in which patches are judged?"""
        try:
            if self._session.admitted(frame, "patch"):
                await self._patch(frame, self._invocation(frame), patch_request(frame, errors, size))
        except Unauthenticated as refused:
            self._session.send(frames.error(refused.code, reply_to=frames.reply_to(frame)))
        except DatabaseError as error:
            self._session.send(frames.error(error.problem, reply_to=frames.reply_to(frame)))
        except FrameRefused:
            return False
        return True

    async def heartbeat(self, frame: dict[str, Any]) -> None:
        """A sign of life."""
        body = {"cancel_seen": True} if "cancel_seen" in frame else None
        answer = await self._run_control(frame, "heartbeatRun", {}, body)
        if answer is not None:
            self._session.result(frame, {"heartbeat": responses.members(answer.body)})

    async def ack(self, frame: dict[str, Any]) -> None:
        """Personal work has arrived."""
        if frame["work"] == "followup":
            if "message_id" not in frame:
                errors = [field_error("required", "pointer", "/message_id")]
                raise FrameRefused("validation_failed", errors, reply_to=frames.reply_to(frame))
            answer = await self._run_control(frame, "ackFollowup", {"message_id": frame["message_id"]}, None)
            if answer is None:
                return
            self._hub.acknowledged(self._session, frame)
            self._session.result(frame, {"followup": responses.members(answer.body)})
        elif frame["work"] == "cancel":
            if await self._run_control(frame, "heartbeatRun", {}, {"cancel_seen": True}) is not None:
                self._hub.acknowledged(self._session, frame)
                self._session.result(frame, {})
        elif self._session.admitted(frame, "write"):
            self._hub.acknowledged(self._session, frame)
            self._session.result(frame, {})

    async def _run_control(
        self, frame: dict[str, Any], operation_id: str, parameters: dict[str, Any], body: dict[str, Any] | None
    ) -> Answer | None:
        """The answer of an operation that the holder of a run may do; refusals are answered here."""
        operation = OPERATIONS[operation_id]
        if not self._session.admitted(frame, operation.rate_class or "write"):
            return None
        invocation = self._invocation(frame)
        parameters = {"run_id": frame["run_id"], **parameters}
        context = Context(self._hub.plant, operation, self._session.caller, parameters, None, invocation)
        handler: Callable[..., Awaitable[Answer]] = getattr(run_control, operation.function)
        answer = await handler(context, parameters, body)
        if answer.code in SUCCESS:
            self._session.hold(invocation)
            return answer
        extra = responses.members(answer.body)
        self._session.send(frames.error(answer.code, reply_to=frames.reply_to(frame), extra=extra))
        if answer.code == INVALID:
            self._hub.recheck_soon()
        return None

    def _invocation(self, frame: dict[str, Any]) -> Invocation:
        """The invocation token of this frame, or the one that was shown before for this run."""
        run_id = frame["run_id"]
        token = frame.get("invocation")
        if token is None:
            known = self._shown.get(run_id)
            if known is None:
                errors = [field_error("required", "pointer", "/invocation")]
                raise TokenMissing("validation_failed", errors, reply_to=frames.reply_to(frame))
            return known
        try:
            invocation = self._hub.plant.invocations.verify(token, run_id)
        except InvocationInvalid:
            raise Unauthenticated(INVALID) from None
        self.remember(invocation)
        return invocation

    def remember(self, invocation: Invocation) -> None:
        """This token was shown, or given."""
        self._shown[invocation.run_id] = invocation
        if len(self._shown) > RUNS_MAX:
            kept = {*self._session.held, invocation.run_id}
            oldest = next(iter(self._shown))
            del self._shown[next((run_id for run_id in self._shown if run_id not in kept), oldest)]
