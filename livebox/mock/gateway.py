"""The gateway of the mock: one scripted session for each client, over the real frames and the real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import hdrs, web

from generated.field_errors import FieldError, field_error
from generated.gateway_messages import CLOSES
from generated.validators import frame_errors
from livebox.edge import Incoming, printable
from livebox.gateway import frames
from livebox.gateway.connection import Connection, Gathering
from livebox.gateway.frames import FrameRefused, TextInvalid
from livebox.live.patch import Limits, PatchRefused
from livebox.log import logger
from livebox.mock.script import CUT, OF_AGENTS, PLAIN, RESYNC, TOKEN, Book, Step, Story, not_hello, scripts
from livebox.responses import new_request_id, problem_document
from livebox.settings import Settings

STORIES_MAX: Final = 1000
REFUSED: Final = "invalid_token"

_log = logger("mock")


class Gateway:
    """Makes the sessions. `script` is what they play unless their token names another; `pace` are the seconds between
    the frames that come by themselves."""

    def __init__(self, settings: Settings, script: str = PLAIN, pace: float = 0.5) -> None:
        self.script = script
        self.pace = pace
        self.hello_timeout = settings.number("gateway.hello_timeout")
        self.max_violations = settings.integer("gateway.max_violations")
        self.focus_max = settings.integer("gateway.focus_max")
        self.max_frame_bytes = settings.integer("gateway.max_frame_bytes")
        self.book = Book()
        self._hard = settings.integer("gateway.send_queue_hard_bytes")
        self._gathering = Gathering(0.0)
        names = ("run.document_max_bytes", "run.text_max_bytes", "run.patch_max_bytes", "run.patch_max_ops")
        self._limits = Limits(*(settings.integer(name) for name in names))
        self._stories: dict[str, Story] = {}
        self._sessions: set[Session] = set()

    def opens(self, request: Incoming) -> bool:
        """Is this a handshake that can be answered?"""
        return request.method == hdrs.METH_GET and bool(self._connection().can_prepare(request))

    async def serve(self, request: Incoming) -> web.StreamResponse:
        """The whole session. Pages may come from anywhere."""
        connection = self._connection()
        await connection.prepare(request)
        connection.opened(request.transport)
        session = Session(self, connection)
        self._sessions.add(session)
        try:
            await session.serve()
        finally:
            self._sessions.discard(session)
            await connection.finish()
        return connection

    async def stop(self) -> None:
        """End all sessions, as a server that stops does."""
        for session in list(self._sessions):
            session.leave("restart")
        await asyncio.sleep(0)

    def story(self, token: str) -> Story:
        """What the client with this token lives through."""
        story = self._stories.pop(token, None) or Story(self.book, self._limits)
        self._stories[token] = story
        while len(self._stories) > STORIES_MAX:
            del self._stories[next(iter(self._stories))]
        return story

    def script_of(self, token: str) -> str:
        """What a session with this token plays."""
        if not token.startswith(TOKEN):
            return self.script
        named = token.removeprefix(TOKEN).partition(".")[0]
        if named in scripts():
            return named
        _log.warning("unknown_script", script=printable(named), there=scripts())
        return self.script

    def _connection(self) -> Connection:
        return Connection(self._gathering, max_frame_bytes=self.max_frame_bytes, hard=self._hard)


class Session:
    """One session, from the handshake to the close."""

    def __init__(self, gateway: Gateway, connection: Connection) -> None:
        self._gateway = gateway
        self._book = gateway.book
        self._connection = connection
        self._story: Story | None = None
        self._script = PLAIN
        self._breaks = False
        self._focused = False
        self._holds = False
        self._violations = 0
        self._playing: asyncio.Task[None] | None = None
        self._answers: dict[str, Callable[[dict[str, Any], int], None]] = {
            "hello": self._hello,
            "focus": self._focus,
            "run.update": self._update,
            "heartbeat": self._heartbeat,
            "ack": self._ack,
            "ping": self._ping,
        }

    async def serve(self) -> None:
        """Answer frames until the session ends."""
        timer = asyncio.get_running_loop().call_later(self._gateway.hello_timeout, self._no_hello)
        try:
            while (raw := await self._connection.next()) is not None:
                self._take(raw)
        finally:
            timer.cancel()
            if self._playing is not None:
                self._playing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._playing

    def leave(self, how: str) -> None:
        """End it in one of the ways of the contract, with `bye` where there is something to say."""
        close = CLOSES[how]
        if self._story is not None and (bye := self._book.bye(close)) is not None:
            self._send("bye", bye)
        self._connection.end(close.code)

    def _no_hello(self) -> None:
        if self._story is None:
            self.leave("no_hello")

    # what comes in

    def _take(self, raw: bytes) -> None:
        frame: dict[str, Any] = {}
        try:
            frame = frames.read(raw)
            if self._story is None and (wrong := not_hello(frame["type"])):
                raise FrameRefused("validation_failed", wrong, reply_to=frames.reply_to(frame))
            self._answers.get(frame["type"], self._done)(frame, len(raw))
        except TextInvalid:
            self.leave("invalid_text")
        except FrameRefused as refused:
            self._refuse(refused.code, {"id": refused.reply_to}, refused.errors, detail=refused.detail)
            self._violations += 1
            if self._violations >= self._gateway.max_violations:
                self.leave("bad_frames")
        except PatchRefused as refused:
            self._refuse(refused.code, frame, refused.errors, detail=refused.detail, extra=refused.extra)
        except Exception as error:
            _log.error("frame_failed", frame=frame.get("type"), exc_info=error)
            self._refuse("internal_error", frame)

    def _refuse(self, code: str, frame: Mapping[str, Any], errors: Any = (), **more: Any) -> None:
        problem = problem_document(code, frames.PATH, new_request_id(), errors=errors, **more)
        self._send("error", {"problem": problem}, frames.reply_to(frame))

    def _done(self, frame: dict[str, Any], _: int = 0, **members: Any) -> None:
        """Answer a frame that wants an answer."""
        if "id" in frame:
            self._send("result", members, frame["id"])

    def _ping(self, frame: dict[str, Any], _: int) -> None:
        self._send("pong", {}, frames.reply_to(frame))

    def _hello(self, frame: dict[str, Any], _: int) -> None:
        if self._story is not None:
            self._done(frame)
            return
        token = frame["token"]
        self._script = self._gateway.script_of(token)
        if self._script == REFUSED:
            self._refuse(REFUSED, frame)
            self.leave(REFUSED)
            return
        story = self._story = self._gateway.story(token)
        story.sessions += 1
        self._breaks = story.sessions % 2 == 1
        if story.ended:
            story.begin()
        works = "capabilities" in frame
        ready = {**self._book.frame("ready", "agent" if works else "person"), "seq": story.seq}
        ready["limits"] |= {"max_frame_bytes": self._gateway.max_frame_bytes, "focus_max": self._gateway.focus_max}
        self._send("ready", ready, frames.reply_to(frame))
        self._catch_up(story, frame.get("resume_after"))
        if works and frame["capabilities"].get("invocations", 1):
            self._holds = True
            self._send("agent.invocation", self._book.frame("agent.invocation"))
            if self._script in OF_AGENTS:
                kind = OF_AGENTS[self._script]
                self._send(kind, self._book.frame(kind))

    def _catch_up(self, story: Story, after: int | None) -> None:
        if after is None:
            return
        first = story.log[0]["seq"]
        if self._script == RESYNC or not first - 1 <= after <= story.seq:
            self._send("resync", {"after": story.seq})
            return
        for event in story.log:
            if event["seq"] > after:
                self._send("event", {"event": event})

    def _focus(self, frame: dict[str, Any], _: int) -> None:
        assert self._story is not None  # noqa: S101  # hello came first
        threads, runs = frame.get("thread_ids", []), frame.get("run_ids", [])
        if len(threads) + len(runs) > self._gateway.focus_max:
            where = "/thread_ids" if len(threads) > self._gateway.focus_max else "/run_ids"
            error = FieldError("too_many", "pointer", where, f"At most {self._gateway.focus_max} in all.")
            raise FrameRefused("validation_failed", [error], reply_to=frames.reply_to(frame))
        seen = [thread for thread in threads if thread == self._story.run["thread_id"]]
        looked = [run for run in runs if run == self._story.run_id]
        self._done(frame, thread_ids=seen, run_ids=looked)
        before, self._focused = self._focused, bool(seen or looked)
        if not self._focused or before:
            return
        self._send("run.document", {"run": self._story.run})
        if self._playing is None:
            self._playing = asyncio.create_task(self._play(self._story))

    def _update(self, frame: dict[str, Any], size: int) -> None:
        story = self._shown(frame)
        if story is not None:
            steps = story.patch(frame, size)
            self._done(frame, version=story.run["version"])
            self._tell(steps)

    def _heartbeat(self, frame: dict[str, Any], _: int) -> None:
        story = self._shown(frame)
        if story is not None:
            beat = self._book.frame("result", "beat")["heartbeat"]
            self._done(frame, heartbeat={**beat, "state": story.run["state"], "version": story.run["version"]})

    def _ack(self, frame: dict[str, Any], _: int) -> None:
        if frame["work"] == "followup" and "message_id" not in frame:
            errors = [field_error("required", "pointer", "/message_id")]
            raise FrameRefused("validation_failed", errors, reply_to=frames.reply_to(frame))
        if frame["work"] == "invocation" or self._shown(frame) is not None:
            more = {"followup": self._book.answer("ackFollowup")} if frame["work"] == "followup" else {}
            self._done(frame, **more)
            if frame["work"] == "invocation":
                self._send("run.watched", self._book.frame("run.watched"))

    def _shown(self, frame: dict[str, Any]) -> Story | None:
        """The story, for who holds its run; any token does, and it is shown once per session."""
        assert self._story is not None  # noqa: S101  # hello came first
        if frame["run_id"] != self._story.run_id:
            self._refuse(REFUSED, frame, detail=f"The mock has one run, {self._story.run_id}.")
            return None
        if "invocation" not in frame and not self._holds:
            errors = [field_error("required", "pointer", "/invocation")]
            raise FrameRefused("validation_failed", errors, reply_to=frames.reply_to(frame))
        self._holds = True
        return self._story

    # what comes by itself

    async def _play(self, story: Story) -> None:
        """The run goes on while the session looks at it."""
        while not story.ended:
            await asyncio.sleep(self._gateway.pace)
            self._tell(story.next())
            if self._breaks and self._script == CUT:
                self._connection.abort()
                return
            if self._breaks and self._script in CLOSES:
                self.leave(self._script)
                return

    def _tell(self, steps: list[Step]) -> None:
        for step in steps:
            if self._focused or step.kind == "event":
                self._send(step.kind, step.members)

    def _send(self, kind: str, members: Mapping[str, Any], reply_to: str = "") -> None:
        """Send a frame, which keeps the contract or is not sent."""
        told = {key: value for key, value in members.items() if key != "reply_to"}
        whole = {"type": kind, **told, **({"reply_to": reply_to} if reply_to else {})}
        if found := frame_errors(kind, whole):
            _log.error("frame_breaks_contract", frame=kind, findings=[error.name for error in found])
            self._connection.end(CLOSES["internal_error"].code)
            return
        self._connection.post(frames.made(kind, told, reply_to=reply_to))
