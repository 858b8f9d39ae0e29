"""The database server ends in every way there is: acknowledged writes are there, the rest is an error, it heals."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest
import uvloop

from db import Caller, Database, DatabaseError, DatabaseUnavailable
from db.embedded import Server
from db.migrate import migrate
from tests.fixtures.database import connect
from tests.fixtures.operations import add_operations
from tests.fixtures.waiting import eventually

WRITERS = 8


def prepare(server: Server) -> Caller:
    migrate(server.dsn())
    with closing(connect(server.dsn())) as sql:
        return add_operations(sql)


def applied(server: Server) -> list[str]:
    with closing(connect(server.dsn())) as sql, sql.cursor() as cursor:
        cursor.execute("SELECT key FROM livebox.t_applied")
        return [key for (key,) in cursor.fetchall()]


class Load:
    """Writers and readers that never stop, and what they were told."""

    def __init__(self, database: Database, caller: Caller) -> None:
        self._database = database
        self._caller = caller
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.read = 0
        self.errors: set[type] = set()
        self._going = True

    async def write(self, number: int) -> None:
        count = 0
        while self._going:
            key, count = f"{number} {count}", count + 1
            try:
                answer = await self._database.lane.submit("t_apply", self._caller, {"key": key})
                assert answer.resource_id == key
                self.acknowledged.append(key)
            except DatabaseError as error:
                self.errors.add(type(error))
                self.failed.append(key)
                await asyncio.sleep(0.01)

    async def reads(self) -> None:
        while self._going:
            try:
                await self._database.readers.call("t_refuse", self._caller, {})
                self.read += 1
            except DatabaseError as error:
                self.errors.add(type(error))
            await asyncio.sleep(0)

    async def more(self) -> None:
        """Returns once reads and writes go through again."""
        written, read = len(self.acknowledged), self.read
        await eventually(lambda: len(self.acknowledged) > written + WRITERS and self.read > read, "progress")

    def end(self) -> None:
        self._going = False


async def under_load(server: Server, caller: Caller, mode: str) -> None:
    database = Database(server.dsn())
    await database.start()
    load = Load(database, caller)
    tasks = [asyncio.create_task(load.write(number)) for number in range(WRITERS)]
    tasks.append(asyncio.create_task(load.reads()))
    for _ in range(2):
        await load.more()
        await asyncio.to_thread(server.restart, mode)
    await load.more()
    load.end()
    await asyncio.gather(*tasks)
    await database.stop()
    keys = applied(server)
    assert len(keys) == len(set(keys)), "nothing is there twice"
    assert set(load.acknowledged) <= set(keys), "what was acknowledged is there"
    assert set(keys) <= set(load.acknowledged) | set(load.failed)
    assert load.errors <= {DatabaseUnavailable}


@pytest.mark.parametrize("mode", ["fast", "immediate", "crash"])
async def test_under_load(own_server: Server, mode: str) -> None:
    await under_load(own_server, prepare(own_server), mode)


def test_under_load_on_uvloop(own_server: Server) -> None:
    """Its own way with file descriptors that go away under it."""
    uvloop.run(under_load(own_server, prepare(own_server), "crash"))


async def test_idle(own_server: Server) -> None:
    caller = prepare(own_server)
    database = Database(own_server.dsn())
    await database.start()
    for key in ("a", "b"):
        await asyncio.to_thread(own_server.restart, "immediate")
        answers = await asyncio.gather(
            database.lane.submit("t_apply", caller, {"key": key}),
            *(database.readers.call("t_refuse", caller, {}) for _ in range(8)),
            database.writer.run("SELECT 1"),
        )
        assert answers[0].code == "created"
    await database.stop()
    assert sorted(applied(own_server)) == ["a", "b"]


async def test_away_for_long(own_server: Server) -> None:
    caller = prepare(own_server)
    database = Database(own_server.dsn(), lane_patience=0.2, read_patience=0.2)
    await database.start()
    own_server.halt()
    for _ in range(3):
        calls: list[Any] = [database.lane.submit("t_apply", caller, {"key": "x"}) for _ in range(10)]
        calls += [database.readers.call("t_refuse", caller, {}) for _ in range(10)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {DatabaseUnavailable}
        with pytest.raises(DatabaseUnavailable):
            await database.ping()
    own_server.start()
    assert (await database.lane.submit("t_apply", caller, {"key": "back"})).code == "created"
    await database.ping()
    await database.stop()
    assert applied(own_server) == ["back"]
