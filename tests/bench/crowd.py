"""The load generator of live content, a process of its own: one who patches, and a crowd of devices that watch.

`python -m tests.bench.crowd` reads a pickled Task from its standard input and writes a pickled Outcome to its output.
It reads the CPU time and memory of the server itself, so that what it does before and after does not count.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import uvloop

from tests.bench.machine import process_seconds, resident
from tests.bench.samples import WARM_UP, percentile
from tests.bench.wire import Socket, framed

PATIENCE: Final = 120.0
"""Seconds after which a crowd that has not got everything is not waited for."""
AT_ONCE: Final = 40
"""Connections that are opened at the same time."""
_TICK: Final = 0.001  # seconds between two looks at whether it is done; what a timer may be late
_SAMPLING: Final = 0.1  # seconds between two looks at the server's memory
_UPDATED: Final = b'{"type":"run.updated"'
_VERSION: Final = b'"version":'
_ERROR: Final = b'{"type":"error"'
_ANSWER: Final = b'"reply_to"'
_ECHO: Final = b'{"type":"run.update"'


class Party(NamedTuple):
    """How one connects: the path, and messages each of which is answered by one that holds what stands beside it."""

    path: str
    opening: tuple[tuple[bytes, bytes], ...] = ()


class Task(NamedTuple):
    """What to do. ``first`` and ``patch`` are frames, with %(n)d and %(base)d in them; the first makes what is patched.

    Patches come ``window`` at a time, each of which waits for what the crowd has got, or at ``pace`` a second. Of the
    ``watchers`` the first ``stuck`` ones read nothing. ``pid`` is the server.
    """

    port: int
    pid: int
    sender: Party
    watcher: Party
    first: bytes
    patch: bytes
    watchers: int
    count: int
    window: int = 0
    pace: float = 0.0
    stuck: int = 0


class Outcome(NamedTuple):
    """What was counted after the warm-up: patches that were accepted, frames that devices got, and the seconds.

    ``latencies``: the median, 99th percentile and greatest time from patch to device, in seconds, of a paced task.
    ``memory``: what the server's process had before and at most, in bytes; ``version`` the last one that was given.
    """

    accepted: int
    deliveries: int
    seconds: float
    server_cpu: float
    latencies: tuple[float, float, float]
    memory: tuple[int, int]
    version: int

    @property
    def per_patch(self) -> float:
        """CPU seconds of the server for one patch."""
        return self.server_cpu / self.accepted

    @property
    def per_delivery(self) -> float:
        """CPU seconds of the server for one frame to one device."""
        return self.server_cpu / max(1, self.deliveries)


async def gather(task: Task) -> Outcome:
    """Runs a task in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.crowd", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(pickle.dumps(task))
    if process.returncode:
        raise RuntimeError("the load generator failed")
    return Outcome(*pickle.loads(output))  # noqa: S301 - from our own child


async def connect(port: int, party: Party, *, small: bool = False) -> Socket:
    """One connection, after its opening messages."""
    opened = await Socket.open(port, party.path, small=small)
    for message, answer in party.opening:
        found = await opened.ask(message, answer, _ERROR)
        if answer not in found:
            raise ConnectionError(f"refused: {found!r}")
    return opened


class _Crowd:
    """The devices and what they got."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.reading = task.watchers - task.stuck
        self.deliveries = 0
        self.base = 0
        self.sent: list[float] = []
        self.latencies = array("d")
        self.sockets: list[Socket] = []

    async def open(self) -> None:
        """Connect all of them."""
        task, room = self._task, asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> Socket:
            async with room:
                opened = await connect(task.port, task.watcher, small=number < task.stuck)
            if number < task.stuck:
                opened.stop_reading()
            else:
                opened.on_frame = self._timed if task.pace else self._counted
            return opened

        self.sockets = list(await asyncio.gather(*map(one, range(task.watchers))))

    def _counted(self, data: bytes, start: int, end: int) -> None:
        if data.startswith(_UPDATED, start):
            self.deliveries += 1

    def _timed(self, data: bytes, start: int, end: int) -> None:
        if data.startswith(_UPDATED, start):
            now = time.perf_counter()
            self.deliveries += 1
            version = _version(data, start)
            if 0 < self.base < version:
                self.latencies.append(now - self.sent[version - self.base - 1])


class _Sender:
    """Who patches."""

    def __init__(self, task: Task, crowd: _Crowd, socket: Socket) -> None:
        self._task = task
        self._crowd = crowd
        self._socket = socket
        self.acknowledged = 0
        self.refused = b""

    @classmethod
    async def open(cls, task: Task, crowd: _Crowd) -> _Sender:
        """Connect, and patch once: from then on versions follow one another."""
        opened = await connect(task.port, task.sender)

        async def patched(base: int) -> dict[str, Any]:
            answer = await opened.ask(task.first % {b"base": base, b"n": 0}, _ANSWER, _ECHO)
            told: dict[str, Any] = json.loads(answer)
            return told

        told = await patched(1)
        if "current" in told.get("problem", {}):
            told = await patched(told["problem"]["current"]["version"])
        if "problem" in told:
            raise ConnectionError(f"refused: {told}")
        crowd.base = told.get("version", 0)
        sender = cls(task, crowd, opened)
        opened.on_frame = sender._answered
        return sender

    def _answered(self, data: bytes, start: int, end: int) -> None:
        if data.startswith(_ERROR, start):
            self.refused = self.refused or data[start:end]
        else:
            self.acknowledged += data.find(_ANSWER, start, end) >= 0 or data.startswith(_ECHO, start)

    def frames(self) -> list[bytes]:
        """All patches, ready to be written."""
        base, patch = self._crowd.base, self._task.patch
        return [framed(patch % {b"n": n, b"base": base + n}) for n in range(self._task.count)]

    async def paced(self, frames: Sequence[bytes]) -> None:
        """Send so many a second, each by itself."""
        crowd, pace, begun = self._crowd, self._task.pace, time.perf_counter()
        for number, frame in enumerate(frames):
            while (early := begun + number / pace - time.perf_counter()) > 0:  # noqa: ASYNC110 - for the clock
                await asyncio.sleep(early - _TICK if early > 2 * _TICK else 0)
            crowd.sent.append(time.perf_counter())
            self._socket.write(frame)
            self.check()
            await asyncio.sleep(0)

    def check(self) -> None:
        """Raise when something was refused or lost."""
        if self.refused:
            raise RuntimeError(f"a patch was refused: {self.refused!r}")
        for one in (self._socket, *self._crowd.sockets[self._task.stuck :]):
            if one.closed:
                raise RuntimeError(one.closed)

    async def windowed(self, frames: Sequence[bytes], first: int) -> None:
        """Send, up to a window ahead of what was acknowledged and of what the crowd has got."""
        crowd, window, sent, base = self._crowd, self._task.window, first, self.mark()
        while sent < len(frames):
            done = self.done(base) + first
            room = min(len(frames), done + window)
            if room > sent:
                self._socket.write(b"".join(frames[sent:room]))
                sent = room
            self.check()
            await _soon(crowd, self)

    def mark(self) -> tuple[int, int]:
        """Where the counters stand."""
        return self.acknowledged, self._crowd.deliveries

    def done(self, since: tuple[int, int]) -> int:
        """How many patches since then are acknowledged and have reached the crowd."""
        acknowledged = self.acknowledged - since[0]
        if not self._crowd.reading:
            return acknowledged
        return min(acknowledged, (self._crowd.deliveries - since[1]) // self._crowd.reading)


async def _soon(crowd: _Crowd, sender: _Sender) -> None:
    """Wait until something came in."""
    before = (crowd.deliveries, sender.acknowledged)
    for _ in range(50):
        await asyncio.sleep(0)
        if before != (crowd.deliveries, sender.acknowledged):
            return
    await asyncio.sleep(_TICK / 4)


async def _all(sender: _Sender, since: tuple[int, int], count: int) -> None:
    """Wait until so many patches are with everybody."""
    until = time.monotonic() + PATIENCE
    while sender.done(since) < count:
        sender.check()
        if time.monotonic() > until:
            raise RuntimeError(f"after {PATIENCE:.0f} s {sender.done(since)} of {count} patches are there")
        await asyncio.sleep(_TICK)


async def _run(task: Task) -> Outcome:
    crowd = _Crowd(task)
    await crowd.open()
    sender = await _Sender.open(task, crowd)
    await asyncio.sleep(0.3)  # what belongs to the opening is over
    frames = sender.frames()
    if task.pace:
        return await _paced(task, crowd, sender, frames)
    warm = int(task.count * WARM_UP)
    since = sender.mark()
    await sender.windowed(frames[:warm], 0)
    await _all(sender, since, warm)
    since, begun, used = sender.mark(), time.perf_counter(), process_seconds(task.pid)
    await sender.windowed(frames, warm)
    await _all(sender, since, task.count - warm)
    seconds, used = time.perf_counter() - begun, process_seconds(task.pid) - used
    deliveries = crowd.deliveries - since[1]
    memory = resident(task.pid)
    return Outcome(
        task.count - warm, deliveries, seconds, used, (0.0, 0.0, 0.0), (memory, memory), crowd.base + task.count
    )


async def _paced(task: Task, crowd: _Crowd, sender: _Sender, frames: list[bytes]) -> Outcome:
    before = peak = resident(task.pid)
    since, begun, used = sender.mark(), time.perf_counter(), process_seconds(task.pid)
    sending = asyncio.ensure_future(sender.paced(frames))
    while not sending.done():
        await asyncio.wait([sending], timeout=_SAMPLING)
        peak = max(peak, resident(task.pid))
    await sending
    await _all(sender, since, task.count)
    seconds, used = time.perf_counter() - begun, process_seconds(task.pid) - used
    peak = max(peak, resident(task.pid))
    found = sorted(crowd.latencies[int(len(crowd.latencies) * WARM_UP) :]) or [0.0]  # an echo has no devices
    latencies = (percentile(found, 0.5), percentile(found, 0.99), found[-1])
    deliveries = crowd.deliveries - since[1]
    return Outcome(task.count, deliveries, seconds, used, latencies, (before, peak), crowd.base + task.count)


def _version(data: bytes, start: int) -> int:
    at = data.find(_VERSION, start) + len(_VERSION)
    # `base_version` stands before it and ends in the same letters, but not behind a quote.
    return int(data[at : data.find(b",", at)])


def main() -> None:
    """The task on standard input, its outcome to standard output."""
    task: Task = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
    sys.stdout.buffer.write(pickle.dumps(tuple(uvloop.run(_run(task)))))


if __name__ == "__main__":
    main()
