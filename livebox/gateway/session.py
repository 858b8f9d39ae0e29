"""One session: what a client says and what it is answered, from `hello` to the end.

Frames of one client are answered one after the other, so that what it sees has the order of what it did; a patch takes
no step that waits unless it must. Everything that can be decided without the session is decided elsewhere: who it is by
the Authenticator, what it may see by the database and the view of rights, patches by the live plane.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from db import Caller, DatabaseError
from generated.field_errors import FieldError
from generated.gateway_messages import CLOSES
from livebox import responses
from livebox.auth import EXPIRED, INVALID, Unauthenticated
from livebox.gateway import frames
from livebox.gateway.connection import Connection
from livebox.gateway.control import Control, TokenMissing
from livebox.gateway.focus import Look, Refused
from livebox.gateway.frames import Frame, FrameRefused, TextInvalid
from livebox.invocations import Invocation
from livebox.live.entry import Entry
from livebox.log import logger

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub

POLL: Final = 0.02
"""Seconds between two looks at whether a device has taken what it was sent."""

_NOBODY: Final = Caller("")
_log = logger("session")


class Session:
    """One client, from its handshake on. `peer` is its address."""

    def __init__(self, hub: Hub, connection: Connection, peer: str) -> None:
        self._hub = hub
        self.connection = connection
        self._peer = peer
        self.id = responses.new_request_id()
        self.caller = _NOBODY
        self.principal_id = ""
        self.kind = ""
        self.expires_at = 0.0
        self.invocations: int | None = None
        """How many runs an agent's session wants at once; None where it did not say."""
        self.seq = 0
        """The last position of the log that was handed to the client, while it does not follow the log."""
        self.follows = False
        """Whether events are handed to it as they come; else they are fetched for it from `seq` on."""
        self.held: dict[str, Invocation] = {}
        """The runs that it works on here, each with the token that it showed last."""
        self.threads: dict[str, str] = {}
        self.runs: dict[str, Look] = {}
        self.documents: dict[str, Entry] = {}
        self.stale: set[str] = set()
        """Runs of which frames were left out: they get a fresh document."""
        self.asked: frozenset[str] = frozenset()
        self.outdated = False
        self.focusing = asyncio.Lock()
        """Held by who asks what it may look at."""
        self.focused = 0
        """How often the client has said what it looks at."""
        self.behind_since = 0.0
        """When the device fell behind (loop time); 0 while it takes what it is sent."""
        self.missed = 0
        """Pings in a row after which nothing came."""
        self.slot = random.getrandbits(16)
        """When within the interval it is probed."""
        self.control = Control(hub, self)
        self._violations = 0

    @property
    def gone(self) -> bool:
        """It is over or about to be."""
        return bool(self.connection.ending) or self.connection.gone

    @property
    def ready(self) -> bool:
        """It has said who it is."""
        return bool(self.principal_id)

    # what comes in

    async def serve(self) -> None:
        """Answer frames until the session ends."""
        connection = self.connection
        timer = asyncio.get_running_loop().call_later(self._hub.hello_timeout, self._no_hello)
        try:
            while (raw := await connection.next()) is not None:
                await self._take(raw)
                if connection.unsent() > self._hub.soft:
                    await self.room()
        finally:
            timer.cancel()

    def _no_hello(self) -> None:
        if not self.ready:
            self.end("no_hello")

    def end(self, how: str) -> None:
        """End it in one of the ways of the contract, once the frame that is being answered is done."""
        self.connection.end(CLOSES[how].code)

    def lost(self) -> None:
        """Nothing came from the client for too long."""
        self.end("going_away")
        self.connection.abort()

    async def room(self) -> None:
        """Wait until the device has taken most of what it was sent."""
        while not self.gone and self.connection.unsent() > self._hub.soft:
            self._hub.fell_behind(self)
            await asyncio.sleep(POLL)

    async def _take(self, raw: bytes) -> None:
        try:
            frame = frames.read(raw) if len(raw) < frames.LARGE else await asyncio.to_thread(frames.read, raw)
            if not self.ready and frame["type"] != "hello":
                raise FrameRefused(
                    "validation_failed",
                    [FieldError("not_allowed_value", "pointer", "/type", "The first frame is hello.")],
                    reply_to=frames.reply_to(frame),
                )
            answering = self._answer(frame, len(raw))
            if answering is not None:
                await answering
        except TextInvalid:
            self.end("invalid_text")
        except TokenMissing as refused:
            if not await self._registered(frame):
                await self._violated(refused, len(raw))
        except FrameRefused as refused:
            await self._violated(refused, len(raw))
        except Unauthenticated as refused:
            if not await self._registered(frame):
                self.send(frames.error(refused.code, reply_to=frames.reply_to(frame)))
        except responses.Refusal as refused:
            self.send(frames.error(refused.code, reply_to=frames.reply_to(frame), wait=refused.wait))
        except DatabaseError as error:
            if error.problem == "internal_error":
                _log.error("database_refused", frame=frame["type"], exc_info=error)
            self.send(frames.error(error.problem, reply_to=frames.reply_to(frame)))
        except Exception as error:
            _log.error("frame_failed", frame=frame["type"], exc_info=error)
            self.send(frames.error("internal_error", reply_to=frames.reply_to(frame)))

    async def _registered(self, frame: Mapping[str, Any]) -> bool:
        """Was a frame without a token that works told that its run, a registered one, has none?"""
        try:
            await self._hub.plant.refuse_registered(self.caller, frame["run_id"])
        except DatabaseError:
            return False
        except responses.Refusal as refused:
            self.send(frames.error(refused.code, reply_to=frames.reply_to(frame), extra=refused.extra))
            return True
        return False

    async def _violated(self, refused: FrameRefused, size: int) -> None:
        patch = refused.patch if self.ready else None
        if patch is None or not await self.control.judged(patch, refused.errors, size):
            self.send(frames.refusal(refused))
        self._violations += 1
        if self._violations >= self._hub.max_violations:
            self.end("bad_frames")

    def admitted(self, frame: Mapping[str, Any], rate_class: str) -> bool:
        """Within the limit, and still somebody. Refusals are answered here."""
        if not self._hub.valid(self):
            return False
        wait = self._hub.limits[rate_class].take(self.principal_id)
        if wait:
            self.send(frames.error("rate_limited", reply_to=frames.reply_to(frame), wait=wait))
        return not wait

    def _answer(self, frame: dict[str, Any], size: int) -> Awaitable[None] | None:
        """Answer a frame, now or when what this gives is awaited."""
        match frame["type"]:
            case "run.update":
                return self.control.update(frame, size)
            case "heartbeat":
                return self.control.heartbeat(frame)
            case "ack":
                return self.control.ack(frame)
            case "focus":
                return self._focus(frame)
            case "hello":
                return self._hello(frame)
        self._ping(frame)
        return None

    async def _hello(self, frame: dict[str, Any]) -> None:
        again = self.ready
        if again and "resume_after" in frame:
            raise FrameRefused(
                "validation_failed",
                [FieldError("unknown_field", "pointer", "/resume_after", "Only the first hello resumes.")],
                reply_to=frames.reply_to(frame),
            )
        if again and not self.admitted(frame, "read"):
            return
        try:
            caller, expires_at = await self._hub.authenticate(frame["token"], self._peer)
        except Unauthenticated as refused:
            self.send(frames.error(refused.code, reply_to=frames.reply_to(frame)))
            self.end("token_expired" if refused.code == EXPIRED else "invalid_token")
            return
        except responses.Refusal as refused:
            self.send(frames.error(refused.code, reply_to=frames.reply_to(frame), wait=refused.wait))
            return
        if again and caller.principal != self.principal_id:
            self.send(frames.error(INVALID, reply_to=frames.reply_to(frame)))
            self.end("invalid_token")
            return
        if not again and (wait := self._hub.limits["read"].take(caller.principal)):
            self.send(frames.error("rate_limited", reply_to=frames.reply_to(frame), wait=wait))
            return
        self.caller, self.expires_at = caller, expires_at
        if "capabilities" in frame:
            self.invocations = frame["capabilities"].get("invocations")
        if again:
            self.result(frame, {})
            self._hub.told(self)
        else:
            await self._hub.begin(self, caller, frames.reply_to(frame), frame.get("resume_after"))

    async def _focus(self, frame: dict[str, Any]) -> None:
        thread_ids, run_ids = frame.get("thread_ids", []), frame.get("run_ids", [])
        if len(thread_ids) + len(run_ids) > self._hub.focus_max:
            where = "/thread_ids" if len(thread_ids) > self._hub.focus_max else "/run_ids"
            raise FrameRefused(
                "validation_failed",
                [FieldError("too_many", "pointer", where, f"At most {self._hub.focus_max} in all.")],
                reply_to=frames.reply_to(frame),
            )
        if not self.admitted(frame, "read"):
            return
        try:
            await self._hub.focus.replace(self, thread_ids, run_ids)
        except Refused as refused:
            self._hub.refuse(self, refused.code)
            return
        threads = [thread_id for thread_id in thread_ids if thread_id in self.threads]
        runs = [run_id for run_id in run_ids if run_id in self.runs]
        self.result(frame, {"thread_ids": threads, "run_ids": runs})

    def _ping(self, frame: dict[str, Any]) -> None:
        if self.admitted(frame, "read"):
            self.send(frames.made("pong", {}, reply_to=frames.reply_to(frame)))

    def hold(self, invocation: Invocation) -> None:
        """It works on this run: a valid token was shown by it or given to it."""
        self.control.remember(invocation)
        new = invocation.run_id not in self.held
        self.held[invocation.run_id] = invocation
        if new:
            self._hub.holds(self, invocation.run_id)

    def release(self, run_id: str) -> None:
        """It works on this run no longer: the run has ended, or somebody else does."""
        if self.held.pop(run_id, None) is not None:
            self._hub.released(self, run_id)

    # what goes out

    def send(self, frame: Frame) -> None:
        """Send what must arrive and answers this client."""
        self.connection.post(frame)

    def result(self, frame: Mapping[str, Any], members: Mapping[str, Any]) -> None:
        """Answer a frame that wants an answer."""
        if "id" in frame:
            self.send(frames.made("result", members, reply_to=frame["id"]))

    def send_event(self, seq: int, frame: Frame) -> None:
        """An event of the tail. A device that is behind goes on from here once it has taken what it was sent."""
        if not self.follows or seq <= self.seq:
            return
        if self.connection.unsent() > self._hub.soft:
            self.follows = False
            self.seq = seq - 1
            self._hub.fell_behind(self)
            return
        self.seq = seq
        self.connection.post(frame)

    def leave_out(self, run_id: str, count: int) -> None:
        """So many changes of a run that it looks at are not sent, while the device is behind."""
        if run_id not in self.stale:
            self.stale.add(run_id)
            if self.connection.unsent() > self._hub.soft:
                self.stale.update(dropped.run_id for dropped in self.connection.drop_documents())
            self._hub.fell_behind(self)
        self._hub.dropped(count)

    def send_document(self, document: Entry) -> None:
        """A run, whole; later, when the device is behind."""
        self._hub.focus.settle(document.run_id)
        if self._hub.tail.silent or self.connection.unsent() > self._hub.soft:
            self.stale.add(document.run_id)
            self._hub.fell_behind(self)
        else:
            self.stale.discard(document.run_id)
            self.connection.post(frames.document(document.encode(), document.run_id))

    def catch_up_documents(self) -> None:
        """Fresh documents for what was left out, as far as the device takes them."""
        for run_id in [*self.stale]:
            document = self.documents.get(run_id)
            if document is None:
                self.stale.discard(run_id)
            elif not self.connection.unsent() > self._hub.soft:
                self.send_document(document)
