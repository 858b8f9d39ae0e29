"""What people would pick for this, in Node: ShareDB with json0, and Socket.IO. Left out where they are not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench.machine import process_seconds
from tests.bench.samples import Rate

GOALS: Final = {"ShareDB json0": 4.0, "Socket.IO": 1.5}
"""How many times as many deliveries per CPU second of the server are wanted."""
_FILES: Final = {"ShareDB json0": "sharedb.js", "Socket.IO": "socketio.js"}
_FOLDER: Final = Path(__file__).parent / "node"
_PACKAGES: Final = Path(__file__).resolve().parents[2] / "node_modules"


class Peer:
    """One such server, and clients of its own."""

    def __init__(self, script: Path, process: subprocess.Popen[str], port: int) -> None:
        self._script = script
        self._process = process
        self._port = port

    def measure(self, *, watchers: int, count: int, window: int) -> Rate:
        """Patches per second, and the CPU seconds of the server for one; each goes to all the watchers."""
        arguments = ["node", str(self._script), "load", *map(str, (self._port, watchers, count, window))]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            assert load.stdout is not None
            assert load.stdin is not None
            told(load.stdout.readline(), "warm")
            before = process_seconds(self._process.pid)
            load.stdin.write("go\n")
            load.stdin.flush()
            done = told(load.stdout.readline(), "count", "deliveries", "seconds")
            used = process_seconds(self._process.pid) - before
            load.stdin.close()
        if done["deliveries"] != done["count"] * watchers:
            raise RuntimeError(f"not every watcher got everything: {done}")
        return Rate(done["count"] / done["seconds"], used / done["count"])


def told(line: str, *members: str) -> dict[str, float]:
    """What a script says in a line. Raises RuntimeError when that is not there."""
    try:
        found: dict[str, float] = json.loads(line)
        return {member: found[member] for member in members}
    except (ValueError, KeyError):
        raise RuntimeError(f"the peer failed: {line!r}") from None


def installed() -> bool:
    """Are Node and the packages here?"""
    return shutil.which("node") is not None and all((_PACKAGES / name).is_dir() for name in ("sharedb", "socket.io"))


@contextmanager
def serving() -> Iterator[dict[str, Peer]]:
    """All of them, by name; none where they are not installed."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(_peer(_FOLDER / file)) for name, file in _FILES.items()} if installed() else {}


@contextmanager
def _peer(script: Path) -> Iterator[Peer]:
    process = subprocess.Popen(["node", str(script), "serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Peer(script, process, int(told(process.stdout.readline(), "port")["port"]))
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
