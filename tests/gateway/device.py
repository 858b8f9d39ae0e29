"""A client of the gateway that checks every frame it gets, and keeps the documents of what it looks at."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec

from generated.gateway_messages import MESSAGES
from generated.validators import checker
from tests.fixtures.server import PATIENCE, Live

CHECKERS: Final = {name: checker(found.schema) for name, found in MESSAGES.items() if found.sender == "server"}

Frame = dict[str, Any]


class Ended(Exception):
    """The session is over; `code` says how."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(str(code))


def no_null(value: Any) -> bool:
    """No null at any depth."""
    if isinstance(value, dict):
        return all(no_null(inner) for inner in value.values())
    if isinstance(value, list):
        return all(no_null(inner) for inner in value)
    return value is not None


class Device:
    """One connection. `frames` is all that came, in order; `documents` what it knows of runs, by id.

    A `run.updated` that does not fit the version it has is a fault of the server: it may leave out nothing without a
    `run.document` afterwards, so `gaps` are collected.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.frames: list[Frame] = []
        self.documents: dict[str, Frame] = {}
        self.gaps: list[Frame] = []
        self.code: int | None = None
        self._numbers = itertools.count(1)
        self._waiting: list[asyncio.Future[None]] = []
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            async for message in self.socket:
                assert message.type is aiohttp.WSMsgType.TEXT, message
                self._take(msgspec.json.decode(message.data))
        finally:
            self.code = self.socket.close_code
            self._wake()

    def _take(self, frame: Frame) -> None:
        errors = CHECKERS[frame["type"]](frame)
        assert not errors, (frame, errors)
        assert no_null(frame), frame
        self.frames.append(frame)
        if frame["type"] == "run.document":
            self.documents[frame["run"]["id"]] = frame["run"]
        elif frame["type"] == "run.updated":
            self._update(frame)
        self._wake()

    def _update(self, frame: Frame) -> None:
        document = self.documents.get(frame["run_id"])
        if document is None or document["version"] != frame["base_version"]:
            self.gaps.append(frame)
            return
        self.documents[frame["run_id"]] = {**patched(document, frame["ops"]), "version": frame["version"]}

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], Any], what: str = "the frame") -> Any:
        """The first true value of the condition, asked after each frame."""
        async with asyncio.timeout(PATIENCE):
            while not (value := condition()):
                if self._reading.done():
                    error = None if self._reading.cancelled() else self._reading.exception()
                    raise error or Ended(self.code)
                waiter = asyncio.get_running_loop().create_future()
                self._waiting.append(waiter)
                await waiter
        return value

    def of(self, kind: str, since: int = 0) -> list[Frame]:
        """All frames of one type."""
        return [frame for frame in self.frames[since:] if frame["type"] == kind]

    def events(self) -> list[Frame]:
        """All events."""
        return [frame["event"] for frame in self.of("event")]

    async def first(self, kind: str, since: int = 0) -> Frame:
        """The first frame of a type; waits for it."""
        found: list[Frame] = await self.until(lambda: self.of(kind, since), kind)
        return found[0]

    async def event(self, kind: str, **scope: str) -> Frame:
        """The first event of a type with this scope."""

        def match() -> list[Frame]:
            return [e for e in self.events() if e["type"] == kind and scope.items() <= e["scope"].items()]

        found: list[Frame] = await self.until(match, kind)
        return found[0]

    async def say(self, kind: str, **members: Any) -> None:
        """Send a frame."""
        await self.socket.send_str(msgspec.json.encode({"type": kind, **members}).decode())

    async def ask(self, kind: str, **members: Any) -> Frame:
        """Send a frame and wait for what answers it: result, error, ready or pong."""
        frame_id = str(next(self._numbers))
        await self.say(kind, id=frame_id, **members)
        return await self.answer(frame_id)

    async def answer(self, frame_id: str) -> Frame:
        """The frame that answers the one with this id."""
        found: list[Frame] = await self.until(
            lambda: [frame for frame in self.frames if frame.get("reply_to") == frame_id], f"the answer to {frame_id}"
        )
        return found[0]

    async def refused(self, kind: str, **members: Any) -> Frame:
        """The problem that a frame gets."""
        answer = await self.ask(kind, **members)
        assert answer["type"] == "error", answer
        problem: Frame = answer["problem"]
        return problem

    async def settled(self) -> None:
        """Everything that was under way to this device has arrived."""
        await self.ask("ping")

    async def closed(self) -> int | None:
        """The code that the session ends with."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self._reading])
        return self.code

    async def close(self) -> None:
        """Leave."""
        await self.socket.close()
        await asyncio.wait([self._reading])
        if not self._reading.cancelled() and (error := self._reading.exception()) is not None:
            raise error


class Devices:
    """Makes devices of the principals of one server's world."""

    def __init__(self, session: aiohttp.ClientSession, live: Live) -> None:
        self._session = session
        self.live = live
        self._devices: list[Device] = []

    async def connect(self, **more: Any) -> Device:
        """A connection that has said nothing yet."""
        url = self.live.url.replace("http", "ws", 1) + "/v1/gateway"
        more.setdefault("protocols", ("livebox.v1",))
        socket = await self._session.ws_connect(url, max_msg_size=0, autoclose=True, **more)
        device = Device(socket)
        self._devices.append(device)
        return device

    async def enter(self, handle: str, **hello: Any) -> Device:
        """A session of a principal of the world."""
        device = await self.connect()
        hello.setdefault("token", self.live.tokens.get(handle) or self.live.issue(handle))
        ready = await device.ask("hello", **hello)
        assert ready["type"] == "ready", ready
        return device

    async def close(self) -> None:
        """Close all; what a device found wrong fails the test."""
        for device in self._devices:
            await device.close()


def patched(document: Frame, ops: list[Frame]) -> Frame:
    """A document with the operations of a `run.updated` applied, as small as RFC 6902 allows for objects."""
    root: Frame = msgspec.json.decode(msgspec.json.encode(document))
    for op in ops:
        *path, last = [token.replace("~1", "/").replace("~0", "~") for token in op["path"].split("/")[1:]]
        target: Any = root
        for token in path:
            target = target[token] if isinstance(target, dict) else target[int(token)]
        if op["op"] == "remove":
            del target[last]
        else:
            assert op["op"] == "add" or last in target, op
            target[last] = op["value"]
    return root


def by_run(frames: list[Frame]) -> dict[str, list[Frame]]:
    """The live frames of each run, in order."""
    found: defaultdict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        if frame["type"] == "run.document":
            found[frame["run"]["id"]].append(frame)
        elif frame["type"] == "run.updated":
            found[frame["run_id"]].append(frame)
    return found
