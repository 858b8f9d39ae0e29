"""The listening side: aiohttp's HTTP protocol with our answers also to what is no HTTP, and an orderly end."""

from __future__ import annotations

import asyncio
import re
from typing import Final, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from livebox.edge import Incoming
from livebox.responses import Reply

MAX_LINE: Final = 8190
"""Bytes of the longest request line and of the longest header."""
MAX_HEADERS: Final = 100
KEEPALIVE: Final = 75.0
"""Seconds an idle connection stays open."""
LINGER: Final = 2.0
"""Seconds in which the rest of a refused body is read, so that the client sees the refusal before a reset."""
SOON: Final = 0.001
"""Seconds that a server without grace waits: aiohttp takes 0 for no limit."""

# The parser's message about a method it does not know quotes the request line.
_QUOTED_LINE: Final = re.compile(r"b['\"]([!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}) (\S{1,2000}) HTTP/1\.[01]")


class Answering(Protocol):
    """What answers the requests: the edge, or what stands in for it."""

    async def handle(self, request: Incoming) -> web.StreamResponse:
        """The response to one request, whatever becomes of it."""
        ...

    def refused(self, method: str, target: str) -> Reply:
        """The response to what was no HTTP request."""
        ...

    def failed(self, path: str, error: BaseException | None) -> Reply:
        """The response when the server fails where no request of an operation is."""
        ...


class Connection(RequestHandler):
    """One connection. What aiohttp would answer in words of its own gets a problem document too."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to what could not be read as a request, after which the connection is closed."""
        if request.writer.output_size > 0:
            raise ConnectionError("a response was already begun")
        manager = self._manager
        if not isinstance(manager, Listener) or isinstance(exc, ConnectionError):
            raise ConnectionError("the client went away")
        if isinstance(exc, HttpProcessingError):
            quoted = _QUOTED_LINE.search(message or "") if isinstance(exc, BadHttpMethod) else None
            response = manager.edge.refused(quoted[1], quoted[2]) if quoted else manager.edge.refused("", "")
        else:
            response = manager.edge.failed(request.rel_url.raw_path, exc)
        response.force_close()
        return response


class Listener(web.Server):
    """Makes the connections, and the requests that `edge` answers."""

    def __init__(self, edge: Answering) -> None:
        super().__init__(
            edge.handle,  # type: ignore[arg-type]  # the request is of our own factory
            request_factory=self._incoming,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE,
            lingering_time=LINGER,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )
        self.edge = edge

    def __call__(self) -> RequestHandler:
        """A connection, for the event loop."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def _incoming(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> Incoming:
        return Incoming(message, payload, protocol, writer, task, self._loop)


class Server:
    """Listens while it is started. `grace` is how many seconds the end waits for requests that were accepted."""

    def __init__(self, edge: Answering, host: str, port: int, grace: float) -> None:
        self._edge = edge
        self._host = host
        self._port = port
        self._grace = grace
        self._listener: Listener | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._listener = Listener(self._edge)
        self._server = await loop.create_server(
            self._listener, self._host, self._port, backlog=1024, reuse_address=True
        )

    @property
    def port(self) -> int:
        """The port that is listened on; the one that the system chose when 0 was asked for."""
        assert self._server is not None  # noqa: S101  # only asked for after start
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Accept no more, finish what was accepted, then close every connection."""
        server, listener = self._server, self._listener
        self._server = self._listener = None
        if server is None or listener is None:
            return
        server.close()
        await asyncio.sleep(0)  # requests that have arrived begin before idle connections are closed
        listener.pre_shutdown()
        await listener.shutdown(max(self._grace, SOON))
