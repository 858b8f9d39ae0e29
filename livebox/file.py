"""A file that is served as it is, with the headers of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from aiohttp import hdrs, web

from livebox.responses import ETAG, Envelope, Reply, is_current

MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def policy(*directives: str) -> str:
    """A content security policy: what may be loaded, and never a base, a form, a frame around it or a plug-in."""
    never = ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "object-src 'none'")
    return "; ".join((*directives, *never))


# Everything comes from this server; what is written in the page itself neither runs nor styles.
_POLICY: Final = policy("default-src 'self'")


class File:
    """One file, ready to be sent. `body` is its content, or what gives it when it is first asked for."""

    __slots__ = ("_body", "_headers", "_load", "_media", "_tag")

    def __init__(self, media: str, body: bytes | Callable[[], bytes], allowed: str = _POLICY) -> None:
        self._media = media
        self._headers = {**_HEADERS, "Content-Security-Policy": allowed}
        self._load: Callable[[], bytes] | None = None
        if callable(body):
            self._load = body
        else:
            self._keep(body)

    def _keep(self, body: bytes) -> None:
        self._body = body
        self._tag = hashlib.sha256(body).hexdigest()[:32]
        self._headers[ETAG] = f'"{self._tag}"'

    def ready(self) -> None:
        """Have its content: what is made is made once."""
        if self._load is not None:
            self._keep(self._load())
            self._load = None

    def answer(self, request: web.BaseRequest, envelope: Envelope) -> Reply:
        """The file, or 304 where the client has it already. A browser asks each time: it never runs old code."""
        self.ready()
        known = request.headers.get(hdrs.IF_NONE_MATCH)
        if known is not None and is_current(known, self._tag):
            return Reply(envelope, 304, more=self._headers)
        return Reply(envelope, 200, self._media, self._body, self._headers)


class Moved(File):
    """A path that leads to another one; `target` may be relative, so that it holds below a prefix too."""

    __slots__ = ()

    def __init__(self, target: str) -> None:
        super().__init__("", b"")
        self._headers = {**_HEADERS, "Content-Security-Policy": _POLICY, "Location": target}

    def answer(self, request: web.BaseRequest, envelope: Envelope) -> Reply:
        """308, whatever the client has already."""
        return Reply(envelope, 308, more=self._headers)
