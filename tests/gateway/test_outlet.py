"""The frames of one run on their way to those who look at it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from livebox.gateway.connection import Gathering
from livebox.gateway.frames import message
from livebox.gateway.outlet import Outlet
from tests.fixtures.waiting import eventually

SOFT = 1000


class Receiver:
    """A session that takes what it is given, as long as it is not behind."""

    def __init__(self) -> None:
        self.stale: set[str] = set()
        self.behind = 0
        self.written: list[bytes] = []
        self.left_out = 0
        self.connection = SimpleNamespace(unsent=lambda: self.behind, pass_on=self.written.append)

    def leave_out(self, run_id: str, count: int) -> None:
        self.stale.add(run_id)
        self.left_out += count


def outlet(count: int, interval: float = 0.02) -> tuple[Outlet, Any, list[Receiver], Gathering]:
    hub: Any = SimpleNamespace(soft=SOFT, tail=SimpleNamespace(silent=False))
    gathering = Gathering(interval)
    made, receivers = Outlet(hub, gathering, "run"), [Receiver() for _ in range(count)]
    sessions: Any = receivers
    made.sessions.update(sessions)
    return made, hub, receivers, gathering


async def test_the_first_leaves_at_once_and_the_rest_together_in_order() -> None:
    out, _, receivers, gathering = outlet(3)
    for payload in (b"one", b"two", b"three"):
        out.put(payload)
    assert all(receiver.written == [message(b"one")] for receiver in receivers)
    await eventually(lambda: len(receivers[0].written) == 2)
    assert all(receiver.written[1] == message(b"two") + message(b"three") for receiver in receivers)
    await eventually(lambda: not gathering._hot)
    out.put(b"four")
    assert receivers[0].written[-1] == message(b"four"), "quiet again: at once"


async def test_what_gathered_alone_makes_the_next_one_leave_at_once() -> None:
    out, _, (receiver,), _ = outlet(1, interval=60)
    out.put(b"one")
    out.put(b"two")
    assert not out.flush()
    out.put(b"three")
    assert receiver.written == [message(b"one"), message(b"two"), message(b"three")]


async def test_what_has_gathered_can_be_sent_before_something_else() -> None:
    out, _, (receiver,), _ = outlet(1, interval=60)
    out.put(b"one")
    out.put(b"two")
    out.settle()
    assert receiver.written == [message(b"one"), message(b"two")]


async def test_what_gathers_is_bounded() -> None:
    out, _, (receiver,), _ = outlet(1, interval=60)
    for _ in range(100):
        out.put(b"x" * 100)
    assert len(receiver.written) > 5
    assert max(map(len, receiver.written)) <= SOFT + 200


async def test_who_is_behind_is_left_out_until_it_has_a_document() -> None:
    out, _, (slow, quick), _ = outlet(2, interval=0)
    slow.behind = SOFT + 1
    out.put(b"one")
    slow.behind = 0
    out.put(b"two")
    assert (slow.written, slow.left_out) == ([], 2)
    slow.stale.clear()
    out.put(b"three")
    assert slow.written == [message(b"three")]
    assert len(quick.written) == 3


async def test_nothing_leaves_while_a_lost_right_is_not_applied() -> None:
    out, hub, receivers, _ = outlet(2, interval=60)
    out.put(b"one")
    out.put(b"two")
    hub.tail.silent = True
    out.settle()
    assert all(receiver.written == [message(b"one")] and receiver.left_out == 1 for receiver in receivers)


async def test_who_left_gets_nothing_of_what_has_gathered() -> None:
    out, _, (left, stayed), _ = outlet(2, interval=60)
    out.put(b"one")
    out.put(b"two")
    out.sessions.discard(left)  # type: ignore[arg-type]
    out.settle()
    assert left.written == [message(b"one")]
    assert len(stayed.written) == 2
