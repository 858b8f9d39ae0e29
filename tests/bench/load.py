"""The load generator, a process of its own: callers that send a request as soon as the last one is answered.

`python -m tests.bench.load` reads a pickled Job from its standard input and writes a pickled Outcome to its output.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections import Counter
from functools import partial
from typing import Any, Final, NamedTuple

import uvloop

_LENGTH: Final = b"Content-Length: "


class Job(NamedTuple):
    """Whole requests (head and body) of each caller, sent one after the other on one connection per caller."""

    port: int
    requests: list[list[bytes]]


class Outcome(NamedTuple):
    """When each caller's answers were there (seconds of the epoch), their statuses, and one answer to look at."""

    completions: list[list[float]]
    statuses: dict[int, int]
    sample: bytes


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """One request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def offer(job: Job) -> Outcome:
    """Runs a job in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.load", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(pickle.dumps(tuple(job)))
    if process.returncode:
        raise RuntimeError("the load generator failed")
    return Outcome(*pickle.loads(output))  # noqa: S301 - from our own child


class _Caller(asyncio.Protocol):
    def __init__(self, requests: list[bytes], statuses: Counter[int]) -> None:
        self.completions: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self.sample = b""
        self._requests = iter(requests)
        self._statuses = statuses
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self) -> None:
        following = next(self._requests, None)
        if following is not None:
            self._transport.write(following)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return
        at = received.find(_LENGTH, 0, head)
        length = int(received[at + len(_LENGTH) : received.find(b"\r", at)]) if at >= 0 else 0
        if len(received) < head + 4 + length:
            return
        self.completions.append(time.time())
        self._statuses[int(received[9:12])] += 1
        self.sample, self._received = received, b""
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the server closed a connection"))


async def _run(job: Job) -> Outcome:
    loop = asyncio.get_running_loop()
    statuses: Counter[int] = Counter()
    callers = []
    for requests in job.requests:
        _, caller = await loop.create_connection(partial(_Caller, requests, statuses), "127.0.0.1", job.port)
        callers.append(caller)
    for caller in callers:
        caller.send()
    await asyncio.gather(*(caller.done for caller in callers))
    return Outcome([caller.completions for caller in callers], dict(statuses), callers[0].sample)


def main() -> None:
    """The job on standard input, its outcome to standard output."""
    job = Job(*pickle.load(sys.stdin.buffer))  # noqa: S301 - from our own parent
    sys.stdout.buffer.write(pickle.dumps(tuple(uvloop.run(_run(job)))))


if __name__ == "__main__":
    main()
