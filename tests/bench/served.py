"""`livebox serve` as its users run it, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from livebox.app import KEYS_FOLDER
from livebox.invocations import Invocations
from livebox.keyring import Keyring
from tests.bench.load import Job, Outcome, offer
from tests.bench.machine import cpu, family_cpu
from tests.bench.samples import Rate, rate
from tests.bench.stage import Stage

# More than any measurement asks for: what is limited is not measured here.
_ROOMY: Final = {
    f"LIVEBOX_{name}_{what}": "1000000"
    for name in ("RL_READ", "RL_WRITE", "RL_PATCH", "RL_AUTH", "RUN_PATCH")
    for what in ("RATE", "BURST")
} | {"LIVEBOX_GATEWAY_SESSIONS_MAX": "100000"}


class Served:
    """A running server: its process, its port and the folder with its keys."""

    def __init__(self, process: subprocess.Popen[str], port: int, folder: Path) -> None:
        self.process = process
        self.port = port
        self.folder = folder

    def invocations(self) -> Invocations:
        """Makes invocation tokens that this server takes."""
        return Invocations(Keyring(self.folder / KEYS_FOLDER).invocation_keys())

    def measure(self, stage: Stage, requests: list[list[bytes]], status: int = 200) -> Rate:
        """The rate at which the server answers; every answer must have ``status``."""
        postmaster = stage.server.postmaster()
        assert postmaster is not None
        count = sum(len(each) for each in requests)
        before, before_database = cpu(self.process.pid), family_cpu(postmaster)
        outcome: Outcome = asyncio.run(offer(Job(self.port, requests)))
        used, used_database = cpu(self.process.pid) - before, family_cpu(postmaster) - before_database
        if outcome.statuses != {status: count}:
            raise RuntimeError(f"unexpected answers {outcome.statuses}: {outcome.sample!r}")
        return Rate(rate(outcome.completions), used / count, used_database / count)


@contextmanager
def served(folder: Path, dsn: str = "") -> Iterator[Served]:
    """A server on a data folder, with its own database unless ``dsn`` names one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LIVEBOX_")}
    environment |= {**_ROOMY, "LIVEBOX_LOG_LEVEL": "warning", "LIVEBOX_DATA": str(folder), "DATABASE_URL": dsn}
    process = subprocess.Popen(
        [sys.executable, "-m", "livebox", "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " on http://" not in line:
            raise RuntimeError(f"the server did not start: {line}")
        yield Served(process, int(line.partition(" on http://")[2].split()[0].rpartition(":")[2]), folder)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def is_ready(server: Served) -> bool:
    """Does the server say that it is ready?"""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/readiness", timeout=5) as response:
        return bool(response.status == 200)
