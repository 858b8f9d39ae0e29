"""Fixtures of the browser tests: one Chromium, people who sit before it, and an agent whose every step a test takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol

import pytest
import pytest_asyncio

from db.embedded import Server
from livebox.world import World
from tests.browser.chromium import Chromium, Page, Program, program
from tests.fixtures.database import fresh_database
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import fresh
from tests.fixtures.world import WorldCopy

BROWSER = [
    pytest.mark.skipif(program() is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="session")
def chromium_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The running program."""
    with Program(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def live(server: Server, world_template: tuple[str, World], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One server with the test world for all tests of the page: each test makes runs and threads of its own in it."""
    name, world = world_template
    folder = tmp_path_factory.mktemp("data")
    with fresh_database(server, name) as dsn, live_server(WorldCopy(dsn, world), folder) as live:
        yield live


@pytest.fixture(scope="session")
def stage(live: Live) -> Iterator[Stage]:
    """What the tests do in its world."""
    stage = Stage(live)
    yield stage
    stage.close()


@pytest_asyncio.fixture
async def chromium(chromium_program: Program) -> AsyncIterator[Chromium]:
    """A connection to the browser; the pages that a test opened are closed after it."""
    async with Chromium(chromium_program) as browser:
        yield browser


class Sit(Protocol):
    """Opens the page as somebody."""

    def __call__(self, handle: str, path: str = "", **more: Any) -> Awaitable[Page]: ...


@pytest_asyncio.fixture
async def sit(chromium: Chromium, live: Live) -> AsyncIterator[Sit]:
    """Sits somebody before a page of their own at `path` ("thread/<id>" or "running"); in the end no page complains."""
    pages: list[Page] = []

    async def seated(handle: str, path: str = "running", *, url: str = "", token: str = "", **more: Any) -> Page:
        page = await chromium.page(**more)
        pages.append(page)
        where = f"&thread={path.removeprefix('thread/')}" if path.startswith("thread/") else ""
        await page.goto(f"{url or live.url}/#token={token or live.tokens[handle]}{where}")
        await page.shows("Live", "#status")
        return page

    yield seated
    for page in pages:
        await page.clean()


def claim(stage: Stage, run_id: str) -> Held:
    """A queued run, taken for Lotse and begun."""
    while True:
        items = stage.as_("lotse").call("claimInvocations", {"claim_id": fresh(), "limit": 100}).ok()["items"]
        for item in items:
            if item["run"]["id"] == run_id:
                headers = {"Livebox-Invocation": item["token"]}
                run = stage.as_("lotse").call("startRun", {"model": "example"}, headers=headers, run_id=run_id).ok()
                return Held(run, item["token"])
        assert items, "the run was handed to somebody else"


class Agent:
    """Lotse at work on one run, over REST, as the test says."""

    def __init__(self, stage: Stage, held: Held, handle: str = "lotse") -> None:
        self.stage = stage
        self.held = held
        self.handle = handle
        self.version = held.run["version"]

    @property
    def thread(self) -> str:
        """Where the page of its thread is."""
        return f"thread/{self.held.run['thread_id']}"

    @property
    def id(self) -> str:
        """The run's id."""
        return self.held.id

    def call(self, operation: str, body: Any = None, **path: str) -> Any:
        """An operation of run control."""
        answered = self.stage.as_(self.handle).call(
            operation, {} if body is None else body, headers=self.held.headers, run_id=self.id, **path
        )
        return answered.ok()

    def patch(self, **members: Any) -> int:
        """Add members to the live document; the new version."""
        ops = [{"op": "add", "path": f"/{name}", "value": value} for name, value in members.items()]
        return self.ops(*ops)

    def ops(self, *ops: dict[str, Any]) -> int:
        """Patch the live document, on top of whatever it is now; the new version."""
        version = self.read()["version"]
        self.version = self.call("patchRun", {"base_version": version, "ops": list(ops)})["version"]
        return int(self.version)

    def read(self, by: str = "owner") -> Any:
        """The document."""
        return self.stage.as_(by).call("getRun", run_id=self.id).ok()

    def finish(self, state: str = "completed", **more: Any) -> Any:
        """End the run."""
        return self.call("finishRun", {"state": state, "summary": "12 files.", **more})

    def step(self, **more: Any) -> Any:
        """Record a step."""
        return self.call("recordRunStep", {"kind": "tool", "name": "read_folder", **more}, step_id=fresh())


@pytest.fixture
def running(stage: Stage) -> Callable[..., Agent]:
    """An agent that works on a fresh run; by Alex in Support/Escalation unless something else is said."""
    return lambda **more: Agent(stage, stage.running(**more))


def box(member: str = "", run: str = "") -> str:
    """The selector of a live box, or of something in it."""
    which = f"[data-run='{run}']" if run else ""
    return f".box{which} {member}".strip()


async def at_version(page: Page, version: int, run: str = "") -> None:
    """Wait until the page shows this version of the run, or a later one."""
    await page.until(f'Number(document.querySelector("{box(run=run)}")?.dataset.version) >= {version}')


async def in_state(page: Page, state: str, run: str = "") -> None:
    """Wait until the page shows the run in this state."""
    await page.until(f'document.querySelector("{box(run=run)}")?.dataset.state === "{state}"')
