"""The test world, and processes that serve its live documents."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.live.process import Process
from tests.runs.conftest import other, stage
from tests.runs.stage import Stage

__all__ = ["other", "stage"]


@pytest_asyncio.fixture
async def here(stage: Stage) -> AsyncIterator[Process]:
    """A process on the world's database."""
    async with Process(stage) as process:
        yield process


@pytest_asyncio.fixture
async def there(stage: Stage, here: Process) -> AsyncIterator[Process]:
    """Another process on the same database. Pokes of the two reach each other at once."""
    async with Process(stage) as process:
        here.neighbours.append(process)
        process.neighbours.append(here)
        yield process
