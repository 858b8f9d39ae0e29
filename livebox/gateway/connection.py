"""The socket of one session: aiohttp's WebSocket for what comes in, a way of our own for what goes out.

Frames of the server are bytes that are written to the transport as they are, and never awaited: a broadcast costs one
write for each receiver whatever the receiver does. The first frame after quiet leaves at once; what comes within
`gateway.coalesce_interval` of a write gathers and leaves in one write. One that gathered alone ends that: what comes
slowly waits for nothing. How much a device has not taken yet is known at
any time (`unsent`); beyond the hard cap it is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import WebSocketError, WSCloseCode, web

from generated.gateway_messages import CLOSES
from livebox.gateway.frames import Frame

SUBPROTOCOL: Final = "livebox.v1"
CLOSE_PATIENCE: Final = 2.0
"""Seconds in which a client answers that the session is closed, before the connection is cut."""
LINGER: Final = 0.02
"""Seconds between two looks at whether a client that sent what is no frame has closed."""
GATHER_MAX: Final = 256 * 1024
"""Bytes that gather at most before they are written."""

_PING: Final = b"\x89\x00"
_TOO_LARGE: Final = CLOSES["frame_too_large"].code


class Gatherer(Protocol):
    """Where frames gather."""

    def flush(self) -> bool:
        """The interval is over; False when nothing has to be looked at after the next one."""
        ...


class Gathering:
    """Ends the intervals in which frames gather: one timer for all of them."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._hot: list[Gatherer] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, gatherer: Gatherer) -> None:
        """Flush this when the interval ends, and again until it was quiet for one."""
        self._hot.append(gatherer)
        if self._timer is None:
            self._start()

    def _start(self) -> None:
        # What a timer writes, uvloop sends only after the next event, however late; what `call_soon` writes, at once.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.interval, loop.call_soon, self._end)

    def _end(self) -> None:
        hot, self._hot = self._hot, []
        self._hot += [gatherer for gatherer in hot if gatherer.flush()]
        self._timer = None
        if self._hot:
            self._start()


class Connection(web.WebSocketResponse):
    """One WebSocket. `ending` is the code it is to be closed with, once that was decided.

    `heard` is set by every byte that comes in; who watches over silence takes it back.
    """

    def __init__(self, gathering: Gathering, *, max_frame_bytes: int, hard: int) -> None:
        # aiohttp refuses a message of exactly its limit. Its own heartbeat is off, but for telling of bytes.
        super().__init__(
            timeout=CLOSE_PATIENCE,
            heartbeat=1.0,
            protocols=(SUBPROTOCOL,),
            compress=False,
            max_msg_size=max_frame_bytes + 1,
            decode_text=False,
        )
        self._gathering = gathering
        self._hard = hard
        self._transport: asyncio.Transport | None = None
        self._gathered: list[Frame] = []
        self._gathered_bytes = 0
        self._hot = False
        self._reading: asyncio.Task[None] | None = None
        self._idle = False
        self._lingers = False
        self.heard = True
        self.ending = 0
        self.on_overflow: Callable[[], None] | None = None

    def opened(self, transport: asyncio.Transport | None) -> None:
        """The handshake is done; the calling task reads what comes."""
        self._transport = transport
        task: asyncio.Task[None] | None = asyncio.current_task()
        self._reading = task

    @property
    def gone(self) -> bool:
        """Nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing() or self._closed

    def unsent(self) -> int:
        """Bytes that were given to this connection and not taken by the network yet."""
        return self._gathered_bytes + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def post(self, frame: Frame) -> None:
        """Send a frame soon, without waiting; a device that is beyond the hard cap is cut off."""
        if self._transport is None or self._transport.is_closing() or self._closed:
            return
        if self._hot:
            self._gathered.append(frame)
            self._gathered_bytes += len(frame.data)
            if self._gathered_bytes > GATHER_MAX:
                self._write_gathered(self._transport)
        else:
            self._transport.write(frame.data)
            if self._gathering.interval:
                self._hot = True
                self._gathering.begin(self)
        if self._transport.get_write_buffer_size() > self._hard:
            self.abort()
            if self.on_overflow is not None:
                self.on_overflow()

    def pass_on(self, data: bytes) -> None:
        """Write frames that have gathered elsewhere, after what has gathered here."""
        transport = self._transport
        if transport is None or self._closed or transport.is_closing():
            return
        if self._gathered:
            self._write_gathered(transport)
        transport.write(data)

    def flush(self) -> bool:
        """Write what has gathered; False, and quiet again, when hardly anything did."""
        self._hot = len(self._gathered) > 1
        if self._gathered and self._transport is not None and not self._transport.is_closing():
            self._write_gathered(self._transport)
        else:
            self._forget()
        return self._hot

    def _write_gathered(self, transport: asyncio.Transport) -> None:
        frames = self._gathered
        data = frames[0].data if len(frames) == 1 else b"".join([frame.data for frame in frames])
        self._forget()
        transport.write(data)

    def _forget(self) -> None:
        self._gathered = []
        self._gathered_bytes = 0

    def drop_documents(self) -> list[Frame]:
        """Takes back what has gathered and may be missed."""
        dropped = [frame for frame in self._gathered if frame.run_id]
        if dropped:
            self._gathered = [frame for frame in self._gathered if not frame.run_id]
            self._gathered_bytes = sum(len(frame.data) for frame in self._gathered)
        return dropped

    def withdraw(self, run_id: str) -> None:
        """Forget what has gathered of a run that this device may no longer see."""
        if any(frame.run_id == run_id for frame in self._gathered):
            self._gathered = [frame for frame in self._gathered if frame.run_id != run_id]
            self._gathered_bytes = sum(len(frame.data) for frame in self._gathered)

    def probe(self) -> None:
        """Send a ping of the protocol."""
        if not self.gone and self._transport is not None:
            self._transport.write(_PING)

    def end(self, code: int) -> None:
        """Have it closed with this code once the frame that is being answered is done. The first code counts."""
        if not self.ending:
            self.ending = code
            if self._idle and self._reading is not None:
                self._reading.cancel()

    def abort(self) -> None:
        """Cut the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    async def next(self) -> bytes | None:
        """The next text message; None when there is none any more: then `ending` or the client's close says why."""
        if self.ending:
            return None
        self._idle = True
        try:
            message = await self.receive()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.ending or task is None:
                raise
            task.uncancel()
            return None
        finally:
            self._idle = False
        if message.type is web.WSMsgType.TEXT:
            data = message.data
            return data if isinstance(data, bytes) else data.encode()
        if message.type is web.WSMsgType.BINARY:
            self.ending = self.ending or CLOSES["unsupported_data"].code
        return None

    async def finish(self) -> None:
        """Close it with the code that was decided, and wait until the client knows, for a while."""
        try:
            await self.close(code=self.ending or WSCloseCode.OK)
            if self._lingers:
                await self._linger()
        finally:
            if self.unsent():
                self.abort()

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        """Say goodbye. What aiohttp calls too big has a code of the contract's own."""
        code = _TOO_LARGE if code == WSCloseCode.MESSAGE_TOO_BIG else code
        self.ending = self.ending or int(code)
        self.flush()
        # Waiting for the network here would wait for ever for a device that does not read.
        return await super().close(code=code, message=message, drain=False)

    def _set_code_close_transport(self, code: WSCloseCode) -> None:
        # Cutting a connection on which something still arrives makes the network forget what was said last.
        self._lingers = isinstance(self._exception, WebSocketError)
        if self._lingers:
            self._close_code = code
        else:
            super()._set_code_close_transport(code)

    async def _linger(self) -> None:
        """Take and forget what still comes, until the client closes as well."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLOSE_PATIENCE
        # A transport has no event for this.
        while self._transport and not self._transport.is_closing() and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(LINGER)
        self._close_transport()

    def _reset_heartbeat(self) -> None:
        """aiohttp's own pings stay off: one watch looks after all sessions."""

    def _on_data_received(self) -> None:
        self.heard = True
