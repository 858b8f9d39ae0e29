"""The mock as a server: REST by connexion, the gateway by a script, on one port and without a database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from aiohttp import hdrs, web

from livebox import responses
from livebox.bodies import Bodies
from livebox.edge import Incoming, not_allowed, printable
from livebox.gateway.entrance import PATH, UPGRADE
from livebox.log import logger
from livebox.mock.gateway import Gateway
from livebox.mock.rest import Rest
from livebox.responses import Envelope, Reply, problem
from livebox.server import Server
from livebox.settings import Settings
from livebox.trace import Trace

_log = logger("mock")


class Mock:
    """Answers every request; `gateway` is None where only REST is played."""

    def __init__(self, rest: Rest, gateway: Gateway | None) -> None:
        self._rest = rest
        self._gateway = gateway

    async def handle(self, request: Incoming) -> web.StreamResponse:
        """The response to one request, or a whole session of the gateway."""
        path = request.rel_url.raw_path
        if path == PATH and self._gateway is not None and self._gateway.opens(request):
            return await self._gateway.serve(request)
        envelope = _envelope(path, request.headers.get(responses.TRACEPARENT))
        if path == PATH and self._gateway is not None:
            if request.method != hdrs.METH_GET:
                return not_allowed(envelope, {hdrs.METH_GET: None})
            return problem(envelope, "upgrade_required", headers=UPGRADE)
        return await self._rest.answer(request, envelope)

    def refused(self, method: str, target: str) -> Reply:
        """The response to what was no HTTP request."""
        path = target.partition("?")[0].partition("#")[0]
        envelope = _envelope(path)
        lost = self._rest.lost(method, path, envelope) if method and path.startswith("/") else None
        return lost or problem(envelope, "validation_failed", detail="The request is not HTTP that this server takes.")

    def failed(self, path: str, error: BaseException | None) -> Reply:
        """The response when the mock itself fails."""
        _log.error("request_failed", path=path, exc_info=error)
        return problem(_envelope(path), "internal_error")


def _envelope(path: str, traceparent: str | None = None) -> Envelope:
    return Envelope(responses.new_request_id(), Trace.of(traceparent), printable(path))


def server(settings: Settings, gateway: Gateway | None = None) -> Server:
    """A mock that is ready to be started."""
    bodies = Bodies(settings.integer("api.body_max_bytes"), settings.number("http.body_timeout"))
    mock = Mock(Rest(bodies), gateway)
    return Server(mock, settings.text("http.host"), settings.integer("http.port"), grace=0)


async def serve(settings: Settings, gateway: Gateway | None, started: Callable[[int], None]) -> None:
    """Run until SIGTERM or SIGINT; `started` gets the port once it is listened on. Raises OSError."""
    made = server(settings, gateway)
    await made.start()
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        started(made.port)
        await asked.wait()
    finally:
        if gateway is not None:
            await gateway.stop()
        await made.stop()
