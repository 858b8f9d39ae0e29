"""pgbench, the floor: the same SQL function, one transaction each, from C, on the same server in the same run."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from psycopg2.extensions import parse_dsn

from tests.bench.machine import family_cpu
from tests.bench.samples import Rate, rate
from tests.bench.stage import Stage

_THREADS: Final = 2


def run(stage: Stage, statement: str, *, clients: int, each: int, first: int) -> Rate:
    """The rate at which ``clients`` sessions run ``statement``, ``each`` times every one of them.

    ``:n`` in it is a number from ``first`` on that no other transaction of this measurement gets.
    """
    script = f"\\set n {first} + :client_id * {each} + :done\n\\set done :done + 1\n{statement}\n"
    postmaster = stage.server.postmaster()
    assert postmaster is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.sql"
        file.write_text(script)
        before = family_cpu(postmaster)
        _pgbench(stage, file, clients=clients, each=each, log=Path(folder) / "log")
        used = family_cpu(postmaster) - before
        completions = _read(Path(folder), clients)
    return Rate(rate(completions), 0.0, used / (clients * each))


def _pgbench(stage: Stage, script: Path, *, clients: int, each: int, log: Path) -> None:
    at = parse_dsn(stage.dsn)
    command = [
        *(str(stage.server.bin_path / "pgbench"), "-n", "-h", at["host"], "-p", at["port"], "-U", at["user"]),
        *("-c", str(clients), "-j", str(min(_THREADS, clients)), "-t", str(each), "-D", "done=0"),
        *("-l", "--log-prefix", str(log), "-f", str(script), at["dbname"]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or f"actually processed: {clients * each}/" not in done.stdout:
        raise RuntimeError(f"pgbench failed: {done.stdout}{done.stderr}")


def _read(folder: Path, clients: int) -> list[list[float]]:
    """The completions of each client from pgbench's log: client, number, latency, script, seconds, microseconds."""
    completions: list[list[float]] = [[] for _ in range(clients)]
    for file in folder.glob("log.*"):
        for line in file.read_text().splitlines():
            client, _, _, _, seconds, microseconds = line.split()[:6]
            completions[int(client)].append(int(seconds) + int(microseconds) / 1e6)
    return completions
