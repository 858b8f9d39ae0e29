"""Following runs, Running now and the log: as the server has them, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from livebox.client import GatewayRefused, Livebox, Problem
from livebox.client import follow as follow_module
from livebox.client import gateway as gateway_module
from livebox.client import tail as tail_module
from livebox.client.pauses import Pauses
from tests.client.fake import Fake, message, problem, summary, when


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(gateway_module, "Pauses", lambda: Pauses(0.001, 0.01))
    monkeypatch.setattr(follow_module, "LOOK_EVERY", 0.05)


@pytest.fixture
async def alex(fake: Fake) -> AsyncIterator[Livebox]:
    async with Livebox(fake.url, "t", patience=5) as alex:
        yield alex


class Followed:
    """A run that is followed in the background; every document that came."""

    def __init__(self, alex: Livebox, run_id: str) -> None:
        self.documents: list[Any] = []
        self._came = asyncio.Event()
        self._run_id = run_id
        self.task = asyncio.create_task(self._follow(alex))

    async def _follow(self, alex: Livebox) -> None:
        async for run in alex.follow_run(self._run_id):
            self.documents.append(run)
            self._came.set()

    async def until(self, fake: Fake) -> Any:
        """The document when it is the server's."""
        async with asyncio.timeout(10):
            while not self.documents or self.documents[-1] != fake.runs[self._run_id]:
                self._came.clear()
                await self._came.wait()
        return self.documents[-1]

    async def ended(self) -> Any:
        await asyncio.wait_for(self.task, 10)
        return self.documents[-1]


def headline(value: str) -> list[dict[str, Any]]:
    return [{"op": "add", "path": "/headline", "value": value}]


async def test_patches_keep_the_document_up_to_date_until_the_end(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    fake.change(run_id, headline("One"))
    await followed.until(fake)
    fake.change(run_id, [{"op": "add", "path": "/metrics/tool_calls", "value": 1}], by=200)
    await followed.until(fake)
    fake.state(run_id, "completed")
    assert await followed.ended() == fake.runs[run_id]
    assert fake.calls["get"] == 0


async def test_documents_that_were_given_out_do_not_change(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running", metrics={"tool_calls": 1})["id"]
    followed = Followed(alex, run_id)
    first = await followed.until(fake)
    fake.change(run_id, [{"op": "replace", "path": "/metrics/tool_calls", "value": 2}])
    await followed.until(fake)
    assert first["metrics"] == {"tool_calls": 1}
    followed.task.cancel()


async def test_a_gap_is_healed_by_fetching_the_run(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    session = await fake.session()
    session.focus.clear()  # one patch gets lost
    fake.change(run_id, headline("Lost"))
    session.focus.add(run_id)
    fake.change(run_id, [{"op": "add", "path": "/waiting_on", "value": "tool"}])
    assert (await followed.until(fake))["headline"] == "Lost"
    assert fake.calls["get"] >= 1
    followed.task.cancel()


async def test_patches_that_come_while_it_heals_are_not_lost(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    session = await fake.session()
    stale = dict(fake.runs[run_id])
    rest = fake.rest
    asked = 0

    async def behind(request: Any, operation: str, token: str, body: Any) -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        if asked == 1:  # another process answers, which is behind; and more happens meanwhile
            fake.change(run_id, headline("More"))
            return 200, stale
        return await rest(request, operation, token, body)

    fake.rest = behind  # type: ignore[method-assign]
    session.focus.clear()
    fake.change(run_id, headline("Lost"))
    session.focus.add(run_id)
    fake.change(run_id, headline("Seen"))
    await followed.until(fake)
    assert asked >= 2
    versions = [run["version"] for run in followed.documents]
    assert versions == sorted(set(versions))
    followed.task.cancel()


def patched(base: int, version: int, value: str) -> dict[str, Any]:
    return {"run_id": "r", "base_version": base, "version": version, "ops": headline(value)}


async def test_what_came_while_it_was_fetched_is_applied_to_what_was_fetched() -> None:
    followed = follow_module.Followed("r")
    run: Any = {"id": "r", "state": "running", "version": 1}
    followed.document(run)
    followed.updated(patched(2, 3, "Three"))
    followed.updated(patched(3, 4, "Four"))
    assert (followed.gap.is_set(), followed.run) == (True, run)
    followed.document({**run, "version": 2})
    assert (followed.gap.is_set(), followed.run) == (False, {**run, "version": 4, "headline": "Four"})


async def test_a_document_that_is_behind_leaves_the_gap_open() -> None:
    followed = follow_module.Followed("r")
    run: Any = {"id": "r", "state": "running", "version": 5}
    followed.document(run)
    followed.updated(patched(8, 9, "Nine"))
    followed.document({**run, "version": 3})
    assert (followed.gap.is_set(), followed.run) == (True, run)
    followed.document({**run, "version": 8})
    assert followed.run == {**run, "version": 9, "headline": "Nine"}


async def test_a_patch_that_does_not_fit_is_a_gap(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    session = await fake.session()
    version = fake.runs[run_id]["version"]
    ops = [{"op": "remove", "path": "/headline"}]
    fake.runs[run_id] = {**fake.runs[run_id], "version": version + 1, "headline": "True"}
    await session.send(
        {"type": "run.updated", "run_id": run_id, "base_version": version, "version": version + 1, "ops": ops}
    )
    assert (await followed.until(fake))["headline"] == "True"
    followed.task.cancel()


async def test_lower_versions_are_left_out(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running", version=7)["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    session = await fake.session()
    await session.send({"type": "run.document", "run": {**fake.runs[run_id], "version": 3, "headline": "Old"}})
    await session.send(
        {"type": "run.updated", "run_id": run_id, "base_version": 3, "version": 4, "ops": headline("Old")}
    )
    fake.change(run_id, headline("New"))
    await followed.until(fake)
    assert [run.get("headline") for run in followed.documents] == [None, "New"]
    assert fake.calls["get"] == 0
    followed.task.cancel()


async def test_it_goes_on_after_the_connection_was_away(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    (await fake.session()).cut()
    fake.change(run_id, headline("Meanwhile"))
    await fake.session(2)
    await followed.until(fake)
    await when(lambda: fake.sessions[-1].focus == {run_id})
    fake.state(run_id, "failed", state_reason="runtime_error")
    assert (await followed.ended())["state"] == "failed"


async def test_several_runs_are_one_focus(fake: Fake, alex: Livebox) -> None:
    ids = [fake.run("running")["id"] for _ in range(3)]
    followed = [Followed(alex, run_id) for run_id in ids]
    for each in followed:
        await each.until(fake)
    assert (await fake.session()).focus == set(ids)
    followed[0].task.cancel()
    await when(lambda: fake.sessions[-1].focus == set(ids[1:]))
    for each in followed:
        each.task.cancel()


async def test_a_run_that_may_not_be_seen_is_not_found(fake: Fake, alex: Livebox) -> None:
    with pytest.raises(Problem) as refused:
        async for _ in alex.follow_run("01933b7e-0000-7000-8000-000000000051"):
            pass
    assert refused.value.code == "not_found"


async def test_a_run_that_may_no_longer_be_seen_ends_with_not_found(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    followed = Followed(alex, run_id)
    await followed.until(fake)
    fake.unseen.add(run_id)
    await fake.event("access.changed")
    with pytest.raises(Problem) as refused:
        await followed.ended()
    assert refused.value.code == "not_found"


async def test_an_ended_run_is_given_once(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("completed")["id"]
    assert [run["state"] async for run in alex.follow_run(run_id)] == ["completed"]


async def test_a_token_that_is_refused_is_said(fake: Fake, alex: Livebox) -> None:
    fake.hello_problem = (problem(401, "invalid_token"), 4501)
    with pytest.raises(GatewayRefused):
        async for _ in alex.follow_run(fake.run()["id"]):
            pass


async def test_running_now_follows_events_and_live_content(fake: Fake, alex: Livebox) -> None:
    first = fake.run("running")["id"]
    lists = alex.follow_active()
    assert [run["id"] for run in await anext(lists)] == [first]
    second = fake.run("queued", queued_at="2026-11-02T09:31:00.000000Z")
    await fake.event("run.state_changed", {"run": summary(second)})
    assert [run["id"] for run in await until(lists, lambda runs: len(runs) == 2)] == [second["id"], first]
    fake.change(first, headline("Counting"))
    assert await until(lists, lambda runs: runs[-1].get("headline") == "Counting")
    fake.state(first, "completed")
    await fake.event("run.state_changed", {"run": summary(fake.runs[first])})
    assert [run["id"] for run in await until(lists, lambda runs: len(runs) == 1)] == [second["id"]]


async def test_running_now_comes_from_a_new_snapshot_when_rights_change(fake: Fake, alex: Livebox) -> None:
    run_id = fake.run("running")["id"]
    lists = alex.follow_active(live=False)
    await anext(lists)
    del fake.runs[run_id]
    await fake.event("access.changed")
    assert await until(lists, lambda runs: not runs) == []


async def test_running_now_heals_after_the_connection_was_away(fake: Fake, alex: Livebox) -> None:
    fake.run("running")
    lists = alex.follow_active(live=False)
    assert len(await anext(lists)) == 1
    (await fake.session()).cut()
    fake.run("running")
    assert await until(lists, lambda runs: len(runs) == 2)


async def test_running_now_begins_with_what_runs_now_where_the_session_began_earlier(fake: Fake, alex: Livebox) -> None:
    gone = fake.run("running")["id"]
    events = alex.events()
    waiting = asyncio.ensure_future(take(events, 2))
    await fake.session()
    await when(lambda: alex.gateway._listeners["event"])
    fake.state(gone, "completed")
    await fake.event("run.state_changed", {"run": summary(fake.runs[gone])})
    begun = fake.run("running")
    await fake.event("run.state_changed", {"run": summary(begun)})
    await waiting
    lists = alex.follow_active(live=False)
    assert [run["id"] for run in await anext(lists)] == [begun["id"]]


async def until(lists: AsyncIterator[Any], true: Any) -> Any:
    async with asyncio.timeout(10):
        async for runs in lists:
            if true(runs):
                return runs
    raise AssertionError("it ended")


async def take(events: AsyncIterator[Any], number: int) -> list[int]:
    async with asyncio.timeout(10):
        return [(await anext(events))["seq"] for _ in range(number)]


async def test_the_log_is_caught_up_and_then_followed(fake: Fake, alex: Livebox) -> None:
    for _ in range(7):
        await fake.event("run.changed")
    events = alex.events(after=2)
    assert await take(events, 5) == [3, 4, 5, 6, 7]
    await fake.event("run.changed")
    assert await take(events, 1) == [8]


async def test_without_a_position_the_log_is_followed_from_now_on(fake: Fake, alex: Livebox) -> None:
    await fake.event("run.changed")
    events = alex.events()
    following = asyncio.create_task(take(events, 2))
    await fake.session()
    await when(lambda: alex.gateway._listeners["event"])
    for _ in range(2):
        await fake.event("run.changed")
    assert await following == [2, 3]


async def test_no_event_is_missed_or_doubled_over_a_cut(fake: Fake, alex: Livebox) -> None:
    events = alex.events(after=0)
    await fake.event("run.changed")
    assert await take(events, 1) == [1]
    (await fake.session()).cut()
    for number in range(2, 6):
        fake.events.append({**fake.events[0], "seq": number})
    await fake.session(2)
    await fake.event("run.changed")
    assert await take(events, 5) == [2, 3, 4, 5, 6]


async def test_a_slow_reader_reads_on_from_the_log(fake: Fake, alex: Livebox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "KEPT", 3)
    events = alex.events(after=0)
    await fake.event("run.changed")
    assert await take(events, 1) == [1]
    for _ in range(10):
        await fake.event("run.changed")
    await when(lambda: alex.gateway.seq == 11)
    assert await take(events, 10) == list(range(2, 12))


async def test_a_log_that_does_not_reach_back_is_said(fake: Fake, alex: Livebox) -> None:
    for _ in range(3):
        await fake.event("run.changed")
    fake.floor = 2
    with pytest.raises(Problem) as refused:
        await anext(alex.events(after=1))
    assert refused.value.code == "cursor_expired"


async def test_a_session_that_could_not_resume_reads_the_gap_from_the_log(fake: Fake, alex: Livebox) -> None:
    events = alex.events(after=0)
    await fake.event("run.changed")
    assert await take(events, 1) == [1]
    (await fake.session()).cut()
    fake.events += [{**fake.events[0], "seq": number} for number in (2, 3)]
    sent = fake.catch_up

    async def too_old(session: Any) -> None:
        await session.send({"type": "resync", "after": len(fake.events)})

    fake.catch_up = too_old  # type: ignore[method-assign]
    await fake.session(2)
    assert await take(events, 2) == [2, 3]
    fake.catch_up = sent  # type: ignore[method-assign]


async def test_a_person_says_something(fake: Fake, alex: Livebox) -> None:
    run = fake.run("running")
    said = await alex.create_message(run["thread_id"], "Hello")
    assert said["body"] == message(run, "Hello")["body"]
