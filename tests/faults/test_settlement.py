"""A batch whose answer was lost is applied once, whether it had committed or not, and its callers are told which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from db import Caller, DatabaseUnavailable
from db import connection as connection_module
from db.embedded import Server
from db.lane import Lane
from tests.faults.proxy import TRIGGER, Cut, Proxy, proxied
from tests.fixtures.waiting import eventually

LOCK = 4711
READ_ONLY = """
CREATE FUNCTION livebox.t_read_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'cannot execute INSERT in a read-only transaction' USING ERRCODE = '25006';
END $$;
CREATE TRIGGER t_read_only BEFORE INSERT ON livebox.lane_batches EXECUTE FUNCTION livebox.t_read_only()
"""


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    """A proxy in front of the session's server."""
    async with proxied(server.socket_folder() / ".s.PGSQL.5432") as running:
        yield running


@pytest.fixture
async def lane(proxy: Proxy, database_dsn: str) -> AsyncIterator[Lane]:
    """A lane that reaches its database through the proxy."""
    running = Lane(proxy.dsn(database_dsn), patience=30)
    await running.start()
    yield running
    await running.stop()


def ask(sql: Any, statement: str, *values: object) -> list[Any]:
    with sql.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def applied(sql: Any) -> list[str]:
    return sorted(key for (key,) in ask(sql, "SELECT key FROM livebox.t_applied"))


@pytest.mark.parametrize("cut", [Cut.REQUEST, Cut.ANSWER], ids=lambda cut: cut.name)
@pytest.mark.parametrize("size", [1, 20])
async def test_a_cut_batch_is_applied_once(
    proxy: Proxy, lane: Lane, sql: Any, ada: Caller, cut: Cut, size: int
) -> None:
    counted: list[Any] = []
    committed: list[int | None] = []
    lane.on_effects, lane.on_commit = counted.extend, committed.append
    proxy.cut = cut
    keys = [f"k{n:02}" for n in range(size)]
    answers = await asyncio.gather(*(lane.submit("t_apply", ada, {"key": key}) for key in keys))
    assert [(answer.code, answer.resource_id) for answer in answers] == [("created", key) for key in keys]
    assert applied(sql) == keys
    assert proxy.cuts == 1
    assert len(counted) == size
    assert len(committed) == 1


async def test_a_batch_that_still_runs_is_ended_before_it_is_run_again(
    proxy: Proxy, lane: Lane, sql: Any, ada: Caller, database_dsn: str
) -> None:
    """Its connection is cut while it waits: the old backend must not come back and commit as well."""
    with closing(psycopg2.connect(database_dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        proxy.cut = Cut.SENT
        task = asyncio.create_task(lane.submit("t_apply", ada, {"key": "k", "lock": LOCK}))
        waits = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'livebox lane' AND wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
        first = await eventually(lambda: ask(sql, waits), "the first run")
        second = await eventually(lambda: [pid for pid in ask(sql, waits) if pid not in first], "the second run")
        assert ask(sql, waits) == second
    assert (await task).code == "created"
    assert applied(sql) == ["k"]


async def test_a_blind_repeat_would_apply_it_twice(
    proxy: Proxy, lane: Lane, sql: Any, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The naive twin: what the record of the batch is for."""

    async def blind(*_: object) -> list[Any]:
        ask(sql, "DELETE FROM livebox.lane_batches RETURNING 1")
        return []

    monkeypatch.setattr(lane, "_settle", blind)
    proxy.cut = Cut.ANSWER
    await lane.submit("t_apply", ada, {"key": "k"})
    assert applied(sql) == ["k", "k"]


async def test_connections_cut_again_and_again(proxy: Proxy, lane: Lane, sql: Any, ada: Caller) -> None:
    cuts = [Cut.ANSWER, Cut.REQUEST, Cut.SENT, Cut.ANSWER, Cut.ANSWER, Cut.SENT, Cut.REQUEST] * 3
    codes = []
    for number, cut in enumerate(cuts):
        proxy.cut = cut
        tasks = [lane.submit("t_apply", ada, {"key": f"k{number:02} {n}"}) for n in range(4)]
        codes += [answer.code for answer in await asyncio.gather(*tasks)]
    assert codes == ["created"] * 4 * len(cuts)
    keys = applied(sql)
    assert len(keys) == len(set(keys)) == 4 * len(cuts)
    assert proxy.cuts == len(cuts)


@pytest.mark.parametrize("trigger", [TRIGGER, b"livebox."], ids=["execute", "settle"])
async def test_nobody_waits_for_ever_for_a_session_that_lasts(
    proxy: Proxy, sql: Any, ada: Caller, database_dsn: str, trigger: bytes
) -> None:
    """The database lets everybody in, and each session is lost with its first batch, or with the question after it."""
    lane = Lane(proxy.dsn(database_dsn), patience=0.5)
    await lane.start()
    proxy.cut, proxy.keeps, proxy.trigger = Cut.REQUEST, True, trigger
    with pytest.raises(DatabaseUnavailable):
        await lane.submit("t_apply", ada, {"key": "k"})
    assert proxy.cuts > 2, "it was tried again"
    before = proxy.cuts
    with pytest.raises(DatabaseUnavailable):
        await lane.submit("t_apply", ada, {"key": "k"})
    assert proxy.cuts - before <= 2, "the next one was tried once, and asked for once"
    proxy.cut = None
    assert (await lane.submit("t_apply", ada, {"key": "later"})).code == "created"
    assert applied(sql) == ["later"]
    await lane.stop()


async def test_a_database_that_lets_nobody_write_any_more(sql: Any, ada: Caller, database_dsn: str) -> None:
    """A primary that became a standby lets everybody in and refuses each write."""
    lane = Lane(database_dsn, patience=0.5)
    await lane.start()
    with sql.cursor() as cursor:
        cursor.execute(READ_ONLY)
    with pytest.raises(DatabaseUnavailable):
        await lane.submit("t_apply", ada, {"key": "k"})
    with pytest.raises(DatabaseUnavailable):
        await lane.check()
    with sql.cursor() as cursor:
        cursor.execute("DROP TRIGGER t_read_only ON livebox.lane_batches")
    await lane.check()
    assert (await lane.submit("t_apply", ada, {"key": "later"})).code == "created"
    assert applied(sql) == ["later"]
    await lane.stop()


async def test_a_server_that_falls_silent_is_given_up(
    proxy: Proxy, lane: Lane, sql: Any, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_GRACE", -9.5)  # half a second in all
    proxy.cut = Cut.SILENCE
    assert (await lane.submit("t_apply", ada, {"key": "k"})).code == "created"
    assert applied(sql) == ["k"]


async def test_while_the_database_is_away_callers_are_told_and_later_served(
    proxy: Proxy, sql: Any, ada: Caller, database_dsn: str
) -> None:
    lane = Lane(proxy.dsn(database_dsn), patience=0.2)
    await lane.start()
    proxy.down = True
    proxy.cut = Cut.ANSWER
    with pytest.raises(DatabaseUnavailable):
        await lane.submit("t_apply", ada, {"key": "committed"})
    for key in ("never", "never either"):
        with pytest.raises(DatabaseUnavailable):
            await lane.submit("t_apply", ada, {"key": key})
    assert applied(sql) == ["committed"]
    proxy.down = False
    assert (await lane.submit("t_apply", ada, {"key": "later"})).code == "created"
    assert applied(sql) == ["committed", "later"]
    await lane.stop()


async def test_a_lane_whose_session_was_killed_idle_goes_on(lane: Lane, sql: Any, ada: Caller) -> None:
    for key in ("a", "b", "c"):
        killed = ask(
            sql,
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'livebox lane' AND datname = current_database()",
        )
        assert killed == [(True,)]
        assert (await lane.submit("t_apply", ada, {"key": key})).code == "created"
    assert applied(sql) == ["a", "b", "c"]
