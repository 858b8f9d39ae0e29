"""A fresh copy of the test world for each test of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from db import Database
from tests.fixtures.world import WorldCopy
from tests.runs.stage import Stage

READERS = 1
"""Sessions that read: a test asks one thing after another, and each session takes time to open."""


@pytest_asyncio.fixture
async def stage(world_copy: WorldCopy) -> AsyncIterator[Stage]:
    """The world in this test's own database."""
    database = Database(world_copy.dsn, readers=READERS)
    await database.start()
    stage = Stage(database, *world_copy)
    yield stage
    stage.close()
    await database.stop()


@pytest_asyncio.fixture
async def other(stage: Stage) -> AsyncIterator[Database]:
    """The lane of a second process on the same database."""
    database = Database(stage.dsn, readers=READERS)
    await database.start()
    yield database
    await database.stop()
