"""How frames leave: at once after quiet, together under load, and never again once they were taken back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.gateway.connection import GATHER_MAX, Connection, Gathering
from livebox.gateway.frames import Frame, message
from tests.fixtures.waiting import eventually


class Transport:
    """What is written, and how much of it the network has not taken."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.stuck = False
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written)) if self.stuck else 0

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


def connected(interval: float = 0.01, hard: int = 10_000) -> tuple[Connection, Transport, Gathering]:
    """A connection on a transport that only remembers."""
    gathering = Gathering(interval)
    connection = Connection(gathering, max_frame_bytes=1000, hard=hard)
    transport: Any = Transport()
    connection._transport = transport
    return connection, transport, gathering


def frames(count: int, run_id: str = "") -> list[Frame]:
    """So many small frames."""
    return [Frame(b'{"n":%d}' % number, run_id) for number in range(count)]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
def test_a_message_says_its_length_in_the_shortest_way(length: int) -> None:
    data = message(b"x" * length)
    head = 2 if length < 126 else 4 if length < 65536 else 10
    assert len(data) == head + length
    assert data[0] == 0x81
    said = data[1] if head == 2 else int.from_bytes(data[2:head], "big")
    assert said == length


async def test_the_first_leaves_at_once_and_the_rest_together() -> None:
    connection, transport, gathering = connected(interval=0.05)
    sent = frames(5)
    connection.post(sent[0])
    assert transport.written == [sent[0].data]
    for frame in sent[1:]:
        connection.post(frame)
    assert len(transport.written) == 1
    assert connection.unsent() == sum(len(frame.data) for frame in sent[1:])
    await eventually(lambda: len(transport.written) == 2)
    assert transport.written[1] == b"".join(frame.data for frame in sent[1:])
    await eventually(lambda: not gathering._hot)
    connection.post(sent[0])
    assert len(transport.written) == 3, "quiet again: at once"


async def test_without_an_interval_nothing_gathers() -> None:
    connection, transport, _ = connected(interval=0)
    for frame in frames(3):
        connection.post(frame)
    assert len(transport.written) == 3


async def test_what_gathers_is_bounded() -> None:
    connection, transport, _ = connected(interval=60, hard=10 * GATHER_MAX)
    big = Frame(b"x" * (GATHER_MAX // 4))
    for _ in range(20):
        connection.post(big)
        assert connection.unsent() <= GATHER_MAX + len(big.data)
    assert len(transport.written) > 3


async def test_what_has_gathered_of_a_run_can_be_taken_back() -> None:
    connection, transport, _ = connected(interval=60)
    connection.post(Frame(b"first"))
    for frame in (*frames(2, "one"), *frames(2, "two"), *frames(1)):
        connection.post(frame)
    connection.withdraw("one")
    connection.flush()
    assert transport.written[1] == b"".join(frame.data for frame in (*frames(2), *frames(1)))


async def test_only_what_may_be_missed_is_dropped() -> None:
    connection, transport, _ = connected(interval=60)
    connection.post(Frame(b"first"))
    for frame in (*frames(3, "one"), Frame(b"durable"), *frames(2, "two")):
        connection.post(frame)
    assert {frame.run_id for frame in connection.drop_documents()} == {"one", "two"}
    connection.flush()
    assert transport.written[1] == Frame(b"durable").data


async def test_beyond_the_hard_cap_it_is_cut() -> None:
    connection, transport, _ = connected(interval=0, hard=1000)
    over: list[bool] = []
    connection.on_overflow = lambda: over.append(True)
    transport.stuck = True
    for frame in frames(1000):
        connection.post(frame)
    assert transport.closing
    assert over == [True]
    assert sum(map(len, transport.written)) < 1100


async def test_the_first_code_counts() -> None:
    connection, _, _ = connected()
    connection.end(4001)
    connection.end(4008)
    assert connection.ending == 4001


async def test_who_waits_for_a_frame_is_woken_by_the_end() -> None:
    connection, _, _ = connected()
    waiting = asyncio.Event()

    async def receive() -> Any:
        waiting.set()
        await asyncio.Event().wait()

    connection.receive = receive  # type: ignore[method-assign, assignment]
    task = asyncio.ensure_future(connection.next())
    connection._reading = task  # type: ignore[assignment]
    await waiting.wait()
    connection.end(4001)
    assert await task is None
