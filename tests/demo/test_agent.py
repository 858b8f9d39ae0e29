"""Lotse on a real server: what it reports, what it refuses, and that every run it takes ends."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from livebox.client import Adapter, Livebox, Rest, RunHandle
from livebox.demo.agent import Lotse
from livebox.demo.folder_report import FolderReader, Stopped
from livebox.demo.scenario import Scenario
from livebox.demo.view import Lines
from tests.client.fake import when
from tests.demo.conftest import GENERAL, QUICK, Asking, working
from tests.fixtures.server import Live, live_server
from tests.fixtures.world import WorldCopy

Made = Callable[..., Awaitable[Lotse]]
PHASES = ["find_folder", "list_files", "count_lines", "find_largest", "find_todos", "report"]


def steps(run: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(run.get("steps", {}).values(), key=lambda step: step["ordinal"])


class Gate:
    """A reader that stands in its first phase until it is let through, or asked to stop."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def stand(self, reader: FolderReader) -> None:
        self.reached.set()
        while not self.open.wait(0.005):
            if reader._stopped():
                raise Stopped


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Makes every listing stand at a gate."""
    gate = Gate()
    listing = FolderReader.listing

    def guarded(self: FolderReader) -> Any:
        gate.stand(self)
        return listing(self)

    monkeypatch.setattr(FolderReader, "listing", guarded)
    yield gate
    gate.open.set()


async def test_it_reads_the_folder_and_reports_step_by_step(asking: Asking, lotse: Made, root: Path) -> None:
    async with working(await lotse(root)):
        run = await asking.ended((await asking.run("What is in this folder?"))["id"])
    assert run["state"] == "completed"
    assert run["summary"] == "2 files, 3 lines, 1 TODO (Python 2, Markdown 1)"
    assert [(step["name"], step["status"]) for step in steps(run)] == [(name, "completed") for name in PHASES]
    found = {step["name"]: step.get("detail", {}) for step in steps(run)}
    assert found["list_files"] == {"files": 2, "folders": 1, "bytes": 28, "skipped": {"links": 1}, "complete": True}
    assert found["find_largest"]["largest"][0] == {"path": "code/a.py", "bytes": 18}
    assert found["find_todos"] == {"todos": 1, "first": [{"path": "code/a.py", "line": 2, "text": "# TODO more"}]}
    (report,) = await asking.said(run)
    assert report.startswith("**2 files** in `.`, 28 B.")
    assert "`code/a.py:2` # TODO more" in report
    message: Any = await asking.alex.get_message(run["triggering_message_id"])
    assert message["trigger_state"] == "done"


async def test_a_folder_below_the_root_is_read_alone(asking: Asking, lotse: Made, root: Path) -> None:
    async with working(await lotse(root)):
        run = await asking.ended((await asking.run("And in `code`?"))["id"])
    assert run["summary"].startswith("1 file, 2 lines")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("`nothing`", "The folder nothing does not exist."),
        ("`README.md`", "README.md is not a folder."),
        ("`..`", ".. leads out of the folder that I may read."),
        ("`code/../../secret`", "code/../../secret leads out of the folder that I may read."),
        ("`out`", "out leads out of the folder that I may read."),
        ("`/etc`", "/etc is not a path below the folder that I may read."),
    ],
)
async def test_what_it_may_not_or_cannot_read_fails_with_the_reason(
    asking: Asking, lotse: Made, root: Path, text: str, summary: str
) -> None:
    async with working(await lotse(root)):
        run = await asking.ended((await asking.run(f"What is in {text}?"))["id"])
    assert (run["state"], run["state_reason"], run["summary"]) == ("failed", "runtime_error", summary)
    assert [(step["name"], step["status"]) for step in steps(run)] == [("find_folder", "failed")]
    assert await asking.said(run) == []


async def test_it_asks_which_folder_is_meant(asking: Asking, lotse: Made, root: Path) -> None:
    for place in ("a", "b"):
        (root / place / "docs").mkdir(parents=True)
        (root / place / "docs" / f"{place}.md").write_text("# Here\n")
    async with working(await lotse(root)):
        run_id = (await asking.run("What is in `docs`?"))["id"]
        waiting = await asking.when(run_id, lambda run: run["state"] == "waiting_input")
        assert waiting["question"]["choices"] == {"1": "a/docs", "2": "b/docs"}
        await asking.alex.create_message(waiting["thread_id"], "2")
        run = await asking.ended(run_id)
    assert run["state"] == "completed"
    assert steps(run)[0]["detail"]["folder"] == "b/docs"


async def test_it_shows_what_it_does(asking: Asking, lotse: Made, root: Path) -> None:
    for number in range(30):
        (root / "code" / f"{number}.py").write_text("x = 1\n" * number)
    async with working(await lotse(root, simulate=True)):
        run = await asking.ended((await asking.run("What is in this folder?"))["id"])
    assert run["model"] == "folder-reader (simulated tokens and cost)"
    assert run["headline"] == run["summary"]
    assert {item["status"] for item in run["plan"]["items"].values()} == {"done"}
    assert [unit["state"] for unit in run["subagents"].values()] == ["terminal", "terminal"]
    assert run["jobs"]["todos"]["headline"] == "1 TODO"
    assert run["metrics"]["cost"]["is_estimate"] is True
    assert "tool" not in run
    assert run["text"]["content"] == (await asking.said(run))[0]


async def test_what_is_simulated_is_plausible(asking: Asking, lotse: Made, root: Path) -> None:
    (root / "big.py").write_text("x = 1\n" * 500_000)
    async with working(await lotse(root, simulate=True)):
        metrics = (await asking.ended((await asking.run("What is in this folder?"))["id"]))["metrics"]
    assert 40 <= metrics["context_used_percent"] <= 70
    assert 10_000 <= metrics["cost"]["amount_micros"] <= 100_000


async def test_the_demo_looks_at_the_run_that_it_shows(asking: Asking, live: Live) -> None:
    heard: list[bool | None] = []
    adapter = Adapter(live.url, live.tokens["lotse"])

    @adapter.on_invocation
    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched)
        heard.append(run.watched)
        return "Done."

    serving = asyncio.create_task(adapter.serve())
    async with Livebox(live.url, live.tokens["alex"]) as alex:
        scenario = Scenario(alex, live.world.threads[GENERAL], live.world.principals["lotse"])
        asked = await scenario.ask("@Lotse please", lambda: Lines(Console(file=io.StringIO()), "Lotse"))
    adapter.leave()
    await asyncio.wait_for(serving, 30)
    assert heard == [True]
    assert list(asked.states) == ["queued", "running", "completed"]


async def test_an_error_of_its_own_ends_the_run_and_not_the_agent(
    asking: Asking, lotse: Made, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a secret")

    with monkeypatch.context() as patched:
        patched.setattr(FolderReader, "largest", broken)
        async with working(await lotse(root)):
            run = await asking.ended((await asking.run("Please"))["id"])
            patched.undo()
            again = await asking.ended((await asking.run("Once more"))["id"])
    assert (run["state"], run["state_reason"]) == ("failed", "runtime_error")
    assert run["summary"] == "Lotse ran into an error of its own (ZeroDivisionError)."
    (failed,) = (step for step in steps(run) if step["name"] == "find_largest")
    assert (failed["status"], failed["detail"]) == ("failed", {"error": "ZeroDivisionError"})
    assert again["state"] == "completed"


async def test_a_cancelled_run_is_ended_in_the_middle_of_a_phase(
    asking: Asking, lotse: Made, root: Path, gate: Gate
) -> None:
    async with working(await lotse(root)):
        run_id = (await asking.run("Please"))["id"]
        await asyncio.to_thread(gate.reached.wait, 30)
        assert "cancel" in await asking.alex.cancel_run(run_id)
        run = await asking.ended(run_id)
    assert (run["state"], run["state_reason"]) == ("cancelled", "user_cancelled")
    assert [step["status"] for step in steps(run)] == ["completed", "cancelled"]


async def test_an_agent_that_leaves_ends_its_run(asking: Asking, lotse: Made, root: Path, gate: Gate) -> None:
    leaving = await lotse(root)
    serving = asyncio.create_task(leaving.serve())
    run_id = (await asking.run("Please"))["id"]
    await asyncio.to_thread(gate.reached.wait, 30)
    leaving.leave()
    await asyncio.wait_for(serving, 30)
    run = await asking.ended(run_id)
    assert (run["state"], run["state_reason"]) == ("failed", "runtime_error")
    assert run["summary"] == "Lotse was stopped before it was done."


async def test_a_run_that_ended_without_the_agent_is_left_alone(
    asking: Asking, lotse: Made, root: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str] = []
    finish = Rest.finish_run
    start = Rest.start_run

    async def started(self: Rest, run_id: str, invocation: str, request: Any = None) -> Any:
        tokens.append(invocation)
        return await start(self, run_id, invocation, request)

    monkeypatch.setattr(Rest, "start_run", started)
    async with working(await lotse(root)), Rest(asking.live.url, asking.live.tokens["lotse"]) as twin:
        run_id = (await asking.run("Please"))["id"]
        await asyncio.to_thread(gate.reached.wait, 30)
        await finish(twin, run_id, tokens[-1], {"state": "completed", "summary": "By a twin."})
        gate.open.set()
        assert (await asking.ended((await asking.run("Next"))["id"]))["state"] == "completed"
        run = await asking.ended(run_id)
    assert (run["state"], run["summary"]) == ("completed", "By a twin.")


@pytest.fixture
async def losing(live: Live) -> AsyncIterator[str]:
    """A way to the server on which the first answer to each request that changes something is lost."""
    seen: set[tuple[str, str, bytes]] = set()

    async def passed_on(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {n: v for n, v in request.headers.items() if n.lower() not in ("host", "content-length")}
        async with session.request(request.method, live.url + request.raw_path, data=body, headers=headers) as answer:
            content = await answer.read()
        key = (request.method, request.raw_path, body)
        if request.method != "GET" and key not in seen:
            seen.add(key)
            assert request.transport is not None
            request.transport.abort()
        kept = {n: v for n, v in answer.headers.items() if n.lower() in ("content-type", "etag", "retry-after")}
        return web.Response(status=answer.status, body=content, headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", passed_on)
    async with aiohttp.ClientSession(auto_decompress=False) as session, TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_lost_answers_are_asked_for_again_and_do_nothing_twice(
    asking: Asking, lotse: Made, root: Path, losing: str
) -> None:
    async with working(await lotse(root, losing)):
        run = await asking.ended((await asking.run("Please"))["id"])
    assert run["state"] == "completed"
    assert [step["name"] for step in steps(run)] == PHASES
    assert run["step_count"] == len(PHASES)
    assert len(await asking.said(run)) == 1


async def test_it_goes_on_when_the_server_comes_back(
    world_copy: WorldCopy, tmp_path: Path, root: Path, gate: Gate
) -> None:
    data = tmp_path / "data"
    with live_server(world_copy, data) as live:
        port, token = live.port, live.tokens["lotse"]
        lotse = Lotse(live.url, token, root, pace=QUICK, patience=30)
        serving = asyncio.create_task(lotse.serve())
        async with Rest(live.url, live.tokens["alex"]) as alex:
            run_id = (await Asking(live, alex).run("Please"))["id"]
        await asyncio.to_thread(gate.reached.wait, 30)
    gate.open.set()
    with live_server(world_copy, data, http__port=port) as live:
        async with Rest(live.url, live.tokens["alex"]) as alex:
            run = await Asking(live, alex).ended(run_id)
            again = await Asking(live, alex).ended((await Asking(live, alex).run("Once more"))["id"])
        lotse.leave()
        await asyncio.wait_for(serving, 30)
    assert (run["state"], run["step_count"]) == ("completed", len(PHASES))
    assert again["state"] == "completed"
