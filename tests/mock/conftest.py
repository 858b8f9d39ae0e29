"""A mock that listens on a port of its own, in this process and with every script.

Whatever a test here receives keeps the contract, but counts for nothing in the coverage of the contract.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from generated.validators import frame_errors
from livebox.mock.gateway import Gateway
from livebox.mock.server import server
from livebox.settings import Settings
from tests.fixtures.received import texts
from tests.fixtures.wire import findings
from tests.mock.unseen import unseen


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Holds what was received against the contract before others count it."""
    with unseen() as (responses, frames):
        result = yield
    for response in responses:
        found = findings(response.method, response.target, response.status, response.headers, response.body)
        assert found == [], f"{response.method} {response.target}: {response.status} {response.body!r}"
    for frame in frames:
        for text in [frame.text] if frame.at_client else texts(frame.text):
            if frame.sender == "server":
                value = json.loads(text)
                assert frame_errors(value["type"], value) == [], text
    return result


class Playing:
    """A mock in a thread. `url` is where it listens."""

    def __init__(self, *, gateway: bool = True, script: str = "run", **settings: Any) -> None:
        overrides: dict[str, Any] = {"http.host": "127.0.0.1", "http.port": 0}
        overrides |= {name.replace("__", "."): value for name, value in settings.items()}
        self._script = script
        self._settings = Settings.load({}, overrides=overrides)
        self._gateway = gateway
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self.url = ""

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        gateway = Gateway(self._settings, self._script, pace=0.0) if self._gateway else None
        made = server(self._settings, gateway)
        await made.start()
        self.url = f"http://127.0.0.1:{made.port}"
        self._ready.set()
        await self._over.wait()
        if gateway is not None:
            await gateway.stop()
        await made.stop()

    def __enter__(self) -> Playing:
        self._thread.start()
        assert self._ready.wait(30), "the mock did not start"
        return self

    def stop(self) -> None:
        """Have it stop; it may have by now."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._over.set)

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture(scope="session")
def mock() -> Iterator[str]:
    """The URL of a mock with a gateway."""
    with Playing() as playing:
        yield playing.url
