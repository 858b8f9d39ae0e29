"""An adapter against a server that has bad days: every run is ended once, whatever becomes of the work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.client import Adapter, AdapterError, Problem, RunHandle, RunLost, WorkFailed
from tests.client.fake import Fake, problem, serving, when
from tests.client.fake_runs import PRINCIPAL
from tests.client.scene import assert_shown, at_work, ended, shows

pytestmark = pytest.mark.usefixtures("quick")


async def test_a_run_is_taken_shown_and_ended(fake: Fake) -> None:
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)
    assert (fake.calls["start"], fake.calls["finish"]) == (1, 1)
    assert [frame["work"] for frame in fake.frames if frame["type"] == "ack"] == ["invocation"]


@pytest.mark.parametrize(
    "lost",
    [
        ["start"],
        ["finish"],
        ["PUT"],
        ["PATCH"],
        ["run.update"],
        ["heartbeat"],
        ["ack"],
        ["start", "run.update", "PATCH", "finish"],
    ],
    ids=lambda lost: "+".join(lost),
)
async def test_answers_that_are_lost_do_nothing_twice(fake: Fake, lost: list[str]) -> None:
    fake.lose = list(lost)
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)
    assert (fake.calls["start"], fake.calls["finish"]) == (1, 1)
    assert fake.lose == []


@pytest.mark.parametrize("cut_at", range(1, 9))
async def test_a_session_that_breaks_anywhere_costs_nothing(fake: Fake, cut_at: int) -> None:
    answer = fake.answer
    seen = 0

    async def cutting(session: Any, frame: dict[str, Any]) -> dict[str, Any]:
        nonlocal seen
        seen += 1
        if seen == cut_at:
            session.cut()
        return await answer(session, frame)

    fake.answer = cutting  # type: ignore[method-assign]

    async def slowly(run: RunHandle) -> str:
        summary = await shows(run)
        await when(lambda: seen > cut_at)
        return summary

    async with at_work(fake, slowly):
        run = await ended(fake, fake.invoke())
    assert_shown(run)
    assert fake.calls["finish"] == 1


@pytest.mark.parametrize(
    ("raised", "end"),
    [
        (
            ValueError("a secret"),
            {"reason": "runtime_error", "summary": "The agent ran into an error of its own (ValueError)."},
        ),
        (WorkFailed("No such folder."), {"reason": "runtime_error", "summary": "No such folder."}),
        (WorkFailed("Too dear.", "budget_exhausted"), {"reason": "budget_exhausted", "summary": "Too dear."}),
        (asyncio.CancelledError(), {"reason": "runtime_error", "summary": "The work was given up."}),
    ],
    ids=["error", "failed", "reason", "given_up"],
)
async def test_work_that_fails_ends_the_run_as_failed(fake: Fake, raised: BaseException, end: dict[str, str]) -> None:
    async def work(run: RunHandle) -> str:
        async with run.step("tool", "break"):
            raise raised

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert fake.ends[run["id"]] == [{"state": "failed", **end}]
    (step,) = run["steps"].values()
    assert step["status"] in ("failed", "cancelled")


async def test_a_result_may_hold_metrics_and_cost(fake: Fake) -> None:
    async def work(_: RunHandle) -> Any:
        return {"summary": "  Done.  ", "cost": {"amount_micros": 5, "currency": "EUR", "is_estimate": True}}

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    (end,) = fake.ends[run["id"]]
    assert end == {"state": "completed", "summary": "Done.", "cost": end["cost"]}


@pytest.mark.parametrize(
    "result",
    [5, object(), {"summary": b"x"}, {"metrics": {"tool_calls": object()}}],
    ids=["number", "object", "bytes", "inside"],
)
async def test_a_result_that_cannot_be_sent_still_ends_the_run(fake: Fake, result: Any) -> None:
    async def work(_: RunHandle) -> Any:
        return result

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    ((end,),) = fake.ends.values()
    assert (run["state"], end["reason"]) == ("failed", "adapter_error")


async def test_a_result_that_is_not_accepted_still_ends_the_run(fake: Fake) -> None:
    fake.refuse["finish"] = [problem(400, "validation_failed")]
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert fake.ends[run["id"]][0]["reason"] == "adapter_error"


@pytest.mark.parametrize("pushed", [True, False])
async def test_a_cancelled_run_stops_its_work_and_ends(fake: Fake, pushed: bool) -> None:
    begun = asyncio.Event()
    stopped = asyncio.Event()

    async def work(run: RunHandle) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert run.cancelled.is_set()
            stopped.set()
        return "Never."

    async with at_work(fake, work):
        run = fake.invoke()
        await begun.wait()
        if pushed:
            await fake.ask_cancel(run["id"])
        else:  # the push was lost: a heartbeat tells
            fake.change(run["id"], [{"op": "add", "path": "/cancel", "value": {"requested_at": "x"}}])
        run = await ended(fake, run)
    assert run["state"] == "cancelled"
    assert stopped.is_set()
    assert fake.calls["cancel_seen"] == 1
    assert fake.calls["finish"] == 1


async def test_work_that_does_not_stop_is_given_up_after_the_grace(fake: Fake) -> None:
    begun = asyncio.Event()
    deaf = asyncio.Event()

    async def work(_: RunHandle) -> str:
        begun.set()
        while not deaf.is_set():
            try:
                await deaf.wait()
            except asyncio.CancelledError:
                continue
        return "Done after all."

    async with at_work(fake, work):
        run = fake.invoke()
        await begun.wait()
        await fake.ask_cancel(run["id"])
        run = await ended(fake, run)
        deaf.set()
    assert run["state"] == "cancelled"
    assert fake.calls["finish"] == 1


@pytest.mark.parametrize("how", ["superseded", "ended"])
async def test_a_run_that_is_lost_stops_the_work_and_is_not_ended_here(fake: Fake, how: str) -> None:
    begun = asyncio.Event()
    told: list[RunLost | None] = []

    async def work(run: RunHandle) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append(run.lost)
        return "Never."

    async with at_work(fake, work) as adapter:
        run = fake.invoke()
        await begun.wait()
        if how == "superseded":
            fake.tokens[run["id"]] = "another's"
        else:
            fake.state(run["id"], "failed", state_reason="stale")
        await when(lambda: told and not adapter.working)
    assert told[0] is not None
    assert told[0].code == {"superseded": "invocation_superseded", "ended": "run_ended"}[how]
    assert fake.ends[run["id"]] == []


async def test_who_leaves_ends_its_runs_as_failed(fake: Fake) -> None:
    begun = asyncio.Event()

    async def work(_: RunHandle) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "Never."

    async with at_work(fake, work):
        run = fake.invoke()
        await begun.wait()
    assert fake.ends[run["id"]] == [
        {"state": "failed", "reason": "runtime_error", "summary": "The agent was stopped before it was done."}
    ]


async def test_it_goes_on_when_the_server_comes_back(unused_tcp_port: int) -> None:
    fake = Fake()
    begun = asyncio.Event()
    back = asyncio.Event()

    async def work(run: RunHandle) -> str:
        run.headline = "Before"
        begun.set()
        await back.wait()
        return await shows(run)

    async with serving(fake, unused_tcp_port):
        working = at_work(fake, work)
        await working.__aenter__()
        run = fake.invoke()
        await begun.wait()
    async with serving(fake, unused_tcp_port):
        back.set()
        assert_shown(await ended(fake, run))
        await working.__aexit__(None, None, None)
    assert fake.calls["finish"] == 1


async def test_the_token_of_a_person_is_an_error(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.client.fake.PRINCIPAL", {**PRINCIPAL, "kind": "person", "handle": "alex"})
    with pytest.raises(AdapterError, match="this token is of alex, a person; an adapter needs the token of an agent"):
        await asyncio.wait_for(Adapter(fake.url, "t").serve(), 10)


async def test_the_token_of_a_person_is_an_error_without_a_gateway_too(fake: Fake) -> None:
    fake.refuse["invocations"] = fake.refuse["claim"] = [problem(403, "forbidden")]
    with pytest.raises(Problem, match="forbidden"):
        await asyncio.wait_for(Adapter(fake.url, "t", use_gateway=False).serve(), 10)


async def test_work_can_be_written_in_a_subclass(fake: Fake) -> None:
    class Echo(Adapter):
        async def work(self, run: RunHandle) -> str:
            return run.prompt

    adapter = Echo(fake.url, "t", model="echo")
    serving = asyncio.create_task(adapter.serve())
    assert (await ended(fake, fake.invoke("Hello")))["summary"] == "Hello"
    adapter.leave()
    await asyncio.wait_for(serving, 10)
