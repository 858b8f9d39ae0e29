"""Pokes between processes: many become few, all that was said arrives, and a listener survives losses."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from db import Caller, Database
from db.notify import MAX_BYTES, MAX_IDS, UNKNOWN, Listener, Poke, Poker, read_poke
from tests.fixtures.waiting import eventually


async def test_many_pokes_become_few_and_the_last_one_arrives(empty_dsn: str) -> None:
    heard: list[Poke] = []
    poker, listener = Poker(empty_dsn), Listener(empty_dsn, heard.append)
    await listener.start()
    await eventually(lambda: heard == [UNKNOWN], "listening")
    await poker.start()
    for seq in range(1, 1001):
        poker.poke(seq)
    await eventually(lambda: heard[-1].seq == 1000, "the last poke")
    assert len(heard) <= 3
    assert {poke.sender for poke in heard} == {""}
    await poker.stop()
    await listener.stop()


async def test_both_survive_the_loss_of_their_sessions(empty_dsn: str, sql: Any, database_dsn: str) -> None:
    heard: list[Poke] = []
    poker, listener = Poker(database_dsn), Listener(database_dsn, heard.append)
    await listener.start()
    await poker.start()
    await eventually(lambda: heard == [UNKNOWN], "listening")
    poker.poke(1)
    await eventually(lambda: Poke(1) in heard, "a poke")
    with sql.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE application_name IN ('livebox poker', 'livebox listener') AND datname = current_database()"
        )
        assert cursor.fetchone() == (2,)
    await eventually(lambda: heard.count(UNKNOWN) == 2, "listening again, and saying so")

    def poked() -> bool:
        poker.poke(2)
        return Poke(2) in heard

    await eventually(poked, "a poke after the loss")
    await poker.stop()
    await listener.stop()


async def test_a_listener_that_fails_goes_on_listening(empty_dsn: str) -> None:
    heard: list[Poke] = []

    def fail(poke: Poke) -> None:
        heard.append(poke)
        raise ValueError

    poker, listener = Poker(empty_dsn), Listener(empty_dsn, fail)
    await listener.start()
    await poker.start()
    await eventually(lambda: heard == [UNKNOWN], "listening")
    for seq in (1, 2):
        poker.poke(seq)
        await eventually(lambda seq=seq: Poke(seq) in heard, "a poke")
    await poker.stop()
    await listener.stop()


async def said(dsn: str, say: Callable[[Poker], None], sender: str = "me") -> list[Poke]:
    """What a listener hears of it, up to a last poke about the log."""
    heard: list[Poke] = []
    poker, listener = Poker(dsn, sender=sender), Listener(dsn, heard.append)
    await listener.start()
    await eventually(lambda: heard == [UNKNOWN], "listening")
    say(poker)
    poker.poke(1)
    await poker.start()
    await eventually(lambda: len(heard) > 1, "a poke")
    poker.poke(2)
    await eventually(lambda: heard[-1].seq == 2, "the last poke")
    await poker.stop()
    await listener.stop()
    return heard[1:-1]


async def test_all_that_was_said_arrives_together(empty_dsn: str) -> None:
    def say(poker: Poker) -> None:
        poker.tell("runs", ["a", "b"])
        poker.tell("runs", ["b"])
        poker.tell("watching", ["c"])
        poker.ask("d", "another")

    assert await said(empty_dsn, say) == [Poke(1, ("a", "b"), ("c",), (("d", "another"),), False, "me")]


@pytest.mark.parametrize("kind", ["runs", "watching", "handover"])
async def test_much_is_said_in_parts_that_fit(empty_dsn: str, kind: str) -> None:
    runs = [str(uuid.uuid4()) for _ in range(1000)]
    owner = "o" * 200

    def say(poker: Poker) -> None:
        if kind == "handover":
            for run_id in runs:
                poker.ask(run_id, owner)
        else:
            poker.tell(kind, runs)

    heard = await said(empty_dsn, say, sender="s" * 200)
    assert [name for poke in heard for name in getattr(poke, kind)] == (
        [(run_id, owner) for run_id in runs] if kind == "handover" else runs
    )
    assert len(heard) > 1000 * 36 / MAX_BYTES
    assert not any(poke.everything for poke in heard)
    assert {poke.sender for poke in heard} == {"s" * 200}


async def test_too_much_is_everything(empty_dsn: str) -> None:
    def say(poker: Poker) -> None:
        poker.tell("runs", map(str, range(MAX_IDS + 1)))

    assert await said(empty_dsn, say) == [Poke(1, everything=True, sender="me")]


def test_what_makes_no_sense_may_mean_anything() -> None:
    for payload in ("", "7", "x", '{"seq": "x"}', '{"runs": 1}', '{"handover": [{}]}', '{"from": 1}'):
        assert read_poke(payload) == UNKNOWN


async def test_no_write_of_the_lane_notifies(db: Database, sql: Any, ada: Caller) -> None:
    """A NOTIFY in a transaction would make all commits wait for one another."""
    with sql.cursor() as cursor:
        cursor.execute("LISTEN livebox_log")
        await db.lane.submit("t_append", ada, {})
        cursor.execute(
            "SELECT count(*) FROM pg_proc WHERE prosrc ~* 'notify' AND pronamespace = 'livebox'::regnamespace"
        )
        assert cursor.fetchone() == (0,)
    sql.poll()
    assert sql.notifies == []
