"""Pokes between processes: many become few, the last one arrives, and a listener survives losses."""

from __future__ import annotations

from typing import Any

from db import Caller, Database
from db.notify import Listener, Poker
from tests.fixtures.waiting import eventually


async def test_many_pokes_become_few_and_the_last_one_arrives(empty_dsn: str) -> None:
    heard: list[int | None] = []
    poker, listener = Poker(empty_dsn), Listener(empty_dsn, heard.append)
    await listener.start()
    await eventually(lambda: heard == [None], "listening")
    await poker.start()
    for seq in range(1, 1001):
        poker.poke(seq)
    await eventually(lambda: heard[-1] == 1000, "the last poke")
    assert len(heard) <= 3
    poker.poke(7)  # an older one changes nothing
    await eventually(lambda: len(heard) > 2 and heard[-1] == 1000, "another poke")
    await poker.stop()
    await listener.stop()


async def test_both_survive_the_loss_of_their_sessions(empty_dsn: str, sql: Any, database_dsn: str) -> None:
    heard: list[int | None] = []
    poker, listener = Poker(database_dsn), Listener(database_dsn, heard.append)
    await listener.start()
    await poker.start()
    await eventually(lambda: heard == [None], "listening")
    poker.poke(1)
    await eventually(lambda: 1 in heard, "a poke")
    with sql.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE application_name IN ('livebox poker', 'livebox listener') AND datname = current_database()"
        )
        assert cursor.fetchone() == (2,)
    await eventually(lambda: heard.count(None) == 2, "listening again, and saying so")

    def poked() -> bool:
        poker.poke(2)
        return 2 in heard

    await eventually(poked, "a poke after the loss")
    await poker.stop()
    await listener.stop()


async def test_a_listener_that_fails_goes_on_listening(empty_dsn: str) -> None:
    heard: list[int | None] = []

    def fail(seq: int | None) -> None:
        heard.append(seq)
        raise ValueError

    poker, listener = Poker(empty_dsn), Listener(empty_dsn, fail)
    await listener.start()
    await poker.start()
    await eventually(lambda: heard == [None], "listening")
    for seq in (1, 2):
        poker.poke(seq)
        await eventually(lambda seq=seq: seq in heard, "a poke")
    await poker.stop()
    await listener.stop()


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
