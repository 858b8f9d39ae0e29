"""Questions to people and what they write meanwhile, over lost pushes, lost answers and lost processes."""

from __future__ import annotations

import pytest

from livebox.client import RunHandle, RunLost
from tests.client.fake import Fake, when
from tests.client.scene import at_work, ended

pytestmark = pytest.mark.usefixtures("quick")


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
