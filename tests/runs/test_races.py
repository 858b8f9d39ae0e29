"""Many at once, from two processes' worth of lanes: what must hold whoever comes first."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from db import Database
from tests.runs.stage import Outcome, Stage

GENERAL = "Support/General"


@pytest_asyncio.fixture
async def other(stage: Stage) -> AsyncIterator[Database]:
    """A second process' way to the same database."""
    database = Database(stage.dsn)
    await database.start()
    yield database
    await database.stop()


def active(stage: Stage, thread: str) -> int:
    return sum(run["finished_at"] is None for run in stage.runs(thread))


async def test_twenty_messages_open_one_run(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", GENERAL)
    posts = [stage.post("alex", thread, db=other if n % 2 else None) for n in range(20)]
    found = [outcome.body async for outcome in _as_they_come(stage, thread, posts)]
    assert active(stage, thread) == len(stage.runs(thread)) == 1
    states = sorted(message["trigger_state"] for message in found)
    assert states == ["failed"] * 16 + ["received"] * 4  # the run, three follow-ups, and the limit
    assert {message.get("trigger_state_reason") for message in found} == {None, "followup_limit"}


async def _as_they_come(stage: Stage, thread: str, posts: list) -> AsyncIterator[Outcome]:  # type: ignore[type-arg]
    for finished in asyncio.as_completed(posts):
        yield await finished
        listed = (await stage.read("list_thread_runs", "alex", thread_id=thread)).body["items"]
        assert len([run for run in listed if "finished_at" not in run]) <= 1


async def test_one_key_makes_one_message_and_one_run(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", GENERAL)
    body = {"body": "hello", "client_msg_id": str(uuid.uuid4())}
    stage.mark()
    outcomes = await asyncio.gather(
        *[
            stage.write("create_message", "alex", other if n % 2 else None, thread_id=thread, body=body)
            for n in range(30)
        ]
    )
    assert {(outcome.code, outcome.body["id"]) for outcome in outcomes} == {("created", outcomes[0].body["id"])}
    assert stage.written() == {"messages": 2, "runs": 1, "events": 4}


async def test_message_at_the_moment_of_the_end(stage: Stage, other: Database) -> None:
    thread = await stage.thread("owner", GENERAL)
    await stage.say("alex", thread)
    for _ in range(200):
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        finished, posted = await asyncio.gather(stage.finish(work), stage.post("alex", thread, db=other))
        assert (finished.code, posted.body["trigger_state"]) == ("ok", "received")
        runs = stage.runs(thread)
        assert [run["state"] for run in runs[:-1]] == ["completed"] * (len(runs) - 1)
        # Accepted once: it opened the next run, as a follow-up that was promoted or by itself.
        assert (runs[-1]["state"], runs[-1]["triggering_message_id"]) == ("queued", posted.body["id"])
        assert len([run for run in runs if run["triggering_message_id"] == posted.body["id"]]) == 1


async def test_claims_at_once_hand_each_run_to_one(stage: Stage, other: Database) -> None:
    for _ in range(10):
        await stage.queued()
    outcomes = await asyncio.gather(
        *[
            stage.write(
                "claim_invocations", "lotse", other if n % 2 else None, body={"claim_id": str(uuid.uuid4()), "limit": 3}
            )
            for n in range(8)
        ]
    )
    handed = [item["run"]["id"] for outcome in outcomes for item in outcome.body["items"]]
    assert len(handed) == len(set(handed)) == 10


async def test_cancel_and_finish_at_once_tell_the_truth(stage: Stage, other: Database) -> None:
    for _ in range(50):
        message, work = await stage.working()
        cancelled, finished = await asyncio.gather(
            stage.write("cancel_run", "alex", other, run_id=work.run_id), stage.finish(work)
        )
        (run,) = stage.runs(message["thread_id"])
        assert (finished.code, run["state"]) == ("ok", "completed")
        if cancelled.code == "accepted":
            assert run["cancel_outcome"] == "lost_to_completed"
        else:
            assert (cancelled.code, run["cancel_outcome"]) == ("run_ended", None)


async def test_two_ends_at_once_have_one_winner(stage: Stage, other: Database) -> None:
    for _ in range(50):
        message, work = await stage.working()
        stage.mark()
        completed, failed = await asyncio.gather(
            stage.finish(work),
            stage.write(
                "finish_run", "lotse", other, run_id=work.run_id, invocation=work.invocation,
                body={"state": "failed", "reason": "runtime_error"},
            ),
        )  # fmt: skip
        (run,) = stage.runs(message["thread_id"])
        assert sorted([completed.code, failed.code]) == ["ok", "run_ended"]
        assert run["state"] == ("completed" if completed.code == "ok" else "failed")
        assert len([kind for kind in stage.event_types() if kind.startswith("run.state_changed")]) == 1


@pytest.mark.parametrize("state", ["queued", "running", "waiting_input", "completed", "failed", "cancelled"])
async def test_all_views_agree(stage: Stage, state: str) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    answer = None
    if state != "queued":
        answer = (await stage.start(work)).body
    if state == "waiting_input":
        stage.wait(work.run_id)
    elif state == "cancelled":
        await stage.cancel("alex", work.run_id)
        answer = (await stage.finish(work, "cancelled")).body
    elif state in ("completed", "failed"):
        answer = (await stage.finish(work, state, **({"reason": "runtime_error"} if state == "failed" else {}))).body
    document = (await stage.run("alex", work.run_id)).body
    assert document["state"] == state
    if answer is not None and state != "waiting_input":
        assert answer == document
    (of_thread,) = (await stage.read("list_thread_runs", "alex", thread_id=message["thread_id"])).body["items"]
    listed = (await stage.read("list_active_runs", "alex")).body["items"]
    snapshot = (await stage.read("get_snapshot", "alex")).body["active_runs"]
    shown = {**document, "cancel_requested_at": document.get("cancel", {}).get("requested_at")}
    assert of_thread == {name: shown[name] for name in of_thread}
    assert listed == snapshot == ([of_thread] if "finished_at" not in document else [])
    if state != "waiting_input":  # which is reached here by its row alone
        page = (await stage.read("list_events", "alex", after=0, limit=1000)).body["items"]
        last = [event for event in page if event["type"].startswith("run.")][-1]
        assert last["payload"]["run"] == of_thread
        assert last["resource"]["version"] == document["version"]


@pytest.mark.parametrize("state", ["queued", "running", "waiting_input"])
async def test_cancel_in_odd_places(stage: Stage, state: str) -> None:
    """The message is deleted, the agent disabled, and nobody ever claimed it or the holder is gone."""
    message = await stage.queued()
    run = stage.runs(message["thread_id"])[0]["id"]
    if state != "queued":
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        if state == "waiting_input":
            stage.wait(run)
    await stage.write("delete_message", "alex", message_id=message["id"])
    stage.disable("lotse")
    outcome = await stage.cancel("alex", run)
    assert outcome.code == ("accepted" if state == "running" else "ok")
    assert outcome.body["state"] == ("running" if state == "running" else "cancelled")
