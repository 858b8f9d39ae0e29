"""A WebSocket by hand: frames that no client library would send, and exactly what comes back."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from tests.fixtures.received import KEPT, Frame
from tests.fixtures.server import PATIENCE, Live

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Got(NamedTuple):
    """One frame of the server."""

    opcode: int
    payload: bytes

    @property
    def json(self) -> Any:
        """The payload of a text frame."""
        return msgspec.json.decode(self.payload)


class Raw:
    """One connection after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.got: list[Got] = []
        self._left = False

    def send(self, payload: bytes, opcode: int = TEXT, *, fin: bool = True, rsv: int = 0, mask: bool = True) -> None:
        """Write one frame."""
        self._left = self._left or opcode == CLOSE
        if opcode == TEXT and fin and not rsv and mask:
            KEPT.frames.append(Frame("client", payload))
        self.writer.write(frame(payload, opcode, fin=fin, rsv=rsv, mask=mask))

    def say(self, kind: str, **members: Any) -> None:
        """Write a text frame that keeps the contract, as far as one likes."""
        self.send(msgspec.json.encode({"type": kind, **members}))

    async def next(self) -> Got:
        """The next frame of the server; pings of it are left out."""
        async with asyncio.timeout(PATIENCE):
            while True:
                first, length = await self.reader.readexactly(2)
                assert first & 0xF0 == 0x80, "a server sends whole frames, uncompressed"
                assert length < 0x80, "a server masks nothing"
                if length == 126:
                    (length,) = struct.unpack("!H", await self.reader.readexactly(2))
                elif length == 127:
                    (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
                found = Got(first & 0xF, await self.reader.readexactly(length))
                self.got.append(found)
                if found.opcode == CLOSE and found.payload and not self._left:
                    KEPT.closes.append(code_of(found.payload))
                if found.opcode != PING:
                    return found

    async def first(self, kind: str) -> Any:
        """The next text frame of this type."""
        while True:
            found = await self.next()
            assert found.opcode == TEXT, found
            if found.json["type"] == kind:
                return found.json

    async def closed(self) -> int:
        """The close code; what comes before it is in `got`."""
        while (found := await self.next()).opcode != CLOSE:
            pass
        return code_of(found.payload)

    async def over(self) -> bool:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            while await self.reader.read(65536):
                pass
        return True


def code_of(payload: bytes) -> int:
    """The code in the payload of a close frame."""
    return int.from_bytes(payload[:2], "big")


def frame(payload: bytes, opcode: int = TEXT, *, fin: bool = True, rsv: int = 0, mask: bool = True) -> bytes:
    """The bytes of one frame."""
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([bit | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", len(payload))
    if not mask:
        return head + payload
    key = os.urandom(4)
    stretched = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(stretched, "big")).to_bytes(len(payload), "big")
    return head + key + masked


def handshake(**headers: str) -> bytes:
    """The request that opens a session."""
    sent = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = ["GET /v1/gateway HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    return "\r\n".join(lines).encode()


@asynccontextmanager
async def raw(live: Live, **headers: str) -> AsyncIterator[Raw]:
    """A connection of one's own; `headers` go along with the handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    try:
        writer.write(handshake(**headers))
        async with asyncio.timeout(PATIENCE):
            answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101"), answer
        assert b"sec-websocket-extensions" not in answer.lower(), answer
        yield Raw(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def entered(live: Live, handle: str, **hello: Any) -> AsyncIterator[Raw]:
    """The same, with `hello` said."""
    async with raw(live) as connection:
        connection.say("hello", token=live.tokens[handle], **hello)
        await connection.first("ready")
        yield connection


def problem_of(answer: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The code of an error frame, and (code, pointer) of each of its errors."""
    problem = answer["problem"]
    return problem["code"], [(error["code"], error["pointer"]) for error in problem.get("errors", [])]
