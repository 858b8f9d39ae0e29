"""HTTP over a plain socket: requests that no client library would send, and exactly what comes back."""

from __future__ import annotations

import socket
from typing import Any

from multidict import CIMultiDict

from tests.fixtures.server import PATIENCE, Got, Live, assert_conforms


def connect(live: Live) -> socket.socket:
    """A connection to the server."""
    return socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE)


def exchange(live: Live, sent: bytes, *, check: tuple[str, str] | None = None) -> Got:
    """Send bytes and read one response; `check` is the method and path to hold it against the contract for."""
    with connect(live) as connection:
        connection.sendall(sent)
        got = read_response(connection.makefile("rb"), head=sent.startswith(b"HEAD "))
    if check is not None:
        assert_conforms(*check, got)
    return got


def read_response(stream: Any, *, head: bool = False) -> Got:
    """The next response of a connection."""
    status_line = stream.readline()
    assert status_line.startswith(b"HTTP/1."), status_line
    headers: CIMultiDict[str] = CIMultiDict()
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers.add(name, value.strip())
    status = int(status_line.split()[1])
    body = b"" if head or status in (204, 304) else stream.read(int(headers.get("Content-Length", 0)))
    return Got(status, headers, body)


def request(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of a request, nothing of it checked."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body
