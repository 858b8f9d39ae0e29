"""How a request for the gateway becomes a session: the upgrade, and from where web pages may come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from generated.gateway_messages import CLOSES
from livebox.gateway.frames import PATH

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub

__all__ = ["PATH", "Entrance"]

UPGRADE: Final = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
"""What a request that is no upgrade is told to send."""


class Entrance:
    """Takes what comes to `PATH`. `origins` are those of web pages beside the server's own, lower-case."""

    def __init__(self, hub: Hub, origins: str) -> None:
        self._hub = hub
        self._origins = frozenset(origins.lower().split())

    def opens(self, request: web.BaseRequest) -> bool:
        """Is this a handshake that can be answered?"""
        return request.method == hdrs.METH_GET and bool(self._hub.connection().can_prepare(request))

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """The whole session. A page from elsewhere is let in only to be told so: before, a browser hears nothing."""
        connection = self._hub.connection()
        await connection.prepare(request)
        connection.opened(request.transport)
        if self._is_foreign(request):
            connection.ending = CLOSES["origin"].code
            await connection.finish()
        else:
            await self._hub.serve(connection, request.remote or "")
        return connection

    def _is_foreign(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None:
            return False
        host = request.headers.get(hdrs.HOST, "").lower()
        return origin.lower() not in (f"http://{host}", f"https://{host}", *self._origins)
