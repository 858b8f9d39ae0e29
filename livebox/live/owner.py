"""The name of a process that serves live documents, from which its neighbours on the machine see whether it lives."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


def new_owner() -> str:
    """A name for this process, another at each start: machine, process id, and what makes it unique."""
    return f"{_machine()}.{os.getpid()}.{secrets.token_hex(8)}"


def is_dead(owner: str) -> bool:
    """Is the process of that name known to be dead? Only one of this machine can be."""
    machine, _, rest = owner.partition(".")
    number, _, _ = rest.partition(".")
    if machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _machine() -> str:
    """This machine since it was booted, as far as its process ids mean something."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts += [_BOOT.read_text(), str(_NAMESPACE.readlink())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
