"""The fake server of the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.client.fake import Fake, serving


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[Fake]:
    """A fake server that listens."""
    async with serving(Fake()) as fake:
        yield fake
