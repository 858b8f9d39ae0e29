"""Processes of this machine: which still live, what they are, waiting for their end."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_WAIT: Final = 120  # seconds
_PAUSE: Final = 0.005


def handle(pid: int) -> str:
    """A name of a process that no later one with the same pid has."""
    return f"{pid}:{started(pid)}"


def started(pid: int) -> str:
    """When a process started, in ticks since boot; ``alive`` where that cannot be known, ``gone`` without one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "gone"
        except PermissionError:
            pass
        return "alive"


def alive(pid: int) -> bool:
    """Does the process still run? A zombie, whose parent has not looked yet, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return started(pid) == "alive"


def folder_of(pid: int) -> str | None:
    """The working folder of a process: a server's is its data folder. None where it cannot be known."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def running_in(folder: Path) -> list[int]:
    """The processes, this one left out, that work in a folder; none where the system does not tell."""
    try:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != os.getpid() and folder_of(pid) == str(folder)]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def await_gone(pid: int) -> None:
    """Returns when the process has ended. Raises ``TimeoutError`` after two minutes."""
    deadline = time.monotonic() + _WAIT
    while alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} does not end")
        time.sleep(_PAUSE)
