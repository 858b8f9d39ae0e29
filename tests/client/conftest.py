"""The fake server of the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from livebox.client import gateway as gateway_module
from livebox.client import patches as patches_module
from livebox.client import working as working_module
from livebox.client.pauses import Pauses
from tests.client.fake import Fake, serving


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[Fake]:
    """A fake server that listens."""
    async with serving(Fake()) as fake:
        yield fake


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapters do not wait for long before they try again."""
    for module in (gateway_module, working_module, patches_module):
        monkeypatch.setattr(module, "Pauses", lambda **_: Pauses(0.001, 0.01))
