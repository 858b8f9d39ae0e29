"""The test world, loaded once for a module of tests; what a test changes is undone after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from db import Database, instance
from livebox.world import OWNER, World, load
from tests.access.random_world import Shown
from tests.fixtures.database import connect


class Stand:
    """The world and a transaction of this test's own in which its people act."""

    def __init__(self, world: World, cursor: Any) -> None:
        self.world = world
        self._cursor = cursor

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Rows of a plain statement."""
        self._cursor.execute(statement, values or None)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def id(self, handle: str) -> str:
        """The id of a principal."""
        return self.world.principals[handle]

    def authorize(self, who: str, action: str, **resource: Any) -> str | None:
        """Why not; None when allowed."""
        found = self.sql("SELECT livebox.authorize(%s, %s, %s)", self.id(who), action, json.dumps(resource))
        return found[0][0] if found else None

    def do(self, operation: str, who: str, body: Any = None, **args: Any) -> Shown:
        """A writing operation as the lane runs it."""
        return self._call("perform(%s, %s, %s)", operation, who, args if body is None else args | {"body": body})

    def ask(self, function: str, who: str, **args: Any) -> Shown:
        """A reading operation."""
        return self._call(f"{function}(%s, %s)", None, who, args)

    def _call(self, call: str, operation: str | None, who: str, args: dict[str, Any]) -> Shown:
        caller = json.dumps({"principal": self.world.principals.get(who, who)})
        given = [operation, caller, json.dumps(args)][operation is None :]
        ((code, body, cursor),) = self.sql(f"SELECT code, body, cursor FROM livebox.{call}", *given)
        return Shown(code, json.loads(body) if body else None, cursor, body or "")


@pytest.fixture(scope="module")
def loaded(module_dsn: str) -> World:
    """The world in the module's database."""
    owner = instance.create_owner(module_dsn, OWNER, OWNER.capitalize())
    assert owner is not None

    async def loading() -> World:
        database = Database(module_dsn)
        await database.start()
        try:
            return await load(database, owner)
        finally:
            await database.stop()

    return asyncio.run(loading())


@pytest.fixture
def stand(loaded: World, module_dsn: str) -> Iterator[Stand]:
    """The world, in a transaction that is rolled back."""
    with closing(connect(module_dsn)) as connection:
        connection.autocommit = False
        with connection.cursor() as cursor:
            yield Stand(loaded, cursor)
        connection.rollback()
