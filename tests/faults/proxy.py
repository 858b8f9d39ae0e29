"""A TCP proxy in front of a server's unix socket that can cut a connection at a chosen moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from psycopg2.extensions import make_dsn, parse_dsn

TRIGGER = b"livebox.execute("


class Cut(Enum):
    """When the next batch loses its connection."""

    REQUEST = "before the server got it"
    SENT = "after the server got it, long before it answers"
    ANSWER = "when the server answers"
    SILENCE = "never, but no answer comes through"


class Proxy:
    """Forwards connections; ``cut`` is used up by the first batch that meets it, unless the proxy ``keeps`` it.

    ``trigger``: what a batch is known by.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly
        self.cut: Cut | None = None
        self.keeps = False
        self.trigger = TRIGGER
        self.cuts = 0
        self.down = False

    async def start(self) -> None:
        """Listens on a free port of the loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Closes everything."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def dsn(self, direct: str) -> str:
        """The connection string that leads through this proxy."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        through: dict[str, Any] = {"host": host, "port": port, "sslmode": "disable", "gssencmode": "disable"}
        return str(make_dsn(**(parse_dsn(direct) | through)))

    def drop_all(self) -> None:
        """Cuts every connection at once."""
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self.down:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        pair = _Pair(self, writer, server_writer)
        with contextlib.suppress(OSError):
            await asyncio.gather(pair.requests(reader), pair.answers(server_reader))
        for end in (writer, server_writer):
            end.transport.abort()
        self._writers.discard(writer)


class _Pair:
    """The two ends of one forwarded connection."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._armed: Cut | None = None

    async def requests(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 20):
            if self._proxy.trigger in data and self._proxy.cut is not None:
                self._armed = self._proxy.cut
                if not self._proxy.keeps:
                    self._proxy.cut = None
                self._proxy.cuts += 1
            if self._armed is Cut.REQUEST:
                break
            self._server.write(data)
            await self._server.drain()
            if self._armed is Cut.SENT:
                break
        self._client.transport.abort()
        if self._armed is not Cut.SENT:  # a dead client: the server is not told
            self._server.transport.abort()

    async def answers(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 20):
            if self._armed is Cut.ANSWER:
                break
            if self._armed is not Cut.SILENCE and not self._client.transport.is_closing():
                self._client.write(data)
        self._client.transport.abort()
        self._server.transport.abort()


@asynccontextmanager
async def proxied(socket: Path) -> AsyncIterator[Proxy]:
    """A running proxy in front of a socket."""
    proxy = Proxy(socket)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
