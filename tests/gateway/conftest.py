"""Fixtures of the gateway's tests: devices on a live server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio

from tests.fixtures.server import Live
from tests.gateway.device import Devices


@pytest_asyncio.fixture
async def devices(live: Live) -> AsyncIterator[Devices]:
    """Devices of the module's server; all of them are closed at the end."""
    async with aiohttp.ClientSession() as session:
        found = Devices(session, live)
        yield found
        await found.close()
