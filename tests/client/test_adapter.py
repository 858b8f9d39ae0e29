"""An adapter against a server that has bad days: every run is ended once, and shown as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from livebox.client import Adapter, GatewayRefused, Pace, RunHandle, RunLost, WorkFailed
from livebox.client import gateway as gateway_module
from livebox.client import patches as patches_module
from livebox.client import working as working_module
from livebox.client.pauses import Pauses
from tests.client.fake import Fake, problem, serving, when

QUICK = Pace(heartbeat=0.05, patch=0.0, unwatched=3600.0, grace=0.5)
Work = Callable[[RunHandle], Awaitable[Any]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    for module in (gateway_module, working_module, patches_module):
        monkeypatch.setattr(module, "Pauses", lambda **_: Pauses(0.001, 0.01))


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


async def test_a_conflict_is_healed_from_its_document(fake: Fake) -> None:
    changed = asyncio.Event()

    async def work(run: RunHandle) -> str:
        run.headline = "One"
        await run.flush()
        fake.change(run.id, [{"op": "add", "path": "/stalled_since", "value": "x"}], by=300)
        run.headline = "Two"
        await run.flush()
        changed.set()
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["headline"] == "Two"
    assert fake.calls["conflict"] >= 1
    assert changed.is_set()


async def test_live_content_that_the_server_lost_is_sent_again(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        run.headline = "Kept"
        run.plan.item("one", "First")
        await run.flush()
        old = {name: value for name, value in fake.runs[run.id].items() if name not in ("headline", "plan")}
        fake.runs[run.id] = {**old, "version": old["version"] + 256}
        run.plan.item("one", status="done")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert (run["headline"], run["plan"]["items"]["one"]["status"]) == ("Kept", "done")


@pytest.mark.parametrize(
    "refused",
    [
        problem(409, "live_elsewhere", retry_after_ms=1),
        problem(429, "rate_limited", retry_after_ms=1),
        problem(503, "unavailable"),
        problem(
            400, "validation_failed", errors=[{"code": "patch_target_missing", "message": "x", "pointer": "/ops/0"}]
        ),
        problem(409, "version_conflict"),
    ],
    ids=lambda refused: refused["code"] + ("!" if "errors" in refused else ""),
)
async def test_a_patch_that_is_refused_for_now_is_made_again(fake: Fake, refused: dict[str, Any]) -> None:
    fake.refuse["run.update"] = [refused, refused]
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)


async def test_what_the_server_will_not_have_is_left_out_and_the_rest_is_shown(fake: Fake) -> None:
    patch = fake.patch

    def picky(run_id: str, token: str, frame: dict[str, Any]) -> int:
        if any(op["path"].startswith("/metrics") for op in frame["ops"]):
            fake.refuse["run.update"] = [problem(400, "validation_failed")]
        return patch(run_id, token, frame)

    async def refusing(session: Any, frame: dict[str, Any]) -> dict[str, Any]:
        if frame["type"] == "run.update" and any("/metrics" in op["path"] for op in frame["ops"]):
            fake.refuse["run.update"] = [problem(400, "validation_failed")]
        return await answer(session, frame)

    answer = fake.answer
    fake.answer = refusing  # type: ignore[method-assign]

    async def work(run: RunHandle) -> str:
        run.metrics(context_used_percent=150)
        run.headline = "Shown"
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["headline"] == "Shown"
    assert "metrics" not in run


async def test_nothing_is_sent_while_nobody_looks_but_the_last_state_is(fake: Fake) -> None:
    fake.watched = False
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched is False)
        for number in range(50):
            run.headline = f"Number {number}"
            await asyncio.sleep(0)
        await go_on.wait()
        return "Done."

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.calls["heartbeat"] > 3)
        assert fake.calls["patch"] <= 1
        go_on.set()
        assert (await ended(fake, run))["headline"] == "Number 49"


async def test_who_begins_to_look_sees_what_is_now(fake: Fake) -> None:
    fake.watched = False
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched is False)
        run.headline = "First"
        await when(lambda: "headline" in fake.runs[run.id])
        run.headline = "Second"
        await go_on.wait()
        return "Done."

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]].get("headline") == "First")
        await (await fake.session()).send({"type": "run.watched", "run_id": run["id"], "watched": True})
        await when(lambda: fake.runs[run["id"]].get("headline") == "Second")
        go_on.set()
        await ended(fake, run)


async def test_many_changes_are_few_patches(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        for _ in range(500):
            run.text.append("word ")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["text"]["content"] == "word " * 500
    assert fake.calls["patch"] < 10


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


async def test_several_runs_go_at_once(fake: Fake) -> None:
    together = asyncio.Barrier(3)

    async def work(_: RunHandle) -> str:
        await together.wait()
        return "Done."

    async with at_work(fake, work, concurrency=3):
        await fake.session()
        runs = [fake.invoke() for _ in range(3)]
        for run in runs:
            assert (await ended(fake, run))["state"] == "completed"
    assert fake.frames[0]["capabilities"] == {"invocations": 3}


async def test_a_run_that_is_handed_out_twice_is_worked_on_once(fake: Fake) -> None:
    go_on = asyncio.Event()
    begun = 0

    async def work(_: RunHandle) -> str:
        nonlocal begun
        begun += 1
        await go_on.wait()
        return "Done."

    async with at_work(fake, work, concurrency=2):
        run = fake.invoke()
        await when(lambda: begun)
        fake.tokens[run["id"]] = "newer"
        fake.queue = [fake.invocation(fake.runs[run["id"]])]
        await fake.hand_out()
        await when(lambda: not fake.queue)
        go_on.set()
        assert (await ended(fake, run))["state"] == "completed"
    assert (begun, fake.calls["start"], fake.calls["finish"]) == (1, 1, 1)


async def asks(run: RunHandle) -> str:
    answer = await run.ask("Which one?", choices={"a": "The first", "b": "The second"})
    return f"{answer.choice}: {answer}"


@pytest.mark.parametrize("pushed", [True, False])
async def test_a_question_waits_for_its_answer(fake: Fake, pushed: bool) -> None:
    async with at_work(fake, asks):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
        assert fake.runs[run["id"]]["question"]["prompt"] == "Which one?"
        await fake.follow_up(run["id"], "the SECOND", push=pushed)
        run = await ended(fake, run)
    assert run["summary"] == "b: the SECOND"
    assert (fake.calls["await"], fake.calls["resume"]) == (1, 1)


@pytest.mark.parametrize("lost", ["await-input", "ack", "resume", "followups"])
async def test_a_question_whose_answers_are_lost_is_asked_once(fake: Fake, lost: str) -> None:
    async with at_work(fake, asks):
        await fake.session()
        run = fake.invoke()
        await when(lambda: not fake.queue)
        fake.lose = [lost]
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
        await fake.follow_up(run["id"], "a")
        run = await ended(fake, run)
    assert run["summary"] == "a: a"
    assert (fake.calls["await"], fake.calls["resume"], fake.calls["finish"]) == (1, 1, 1)


async def test_two_answers_are_given_in_order_and_the_run_goes_on_once(fake: Fake) -> None:
    async with at_work(fake, asks):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
        await fake.follow_up(run["id"], "one", push=False)
        await fake.follow_up(run["id"], "two")
        run = await ended(fake, run)
    assert run["summary"] == "None: one\ntwo"
    assert fake.calls["resume"] == 1


async def test_what_came_before_the_question_is_no_answer(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        await fake.follow_up(run.id, "before", push=False)
        answer = await run.ask("Which one?")
        return f"{answer}; {(await anext(run.followups()))['body']}"

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
        await fake.follow_up(run["id"], "after")
        run = await ended(fake, run)
    assert run["summary"] == "after; before"


async def test_a_resumed_run_gets_the_answer_without_asking_again(fake: Fake) -> None:
    question = {"prompt": "Which one?", "asked_at": "2026-11-02T09:30:00.000000Z"}
    async with at_work(fake, asks):
        await fake.session()
        run = fake.run("waiting_input", question=question)
        fake.tokens[run["id"]] = "fresh"
        await fake.follow_up(run["id"], "b", push=False)
        fake.queue = [fake.invocation(run, kind="resume")]
        await fake.hand_out()
        run = await ended(fake, run)
    assert run["summary"] == "b: b"
    assert (fake.calls["start"], fake.calls["await"], fake.calls["resume"]) == (0, 0, 1)


async def test_a_waiting_run_is_left_to_another_process(fake: Fake) -> None:
    async with at_work(fake, asks):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
    assert fake.ends[run["id"]] == []
    assert fake.runs[run["id"]]["state"] == "waiting_input"


async def test_followups_are_taken_one_by_one(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        got = []
        async for message in run.followups():
            got.append(message["body"])
            if len(got) == 2:
                break
        return ", ".join(got)

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "running")
        await fake.follow_up(run["id"], "first", push=False)  # a heartbeat tells
        await fake.follow_up(run["id"], "second")
        assert (await ended(fake, run))["summary"] == "first, second"
    assert {each["followup"]["state"] for each in fake.followups[run["id"]]} == {"delivered"}


async def test_without_a_gateway_it_asks_for_work(fake: Fake) -> None:
    fake.gateway = False
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)
    async with at_work(fake, shows, use_gateway=False):
        assert_shown(await ended(fake, fake.invoke()))


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


async def test_a_token_that_is_refused_ends_it(fake: Fake) -> None:
    fake.hello_problem = (problem(401, "invalid_token"), 4501)
    adapter = Adapter(fake.url, "t")
    with pytest.raises(GatewayRefused) as refused:
        await asyncio.wait_for(adapter.serve(), 10)
    assert refused.value.code == 4501


async def test_work_can_be_written_in_a_subclass(fake: Fake) -> None:
    class Echo(Adapter):
        async def work(self, run: RunHandle) -> str:
            return run.prompt

    adapter = Echo(fake.url, "t", model="echo")
    serving = asyncio.create_task(adapter.serve())
    assert (await ended(fake, fake.invoke("Hello")))["summary"] == "Hello"
    adapter.leave()
    await asyncio.wait_for(serving, 10)


async def test_a_token_is_renewed_before_it_expires(fake: Fake) -> None:
    fake.expires_at = "2026-01-01T00:00:00.000000Z"
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await go_on.wait()
        return await shows(run)

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.calls["renew"])
        go_on.set()
        assert_shown(await ended(fake, run))
    assert fake.calls["renew"] == 1


@pytest.mark.parametrize("how", ["expired", "renewed"])
async def test_a_token_that_is_no_longer_taken_is_replaced(fake: Fake, how: str) -> None:
    async def work(run: RunHandle) -> str:
        if how == "expired":
            fake.expired.add(fake.tokens[run.id])
        summary = await shows(run)
        if how == "renewed":  # another request of ours has a newer one by now
            fake.renewed.add(fake.tokens[run.id])
            newer = fake.tokens[run.id] = "newer"
            run._holder.token, stale = newer, run._holder.token
            assert stale != newer
        return summary

    async with at_work(fake, work):
        assert_shown(await ended(fake, fake.invoke()))
    assert fake.calls["finish"] == 1


async def test_a_token_that_cannot_be_renewed_is_the_end(fake: Fake) -> None:
    told: list[BaseException] = []

    async def work(run: RunHandle) -> str:
        fake.expired.add(fake.tokens[run.id])
        fake.tokens[run.id] = "another's"
        try:
            async with run.step("tool", "x"):
                pass
        except (RunLost, asyncio.CancelledError) as lost:  # whether the step or a heartbeat found out first
            told.append(lost)
            raise
        return "Never."

    async with at_work(fake, work) as adapter:
        run = fake.invoke()
        await when(lambda: told and not adapter.working)
    assert fake.ends[run["id"]] == []


async def test_a_claim_whose_answer_was_lost_is_repeated_with_its_id(fake: Fake) -> None:
    fake.gateway = False
    claims: list[str] = []
    rest = fake.rest

    async def noted(request: Any, operation: str, token: str, body: Any) -> tuple[int, Any]:
        if operation.endswith("/claim"):
            claims.append(body["claim_id"])
            if len(claims) == 1:
                fake.lose.append("claim")
        return await rest(request, operation, token, body)

    fake.rest = noted  # type: ignore[method-assign]
    async with at_work(fake, shows):
        await when(lambda: len(claims) > 3)
    assert claims[0] == claims[1] != claims[2] != claims[3]


async def test_without_a_gateway_it_takes_no_more_than_it_can(fake: Fake) -> None:
    fake.gateway = False
    limits: list[int] = []
    go_on = asyncio.Event()
    rest = fake.rest

    async def noted(request: Any, operation: str, token: str, body: Any) -> tuple[int, Any]:
        if operation.endswith("/claim"):
            limits.append(body["limit"])
        return await rest(request, operation, token, body)

    async def work(_: RunHandle) -> str:
        await go_on.wait()
        return "Done."

    fake.rest = noted  # type: ignore[method-assign]
    async with at_work(fake, work, concurrency=1) as adapter:
        run = fake.invoke()
        await when(lambda: adapter.working == 1)
        asked = len(limits)
        await when(lambda: fake.calls["heartbeat"] > 5)
        assert len(limits) == asked
        go_on.set()
        await ended(fake, run)
        await when(lambda: len(limits) > asked)
    assert set(limits) == {1}


async def test_who_leaves_takes_nothing_more(fake: Fake) -> None:
    begun = asyncio.Event()

    async def work(_: RunHandle) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            fake.invoke()
            await when(lambda: any(frame["type"] == "heartbeat" for frame in fake.frames))
        return "Never."

    async with at_work(fake, work, concurrency=2):
        fake.invoke()
        await begun.wait()
    assert fake.calls["start"] == 1
    assert len(fake.queue) == 1


async def test_content_that_is_no_json_does_not_keep_a_run_from_its_end(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        run.metrics(tool_calls=object())  # type: ignore[typeddict-item]
        return "Done."

    async with at_work(fake, work):
        assert (await ended(fake, fake.invoke()))["summary"] == "Done."


async def test_a_run_that_ends_while_it_asks_stops_the_work(fake: Fake) -> None:
    told: list[RunLost | None] = []

    async def work(run: RunHandle) -> str:
        try:
            await run.ask("Which one?")
        finally:
            told.append(run.lost)
        return "Never."

    async with at_work(fake, work) as adapter:
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]]["state"] == "waiting_input")
        fake.state(run["id"], "cancelled", state_reason="user_cancelled")
        await when(lambda: told and not adapter.working)
    assert told[0] is not None
    assert fake.ends[run["id"]] == []


async def test_what_a_resumed_run_was_told_before_its_process_died_is_the_answer(fake: Fake) -> None:
    question = {"prompt": "Which one?", "asked_at": "2026-11-02T09:30:00.000000Z"}
    async with at_work(fake, asks):
        await fake.session()
        run = fake.run("waiting_input", question=question)
        fake.tokens[run["id"]] = "fresh"
        invocation = fake.invocation(run, "Please", kind="resume")
        told = {**invocation["messages"][0], "body": "a", "trigger_state": "followup_delivered"}
        invocation["messages"] = [invocation["messages"][0], told]
        fake.queue = [invocation]
        await fake.hand_out()
        run = await ended(fake, run)
    assert run["summary"] == "a: a"


async def test_another_question_after_a_resumption_is_asked(fake: Fake) -> None:
    question = {"prompt": "An older one?", "asked_at": "2026-11-02T09:30:00.000000Z"}
    async with at_work(fake, asks):
        await fake.session()
        run = fake.run("waiting_input", question=question)
        fake.tokens[run["id"]] = "fresh"
        fake.queue = [fake.invocation(run, kind="resume")]
        await fake.hand_out()
        await when(lambda: fake.runs[run["id"]].get("question", {}).get("prompt") == "Which one?")
        await fake.follow_up(run["id"], "a")
        assert (await ended(fake, run))["summary"] == "a: a"
    assert (fake.calls["await"], fake.calls["resume"]) == (1, 2)
