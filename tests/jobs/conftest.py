"""The test world with a clock that is moved by hand, and what watches over its runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from db import Database
from tests.jobs.watch import Watch
from tests.runs.conftest import READERS, other, stage
from tests.runs.stage import Stage

__all__ = ["other", "stage"]


@pytest.fixture
def watch(stage: Stage) -> Watch:
    """The world, its clock stopped, its service touched just now."""
    return Watch(stage)


@pytest_asyncio.fixture
async def db_of_another(stage: Stage) -> AsyncIterator[Database]:
    """What another process holds of the same database."""
    database = Database(stage.dsn, readers=READERS)
    await database.start()
    yield database
    await database.stop()
