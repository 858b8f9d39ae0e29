"""A fresh copy of the test world for each test of this folder."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
import pytest_asyncio
from psycopg2.extensions import make_dsn

from db import Database, instance
from db.embedded import Server
from livebox.world import OWNER, World, load
from tests.fixtures.database import connect, fresh_database
from tests.runs.stage import Stage


@pytest.fixture(scope="session")
def world_template(server: Server, template: str) -> Iterator[tuple[str, World]]:
    """A database that holds the loaded world, to copy from, and the world's ids."""
    name = f"world_{uuid.uuid4().hex}"
    dsn = make_dsn(server.dsn("postgres"), dbname=name)
    with closing(connect(server.dsn("postgres"))) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        world = asyncio.run(_loaded(dsn))
        yield name, world
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def _loaded(dsn: str) -> World:
    owner = instance.create_owner(dsn, OWNER, "Owner")
    assert owner is not None
    database = Database(dsn)
    await database.start()
    try:
        return await load(database, owner)
    finally:
        await database.stop()


@pytest_asyncio.fixture
async def stage(server: Server, world_template: tuple[str, World]) -> AsyncIterator[Stage]:
    """The world in this test's own database."""
    name, world = world_template
    with fresh_database(server, name) as dsn:
        database = Database(dsn)
        await database.start()
        yield Stage(database, dsn, world)
        await database.stop()


@pytest_asyncio.fixture
async def other(stage: Stage) -> AsyncIterator[Database]:
    """The lane of a second process on the same database."""
    database = Database(stage.dsn)
    await database.start()
    yield database
    await database.stop()
