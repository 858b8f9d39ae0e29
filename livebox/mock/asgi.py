"""An ASGI application, asked from within an aiohttp server: one request in, one whole response out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from multidict import CIMultiDict

from livebox.edge import Incoming

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Scope]], Callable[[Scope], Awaitable[None]]], Awaitable[None]]


class Answered(NamedTuple):
    """The response of the application."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


def scope_of(request: Incoming, raw: bytes, extensions: dict[str, Any]) -> Scope:
    """The request as ASGI has it; the application and who asks it share `extensions`.

    But for one thing: a slash that was encoded stays within its part of the path, as in production.
    """
    url = request.rel_url
    headers = [(name.lower(), value) for name, value in request.raw_headers if name.lower() not in _FRAMING]
    if raw:
        headers.append((b"content-length", str(len(raw)).encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": "/".join(unquote(part, errors="replace").replace("/", "%2F") for part in url.raw_path.split("/")),
        "raw_path": url.raw_path.encode("utf-8", "surrogateescape"),
        "query_string": url.raw_query_string.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
        "extensions": extensions,
    }


_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


async def ask(app: App, scope: Scope, raw: bytes) -> Answered:
    """What the application answers; the body of the request is `raw`."""
    arriving = iter([{"type": "http.request", "body": raw, "more_body": False}])
    status, body = 0, bytearray()
    headers: CIMultiDict[str] = CIMultiDict()

    async def receive() -> Scope:
        return next(arriving, {"type": "http.disconnect"})

    async def send(message: Scope) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.extend((name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"])
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(scope, receive, send)
    return Answered(status, headers, bytes(body))
