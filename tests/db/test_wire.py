"""A session that ends under a statement ends the statement, on every event loop."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import uvloop

from db.wire import Wire

LIMIT = 30
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def packet(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


IDLE = packet(b"Z", b"I")
WELCOME = (
    packet(b"R", struct.pack("!i", 0))
    + b"".join(
        packet(b"S", f"{name}\0{value}\0".encode())
        for name, value in (
            ("server_version", "18.0"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("standard_conforming_strings", "on"),
        )
    )
    + IDLE
)
LAST_WORDS = packet(b"E", b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0")


class Backend(threading.Thread):
    """Lets one client in and ends with its first statement unread, which the client's socket tells as a failure."""

    def __init__(self, folder: Path, last_words: bytes) -> None:
        super().__init__(daemon=True)
        self._last_words = last_words
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        self.go = threading.Event()
        self.dsn = f"host={folder} port=5432 user=x dbname=x"

    def run(self) -> None:
        with self._listening, self._listening.accept()[0] as client:
            client.recv(8192)
            client.sendall(WELCOME)
            client.recv(1, socket.MSG_PEEK)  # it is there, and stays unread
            self.go.wait(LIMIT)
            client.sendall(self._last_words)


async def end_under_a_statement(backend: Backend) -> None:
    wire = await Wire(backend.dsn)
    cursor = await wire.cursor()
    asyncio.get_running_loop().call_later(0, backend.go.set)  # once the statement is waited for
    try:
        with pytest.raises(psycopg2.DatabaseError):
            async with asyncio.timeout(LIMIT):
                await cursor.execute("SELECT 1")
    finally:
        wire.close()


@pytest.fixture
def folder(session_folder: Path) -> Path:
    """A folder with a short path."""
    folder = session_folder / f"wire{threading.get_ident():x}"
    folder.mkdir(exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    return folder


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("last_words", [LAST_WORDS, b""], ids=["said", "unsaid"])
def test_a_backend_that_ends_with_the_statement_unread(
    folder: Path, new_loop: Callable[[], Any], last_words: bytes
) -> None:
    backend = Backend(folder, last_words)
    backend.start()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(end_under_a_statement(backend))
    backend.join(LIMIT)
