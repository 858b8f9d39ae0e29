"""What the tests of the agent share: a folder to read, the agent in this process, and its questions."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from livebox.client import ENDED, Pace, Rest
from livebox.demo.agent import Lotse
from tests.demo.played import PATIENCE, Demo
from tests.fixtures.server import Live

GENERAL = "Support/General"
QUICK = Pace(heartbeat=0.1, patch=0.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that the agent may read, with a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret\n")
    root = tmp_path / "root"
    (root / "code").mkdir(parents=True)
    (root / "code" / "a.py").write_text("x = 1\n# TODO more\n")
    (root / "README.md").write_text("# Read me\n")
    (root / "out").symlink_to("../secret")
    return root


@asynccontextmanager
async def working(lotse: Lotse) -> AsyncIterator[None]:
    """The agent, serving while the block runs."""
    serving = asyncio.create_task(lotse.serve())
    try:
        yield
        assert not serving.done(), serving
    finally:
        lotse.leave()
        await asyncio.wait_for(serving, 30)


class Asking:
    """Alex, who asks Lotse in a fresh thread and waits for what comes of it."""

    def __init__(self, live: Live, alex: Rest) -> None:
        self.live = live
        self.alex = alex

    async def run(self, text: str) -> dict[str, Any]:
        """The run that a question opened, queued or further."""
        message = await self.alex.create_message(
            self.live.world.threads[GENERAL], text, mentions=[self.live.world.principals["lotse"]]
        )
        run: Any = await self.alex.find_run(message)
        return run  # type: ignore[no-any-return]

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run when it has ended."""
        return await self.when(run_id, lambda run: run["state"] in ENDED)

    async def when(self, run_id: str, true: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The run when something is true of it."""
        async with asyncio.timeout(30):
            while True:
                run: Any = await self.alex.get_run(run_id)
                if true(run):
                    return run  # type: ignore[no-any-return]

    async def said(self, run: dict[str, Any]) -> list[str]:
        """What the agent wrote in the thread of the run."""
        messages = self.alex.list_thread_messages(run["thread_id"])
        return [m["body"] async for m in messages if m["origin"] == "agent" and m["kind"] == "text"]


@pytest.fixture
async def asking(live: Live) -> AsyncIterator[Asking]:
    """Alex on the module's server."""
    async with Rest(live.url, live.tokens["alex"]) as alex:
        yield Asking(live, alex)


@pytest.fixture
def lotse(live: Live) -> Callable[..., Awaitable[Lotse]]:
    """Makes the agent, for the module's server or another URL."""

    async def made(root: Path, url: str = "", **options: Any) -> Lotse:
        return Lotse(
            url or live.url, live.tokens["lotse"], root, pace=QUICK, poll=0.01, patience=30, timeout=10, **options
        )

    return made


@pytest.fixture
def demo(session_folder: Path) -> Iterator[Callable[..., Demo]]:
    """Starts demos, each with a folder of its own for temporary files; what a failed test left is killed."""
    demos: list[Demo] = []

    def started(*options: str, **variables: str) -> Demo:
        temporary = session_folder / uuid.uuid4().hex[:4]  # short: the path of a socket is
        temporary.mkdir(mode=0o711)
        demos.append(Demo(temporary, *options, **variables))
        return demos[-1]

    yield started
    for each in demos:
        if each.process.poll() is None:
            each.process.send_signal(signal.SIGTERM)
            try:
                each.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.communicate()
        shutil.rmtree(each.temporary, ignore_errors=True)
