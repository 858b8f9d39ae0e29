"""One lasting session with the gateway of a server: connected, and connected again whenever that is lost."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import aiohttp
import msgspec

from generated.gateway_messages import CLOSES
from generated.models import ReadyFrame, ResultFrame
from livebox.client.pauses import Pauses
from livebox.client.problems import GatewayAbsent, GatewayLost, GatewayRefused, Problem

Token = str | Callable[[], str]
"""A token, or what gives the newest one whenever a session begins."""
Listener = Callable[[dict[str, Any]], None]
Happening = Literal[
    "ready",
    "lost",
    "refused",
    "event",
    "resync",
    "agent.invocation",
    "run.cancel_requested",
    "run.followup",
    "run.document",
    "run.updated",
    "run.watched",
]
"""What one can listen to: frames of the server by `type`, and `lost` and `refused` when a session has ended."""

SUBPROTOCOL: Final = "livebox.v1"
PATH: Final = "/v1/gateway"
UNAUTHORIZED: Final = 401
LASTED: Final = 5.0  # seconds after which a session counts as one that worked
ABSENT_PAUSE: Final = 30.0  # seconds until a gateway that is not there is looked for again
_LARGEST: Final = 64 * 1024**2  # bytes of a frame of the server
_MISSED: Final = 2.5  # intervals without a frame after which the server is taken for gone
_NAMES: Final = {close.code: close.name for close in CLOSES.values()}
_FINAL: Final = frozenset(close.code for close in CLOSES.values() if not close.reconnect)
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # of the upgrade: try again
_UNTIDY: Final = (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError)

_log = logging.getLogger("livebox.client")


class Gateway:
    """A session as one principal, from `async with` to its end; use `Livebox` or `Adapter` unless you need frames.

    `invocations` is how many runs an agent takes at once, None for people. With `resume` each new session goes on in
    the log where the last one was, else it begins where the log is. `timeout` is how many seconds an answer may take.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        invocations: int | None = None,
        resume: bool = True,
        timeout: float = 20.0,
    ) -> None:
        self._server = url.rstrip("/")
        self._url = self._server + PATH
        self._missed = False  # whether it was said that the server does not answer
        self._token = token
        self._invocations = invocations
        self._resume = resume
        self._timeout = timeout
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self._answers: dict[str, asyncio.Future[ResultFrame]] = {}
        self._numbers = itertools.count(1)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._settled = asyncio.Event()  # it is known whether there is a session
        self._keeping: asyncio.Task[None] | None = None
        self._asked_pause: float | None = None
        self.ready: ReadyFrame | None = None
        """What the server said when the present session began; None while there is none."""
        self.seq: int | None = None
        """The last position of the log that was seen."""
        self.absent = False
        """Whether the server was found to have no gateway."""
        self.refusal: GatewayRefused | None = None
        """Why there will be no further session."""

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def open(self) -> None:
        """Begin to connect; does nothing when that was done."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """End the session and begin no other."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
            self._keeping = None

    def listen(self, happening: Happening, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each frame of that kind, in the order in which they come; gives what ends that."""
        listeners = self._listeners[happening]
        listeners.append(listener)

        def end() -> None:
            with suppress(ValueError):
                listeners.remove(listener)

        return end

    async def connected(self) -> ReadyFrame:
        """Wait for a session. Raises GatewayRefused when there will be none, GatewayAbsent without a gateway."""
        while self.ready is None:
            if self.refusal is not None:
                raise self.refusal
            if self.absent:
                raise GatewayAbsent(f"there is no gateway at {self._server}")
            self._settled.clear()
            await self._settled.wait()
        return self.ready

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame whose answer does not matter. Raises GatewayLost when there is no session."""
        if self._socket is None:
            raise GatewayLost("there is no session")
        try:
            await self._socket.send_str(msgspec.json.encode(frame).decode())
        except _UNTIDY as error:
            raise GatewayLost(str(error)) from error

    async def request(self, frame: Mapping[str, Any]) -> ResultFrame:
        """Send a frame and give its answer.

        Raises Problem when it is refused, and GatewayLost when the session ended first: it may have been carried out.
        """
        number = str(next(self._numbers))
        answer: asyncio.Future[ResultFrame] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            await self.send({**frame, "id": number})
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            await self._drop()
            raise GatewayLost("no answer in time") from None
        finally:
            self._answers.pop(number, None)

    async def _keep(self) -> None:
        """Session after session, until it is refused."""
        pauses = Pauses()
        async with aiohttp.ClientSession() as http:
            while self.refusal is None:
                self._asked_pause = None
                try:
                    await self._session(http, pauses)
                except aiohttp.WSServerHandshakeError as error:
                    self.absent = error.status not in _TRANSIENT
                    retry_after = error.headers.get("Retry-After", "") if error.headers else ""
                    self._asked_pause = ABSENT_PAUSE if self.absent else _seconds(retry_after)
                    if not self.absent:
                        self._miss()
                except _UNTIDY as error:
                    _log.debug("no session with %s: %s", self._url, error)
                    if self.ready is None:
                        self._miss()
                finally:
                    self._ended()
                if self.refusal is None:
                    await asyncio.sleep(pauses.next(self._asked_pause))

    def _miss(self) -> None:
        """Say once in an outage that the server does not answer; where nobody set up logging it goes to stderr."""
        if not self._missed:
            _log.warning("no answer from %s; trying again", self._server)
        self._missed = True

    async def _session(self, http: aiohttp.ClientSession, pauses: Pauses) -> None:
        async with http.ws_connect(
            self._url,
            protocols=(SUBPROTOCOL,),
            max_msg_size=_LARGEST,
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
        ) as socket:
            said: Problem | None = None
            frame = await self._hello(socket)
            if frame is not None and frame["type"] == "ready":
                self.absent = False
                self._began(socket, cast(ReadyFrame, frame))
                began = asyncio.get_running_loop().time()
                try:
                    await self._read(socket, frame["limits"]["heartbeat_interval_ms"] / 1000)
                finally:
                    if asyncio.get_running_loop().time() - began > LASTED:
                        pauses.reset()
            elif frame is not None and frame["type"] == "error":
                said = Problem.told(frame["problem"])
                if said.status != UNAUTHORIZED:  # there is too much to do just now
                    self._asked_pause = said.retry_after
                    return
                await socket.receive(self._timeout)
            self._judge(socket.close_code, said)

    def _judge(self, code: int | None, said: Problem | None) -> None:
        """Whether another session makes sense. A token that expired is final for who has no other."""
        outcast = said is not None and isinstance(self._token, str)
        if code is not None and (code in _FINAL or 4500 <= code <= 4999 or outcast):
            self.refusal = GatewayRefused(code, _NAMES.get(code, "unknown"), said)

    async def _hello(self, socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any] | None:
        token = self._token if isinstance(self._token, str) else self._token()
        hello: dict[str, Any] = {"type": "hello", "id": "hello", "token": token}
        if self._resume and self.seq is not None:
            hello["resume_after"] = self.seq
        if self._invocations is not None:
            hello["capabilities"] = {"invocations": self._invocations}
        await socket.send_str(msgspec.json.encode(hello).decode())
        message = await socket.receive(self._timeout)
        return msgspec.json.decode(message.data) if message.type is aiohttp.WSMsgType.TEXT else None

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, interval: float) -> None:
        """Every frame of the session. A server that says nothing although it is pinged is left."""
        pinging = asyncio.create_task(self._ping(interval))
        try:
            while True:
                message = await socket.receive(interval * _MISSED)
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return
                self._take(msgspec.json.decode(message.data))
        finally:
            pinging.cancel()

    async def _ping(self, interval: float) -> None:
        with suppress(GatewayLost):
            while True:
                await asyncio.sleep(interval)
                await self.send({"type": "ping"})

    def _take(self, frame: dict[str, Any]) -> None:
        kind = frame.get("type")
        if kind in ("result", "error", "pong"):
            self._answer(frame)
            return
        if kind == "bye":
            self._asked_pause = frame["retry_after_ms"] / 1000
            return
        if kind == "event":
            seq = frame["event"]["seq"]
            if self.seq is not None and seq <= self.seq:
                return
            self.seq = seq
        elif kind == "resync":
            self.seq = frame["after"]
        self._tell(str(kind), frame)

    def _answer(self, frame: dict[str, Any]) -> None:
        answer = self._answers.get(frame.get("reply_to", ""))
        if frame["type"] == "error":
            problem = Problem.told(frame["problem"])
            if answer is None:
                _log.warning("the gateway refused a frame: %s", problem)
            elif not answer.done():
                answer.set_exception(problem)
        elif answer is not None and not answer.done():
            answer.set_result(cast(ResultFrame, frame))

    def _began(self, socket: aiohttp.ClientWebSocketResponse, ready: ReadyFrame) -> None:
        self._socket = socket
        self.ready = ready
        self._missed = False
        if self.seq is None or not self._resume:
            self.seq = ready["seq"]
        self._settled.set()
        self._tell("ready", cast(dict[str, Any], ready))

    def _ended(self) -> None:
        self._socket = None
        was, self.ready = self.ready, None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(GatewayLost("the session ended"))
        self._settled.set()
        if was is not None:
            self._tell("lost", {})
        if self.refusal is not None:
            self._tell("refused", {})

    def _tell(self, kind: str, frame: dict[str, Any]) -> None:
        for listener in list(self._listeners.get(kind, ())):
            try:
                listener(frame)
            except Exception:  # one that fails must not end the session of the others
                _log.exception("a listener failed at %s", kind)

    async def _drop(self) -> None:
        if self._socket is not None:
            with suppress(*_UNTIDY):
                await self._socket.close()


def _seconds(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isdecimal() else None
