"""The machine a measurement was made on, and the CPU time of processes. Says what matters, names nothing."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("aiohttp", "uvloop", "aiopg", "msgspec", "jsonschema-rs")
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


def description(postgres: str) -> list[tuple[str, str]]:
    """Name and value of what a number depends on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return [
        ("cores", f"{len(os.sched_getaffinity(0))} ({platform.machine()}{_clock()})"),
        ("memory", f"{memory:.0f} GiB"),
        ("system", f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"),
        ("Python", f"{platform.python_version()} ({packages})"),
        ("PostgreSQL", postgres),
    ]


def _clock() -> str:
    try:
        found = re.search(r"cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        return ""
    return f", {float(found[1]) / 1000:.1f} GHz" if found else ""


def load() -> str:
    """What else the machine is doing: runnable processes, mean of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    return sum(_times(pid)[:2])


def family_cpu(pid: int) -> float:
    """CPU seconds of a process and its children, those that ended included."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_times(pid)) + sum(cpu(int(child)) for child in children if Path(f"/proc/{child}").exists())


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def process_seconds(pid: int) -> float:
    """CPU seconds of all threads of a process to the nanosecond; in ticks where that is not known."""
    try:
        return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except OSError:
        return cpu(pid)


def session_seconds(pid: int) -> float:
    """CPU seconds of a process to the nanosecond, so that what else runs does not count; the clock where unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return time.perf_counter()


def _times(pid: int) -> Sequence[float]:
    """User and system time of the process, then of its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return (0.0,)
    return [int(field) * _TICK for field in fields[11:15]]
