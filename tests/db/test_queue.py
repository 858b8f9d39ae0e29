"""The line in front of the lane and the readers: bounded, fair, and it wakes who waits."""

from __future__ import annotations

import asyncio

import pytest

from db.errors import Overloaded
from db.queue import FairQueue
from tests.fixtures.waiting import eventually


def test_who_has_little_is_not_behind_who_has_much() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(5):
        queue.put("greedy", f"g{number}")
    queue.put("modest", "m0")
    queue.put("other", "o0")
    assert [queue.take() for _ in range(len(queue))] == ["g0", "m0", "o0", "g1", "g2", "g3", "g4"]
    assert not queue


def test_it_is_bounded_over_all_lines() -> None:
    queue: FairQueue[int] = FairQueue(2)
    queue.put("a", 1)
    queue.put("b", 2)
    with pytest.raises(Overloaded):
        queue.put("c", 3)
    queue.take()
    queue.put("c", 3)


async def test_each_item_wakes_one_and_none_is_left_behind() -> None:
    queue: FairQueue[int] = FairQueue(100)
    taken: list[int] = []

    async def consume() -> None:
        while True:
            await queue.wait()
            taken.append(queue.take())

    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    await asyncio.sleep(0)
    for number in range(10):
        queue.put("a", number)
    await eventually(lambda: len(taken) == 10, "the last item")
    assert taken == list(range(10))
    for consumer in consumers:
        consumer.cancel()


async def test_a_waiter_that_is_cancelled_passes_its_call_on() -> None:
    queue: FairQueue[int] = FairQueue(100)
    first, second = asyncio.create_task(queue.wait()), asyncio.create_task(queue.wait())
    await asyncio.sleep(0)
    queue.put("a", 1)
    first.cancel()
    async with asyncio.timeout(10):
        await second


async def test_at_the_end_nobody_waits() -> None:
    queue: FairQueue[int] = FairQueue(100)
    waiters = [asyncio.create_task(queue.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiters, queue.wait())


def test_a_full_queue_takes_from_who_has_most() -> None:
    queue: FairQueue[str] = FairQueue(4)
    assert [queue.put("greedy", f"g{number}") for number in range(4)] == [None] * 4
    assert queue.put("modest", "m0") == "g3"
    assert queue.put("modest", "m1") == "g2"
    with pytest.raises(Overloaded):
        queue.put("greedy", "g4")
    assert len(queue) == 4
    assert [queue.take() for _ in range(4)] == ["g0", "m0", "g1", "m1"]


def test_who_has_as_much_as_anybody_takes_nobodys_place() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for key in ("a", "b", "b"):
        queue.put(key, key)
    for key in ("a", "b"):
        with pytest.raises(Overloaded):
            queue.put(key, "x")
    assert queue.put("c", "c") == "b"
