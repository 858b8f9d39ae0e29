"""The page: its files, read once when the server starts. What was not there then is not found.

`/` is index.html, `/web/<name>` the modules, the style sheet and the icon beside it. Nothing of a request ever becomes
a path of the file system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from typing import Final

from aiohttp import hdrs, web

from livebox.responses import ETAG, Envelope, Reply, is_current

INDEX: Final = "index.html"
FOLDER: Final = "/web/"
METHODS: Final = (hdrs.METH_GET, hdrs.METH_HEAD)
MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Everything comes from this server; what is written in the page itself neither runs nor styles.
_POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class File:
    """One file, ready to be sent."""

    __slots__ = ("_body", "_headers", "_media", "_tag")

    def __init__(self, media: str, body: bytes) -> None:
        self._media = media
        self._body = body
        self._tag = hashlib.sha256(body).hexdigest()[:32]
        self._headers = {**_HEADERS, ETAG: f'"{self._tag}"'}

    def answer(self, request: web.BaseRequest, envelope: Envelope) -> Reply:
        """The file, or 304 where the client has it already. A browser asks each time: it never runs old code."""
        known = request.headers.get(hdrs.IF_NONE_MATCH)
        if known is not None and is_current(known, self._tag):
            return Reply(envelope, 304, more=self._headers)
        return Reply(envelope, 200, self._media, self._body, self._headers)


def files() -> Iterator[tuple[str, File]]:
    """The path and the file of everything that the page consists of."""
    for entry in (resources.files("livebox") / "web").iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and suffix in MEDIA:
            path = "/" if entry.name == INDEX else FOLDER + entry.name
            yield path, File(MEDIA[suffix], entry.read_bytes())
