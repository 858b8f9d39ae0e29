"""Bare aiohttp WebSocket servers to measure against, in a process of their own: no contract, no rights, no database.

`python -m tests.bench.bare uvloop` says its port and serves until it is ended:

- `/echo`: sends each message back;
- `/plain/patch` and `/plain/watch`: parses a patch, applies it, sends it to all who watch, one `send_str` after the other;
- `/joined/patch` and `/joined/watch`: the same, but what comes within 10 ms is written to each socket at once;
- `/kept`: keeps a document per run, parsed, and answers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import uvloop
from aiohttp import web

from livebox.gateway.frames import message

JOINING: Final = 0.01  # seconds

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.decode


class Bare(NamedTuple):
    """Where it runs."""

    port: int
    pid: int


@contextmanager
def bare(loop: str = "uvloop") -> Iterator[Bare]:
    """A fresh process with these servers, on uvloop or on the event loop that comes with Python: `asyncio`."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.bare", loop], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Bare(int(process.stdout.readline()), process.pid)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Document:
    """What is patched, and its version."""

    def __init__(self) -> None:
        self.version = 0
        self.content: dict[str, Any] = {}

    def patch(self, frame: dict[str, Any]) -> tuple[bytes, bytes]:
        """Apply it: what the crowd gets, and what the sender gets."""
        for op in frame["ops"]:
            at, *path = op["path"][1:].split("/")
            place = self.content
            for token in path:
                place, at = place.setdefault(at, {}), token
            if op["op"] == "remove":
                place.pop(at, None)
            else:
                place[at] = op["value"]
        base, self.version = self.version, self.version + 1
        updated = {"type": "run.updated", "run_id": frame["run_id"], "base_version": base, "version": self.version}
        result = {"type": "result", "reply_to": frame["id"], "version": self.version}
        return _encode({**updated, "ops": frame["ops"]}), _encode(result)


async def echo(request: web.Request) -> web.WebSocketResponse:
    """Each message back."""
    socket = await _opened(request)
    async for received in socket:
        await socket.send_str(received.data)
    return socket


async def kept(request: web.Request) -> web.WebSocketResponse:
    """Each message parsed, applied and kept."""
    socket = await _opened(request)
    documents: dict[str, Document] = request.app["documents"]
    async for received in socket:
        frame = _decode(received.data)
        if "ops" in frame:
            answer = documents.setdefault(frame["run_id"], Document()).patch(frame)[1]
            await socket.send_str(answer.decode())
    return socket


class Plain:
    """Broadcasts one by one."""

    def __init__(self) -> None:
        self.document = Document()
        self.watchers: set[web.WebSocketResponse] = set()

    async def watch(self, request: web.Request) -> web.WebSocketResponse:
        """A device."""
        socket = await _opened(request)
        self.watchers.add(socket)
        try:
            async for _ in socket:
                pass
        finally:
            self.watchers.discard(socket)
        return socket

    async def patch(self, request: web.Request) -> web.WebSocketResponse:
        """Who patches."""
        socket = await _opened(request)
        async for received in socket:
            updated, result = self.document.patch(_decode(received.data))
            await self.tell(socket, updated, result)
        return socket

    async def tell(self, sender: web.WebSocketResponse, updated: bytes, result: bytes) -> None:
        """Send one to the crowd and the other to the sender."""
        text = updated.decode()
        for watcher in self.watchers:
            await watcher.send_str(text)
        await sender.send_str(result.decode())


class Joined(Plain):
    """Broadcasts what came in an interval at once."""

    def __init__(self) -> None:
        super().__init__()
        self._for_all: list[bytes] = []
        self._for_sender: list[bytes] = []
        self._writing = False

    async def tell(self, sender: web.WebSocketResponse, updated: bytes, result: bytes) -> None:
        """Have it sent when the interval is over."""
        self._for_all.append(message(updated))
        self._for_sender.append(message(result))
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_later(JOINING, self._write, sender)

    def _write(self, sender: web.WebSocketResponse) -> None:
        self._writing = False
        data = b"".join(self._for_all)
        for watcher in self.watchers:
            _transport(watcher).write(data)
        _transport(sender).write(b"".join(self._for_sender))
        self._for_all, self._for_sender = [], []


def _transport(socket: web.WebSocketResponse) -> Any:
    return socket.get_extra_info("transport") or socket._req.transport  # type: ignore[union-attr]


async def _opened(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=("livebox.v1",))
    await socket.prepare(request)
    return socket


async def _serve() -> None:
    app = web.Application()
    app["documents"] = {}
    plain, joined = Plain(), Joined()
    app.router.add_get("/echo", echo)
    app.router.add_get("/kept", kept)
    for name, way in (("plain", plain), ("joined", joined)):
        app.router.add_get(f"/{name}/watch", way.watch)
        app.router.add_get(f"/{name}/patch", way.patch)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    (asyncio if sys.argv[1] == "asyncio" else uvloop).run(_serve())
