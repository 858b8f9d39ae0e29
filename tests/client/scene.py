"""An adapter at work on the fake server, and what it does there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from livebox.client import Adapter, Pace, RunHandle
from tests.client.fake import Fake, when

QUICK = Pace(heartbeat=0.05, patch=0.0, unwatched=3600.0, grace=0.5)
Work = Callable[[RunHandle], Awaitable[Any]]


@asynccontextmanager
async def at_work(fake: Fake, work: Work, **options: Any) -> AsyncIterator[Adapter]:
    adapter = Adapter(fake.url, "t", pace=QUICK, patience=10, poll=0.01, **options)
    adapter.on_invocation(work)
    serving = asyncio.create_task(adapter.serve())
    try:
        yield adapter
        assert not serving.done(), serving
    finally:
        adapter.leave()
        await asyncio.wait_for(serving, 20)


async def ended(fake: Fake, run: dict[str, Any]) -> dict[str, Any]:
    await when(lambda: fake.runs[run["id"]]["state"] in ("completed", "failed", "cancelled"))
    return fake.runs[run["id"]]


async def shows(run: RunHandle) -> str:
    run.headline = "Working"
    run.plan.item("one", "First", "in_progress")
    async with run.step("tool", "read", title="Reading") as step:
        step.detail["files"] = 3
        run.text.append("Read ")
    run.text.append("all.")
    run.metrics(tool_calls=1)
    run.plan.item("one", status="done")
    return "Done."


def assert_shown(run: dict[str, Any]) -> None:
    assert (run["state"], run["summary"], run["headline"]) == ("completed", "Done.", "Working")
    assert run["text"] == {"content": "Read all."}
    assert run["plan"] == {"items": {"one": {"ordinal": 1, "title": "First", "status": "done"}}}
    assert run["metrics"] == {"tool_calls": 1}
    assert "tool" not in run
    (step,) = run["steps"].values()
    assert (step["name"], step["status"], step["detail"]) == ("read", "completed", {"files": 3})
