"""Client and adapter with a real server: what is followed is what getRun shows, and each run ends once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from livebox.client import ENDED, Adapter, Livebox, Pace, RunHandle
from tests.client.fake import when
from tests.fixtures.server import Live

GENERAL = "Support/General"
QUICK = Pace(heartbeat=0.2, patch=0.0, unwatched=0.2, grace=2.0)
Work = Callable[[RunHandle], Awaitable[Any]]


@pytest.fixture
async def alex(live: Live) -> AsyncIterator[Livebox]:
    async with Livebox(live.url, live.tokens["alex"]) as alex:
        yield alex


@asynccontextmanager
async def at_work(live: Live, work: Work, **options: Any) -> AsyncIterator[Adapter]:
    adapter = Adapter(live.url, live.tokens["lotse"], pace=QUICK, model="test", patience=30, **options)
    adapter.on_invocation(work)
    serving = asyncio.create_task(adapter.serve())
    try:
        yield adapter
        assert not serving.done(), serving
    finally:
        adapter.leave()
        await asyncio.wait_for(serving, 30)


async def ask(live: Live, alex: Livebox, text: str = "Please") -> Any:
    message = await alex.create_message(live.world.threads[GENERAL], text, mentions=[live.world.principals["lotse"]])
    run = await alex.find_run(message)
    assert run is not None
    return run


async def end_of(alex: Livebox, run_id: str) -> Any:
    async with asyncio.timeout(30):
        async for run in alex.follow_run(run_id):
            last = run
    return last


def settled(run: Any) -> dict[str, Any]:
    """Without what moves without a version."""
    moving = ("claimed_at", "last_heartbeat_at", "last_progress_at", "document_as_of")
    return {name: value for name, value in run.items() if name not in moving}


async def test_what_is_followed_is_what_get_run_shows(live: Live, alex: Livebox) -> None:
    shown = asyncio.Event()
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        for number in range(30):
            run.headline = f"Number {number}"
            run.plan.item(f"k{number % 5}", f"Point {number}", "in_progress")
            run.subagent("reader", "waiting_tool", headline=f"File {number}")
            run.metrics(tool_calls=number, context_used_percent=number)
            await run.flush()
            if number % 10 == 5:
                async with run.step("tool", "count") as step:
                    step.detail["n"] = number
        await run.flush()
        shown.set()
        await go_on.wait()
        return "Done."

    async with at_work(live, work):
        run_id = (await ask(live, alex))["id"]
        documents: list[Any] = []

        async def follow() -> None:
            async for run in alex.follow_run(run_id):
                documents.append(run)  # noqa: PERF401 - looked at while it goes on

        following = asyncio.create_task(follow())
        await asyncio.wait_for(shown.wait(), 30)
        now = await alex.get_run(run_id)
        assert now["headline"] == "Number 29"
        await when(lambda: documents and documents[-1]["version"] >= now["version"])
        assert settled(documents[-1]) == settled(await alex.get_run(run_id))
        go_on.set()
        await asyncio.wait_for(following, 30)
    assert documents[-1]["state"] == "completed"
    assert settled(documents[-1]) == settled(await alex.get_run(run_id))
    versions = [run["version"] for run in documents]
    assert versions == sorted(set(versions))


async def test_a_cancelled_run_ends_at_once(live: Live, alex: Livebox) -> None:
    async def work(_: RunHandle) -> str:
        await asyncio.Event().wait()
        return "Never."

    async with at_work(live, work):
        run_id = (await ask(live, alex))["id"]
        async for run in alex.follow_run(run_id):
            if run["state"] == "running" and "cancel" not in run:
                await alex.cancel_run(run["id"])
    assert (run["state"], run["state_reason"]) == ("cancelled", "user_cancelled")
    assert run["cancel"]["outcome"] == "acknowledged"


async def test_a_question_is_answered_and_followups_are_taken(live: Live, alex: Livebox) -> None:
    async def work(run: RunHandle) -> str:
        answer = await run.ask("Which one?", choices={"a": "The first", "b": "The second"})
        followup = await anext(run.followups())
        return f"{answer.choice}, {followup['body']}"

    async with at_work(live, work):
        run_id = (await ask(live, alex))["id"]
        answered = followed_up = False
        async with asyncio.timeout(30):
            async for run in alex.follow_run(run_id):
                if run["state"] == "waiting_input" and not answered:
                    assert run["question"]["choices"] == {"a": "The first", "b": "The second"}
                    await alex.create_message(run["thread_id"], "the second")
                    answered = True
                elif answered and run["state"] == "running" and not followed_up:
                    await alex.create_message(run["thread_id"], "and more")
                    followed_up = True
    assert (run["state"], run["summary"]) == ("completed", "b, and more")


async def test_two_adapters_of_one_agent_share_the_work(live: Live, alex: Livebox) -> None:
    together = asyncio.Barrier(2)
    adapters: set[int] = set()

    def worker(number: int) -> Work:
        async def work(_: RunHandle) -> str:
            adapters.add(number)
            await together.wait()
            return "Done."

        return work

    async with at_work(live, worker(1)), at_work(live, worker(2)):
        runs = [await ask(live, alex), await ask(live, alex)]
        ends = [await end_of(alex, run["id"]) for run in runs]
    assert [run["state"] for run in ends] == ["completed", "completed"]
    assert adapters == {1, 2}


async def test_it_hears_whether_somebody_looks(live: Live, alex: Livebox) -> None:
    heard: list[bool | None] = []
    looked = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched is False)
        heard.append(run.watched)
        looked.set()
        await when(lambda: run.watched is True)
        heard.append(run.watched)
        return "Done."

    async with at_work(live, work):
        run = await ask(live, alex)
        await asyncio.wait_for(looked.wait(), 30)
        assert (await end_of(alex, run["id"]))["state"] == "completed"
    assert heard == [False, True]


async def test_running_now_and_the_log_tell_of_a_run(live: Live, alex: Livebox) -> None:
    begun = asyncio.Event()
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        run.headline = "Looking"
        begun.set()
        await go_on.wait()
        return "Done."

    after = (await alex.get_snapshot())["seq"]
    async with at_work(live, work):
        run_id = (await ask(live, alex))["id"]
        await begun.wait()
        async with asyncio.timeout(30):
            async for runs in alex.follow_active():
                mine = [run for run in runs if run["id"] == run_id]
                if mine and mine[0].get("headline") == "Looking":
                    go_on.set()
                if go_on.is_set() and not mine:
                    break
        states = []
        async with asyncio.timeout(30):
            async for event in alex.events(after):
                if event["type"] == "run.state_changed" and event["payload"]["run"]["id"] == run_id:
                    states.append(event["payload"]["run"]["state"])
                    if states[-1] in ENDED:
                        break
    assert states == ["queued", "running", "completed"]
