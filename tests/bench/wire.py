"""A client's end of a WebSocket that costs little, so that a load generator is not what is measured."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Callable
from typing import Any, Final

PATIENCE: Final = 60.0
"""Seconds in which an answer that is waited for must come."""
_SMALL: Final = 4096  # bytes of the receive buffer of a device that does not read
_PONG: Final = b"\x8a\x80\0\0\0\0"
_PING: Final = 0x89
_CLOSE: Final = 0x88


def framed(payload: bytes) -> bytes:
    """A text message of a client. Its mask is zero: that is legal, and the server undoes it as any other."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, 0x80 | length))
    elif length < 65536:
        head = b"\x81\xfe" + length.to_bytes(2, "big")
    else:
        head = b"\x81\xff" + length.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


class Socket(asyncio.Protocol):
    """One connection. `on_frame(data, start, end)` gets each text message as it lies in what was received."""

    def __init__(self) -> None:
        self.on_frame: Callable[[bytes, int, int], None] = self._waited
        self.closed = ""
        self._transport: Any = None
        self._received = b""
        self._open = False
        self._wanted: tuple[bytes, ...] = ()
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, port: int, path: str, *, small: bool = False) -> Socket:
        """A connection after its handshake; `small` gives it little room to receive in."""
        made = socket.socket()
        made.setblocking(False)
        if small:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, ("127.0.0.1", port))
        _, opened = await loop.create_connection(cls, sock=made)
        await opened._shake(path)
        return opened

    async def _shake(self, path: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ("Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
        head = [f"GET {path} HTTP/1.1", *lines, "Sec-WebSocket-Protocol: livebox.v1", f"Sec-WebSocket-Key: {key}"]
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write("\r\n".join([*head, "", ""]).encode())
        answer = await asyncio.wait_for(self._answer, PATIENCE)
        if b" 101 " not in answer[:20]:
            raise ConnectionError(f"no handshake: {answer!r}")

    def write(self, frames: bytes) -> None:
        """Send what `framed` made."""
        self._transport.write(frames)

    async def ask(self, payload: bytes, *wanted: bytes) -> bytes:
        """Send a message and wait for the first one that holds one of these."""
        self._wanted = wanted
        self._answer = asyncio.get_running_loop().create_future()
        self.write(framed(payload))
        return await asyncio.wait_for(self._answer, PATIENCE)

    def stop_reading(self) -> None:
        """Take nothing any more, without saying so."""
        self._transport.pause_reading()

    def abort(self) -> None:
        """End it."""
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = self.closed or "the connection was lost"
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(self.closed))

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        if not self._open:
            head = data.find(b"\r\n\r\n")
            if head < 0:
                self._received = data
                return
            self._open = True
            assert self._answer is not None
            self._answer.set_result(data[:head])
            data = data[head + 4 :]
        at, end, take = 0, len(data), self.on_frame
        while at + 2 <= end:
            length, start = data[at + 1], at + 2
            if length > 125:
                start += 2 if length == 126 else 8
                length = int.from_bytes(data[at + 2 : start], "big") if start <= end else end
            if start + length > end:
                break
            if data[at] == 0x81:
                take(data, start, start + length)
            elif data[at] == _PING:
                self.write(_PONG)
            elif data[at] == _CLOSE:
                self.closed = f"the server closed with {int.from_bytes(data[start : start + 2], 'big')}"
            at = start + length
        self._received = data[at:]

    def _waited(self, data: bytes, start: int, end: int) -> None:
        if self._answer is None or self._answer.done():
            return
        payload = data[start:end]
        if not self._wanted or any(wanted in payload for wanted in self._wanted):
            self._answer.set_result(payload)
