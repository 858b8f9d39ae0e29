"""Failures that people met in systems of this kind, each played through."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from db import Database
from tests.runs.stage import Stage, Work

STATES = ("queued", "running", "waiting_input", "completed", "failed", "cancelled")


async def brought_to(stage: Stage, state: str) -> tuple[dict[str, Any], Work, dict[str, Any]]:
    """A run in that state: its message, the work, and the answer of the operation that brought it there."""
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    answer: dict[str, Any] = work.item["run"]
    if state != "queued":
        answer = (await stage.start(work)).body
    if state == "waiting_input":
        answer = (await stage.ask(work)).body
    elif state == "completed":
        answer = (await stage.finish(work)).body
    elif state == "failed":
        answer = (await stage.finish(work, "failed", reason="runtime_error")).body
    elif state == "cancelled":
        await stage.cancel("alex", work.run_id)
        answer = (await stage.finish(work, "cancelled")).body
    return message, work, answer


@pytest.mark.parametrize("state", STATES)
async def test_all_views_say_the_same_at_the_same_version(stage: Stage, state: str) -> None:
    message, work, answer = await brought_to(stage, state)
    document = (await stage.run("alex", work.run_id)).body
    (listed,) = (await stage.read("list_thread_runs", "alex", thread_id=message["thread_id"])).body["items"]
    active = (await stage.read("list_active_runs", "alex")).body["items"]
    (event,) = stage.sql(
        "SELECT payload->'run' AS run FROM livebox.events WHERE resource_id = %s AND type LIKE 'run.%%'"
        " ORDER BY seq DESC LIMIT 1",
        work.run_id,
    )
    row = stage.row(work.run_id)
    views = [document, listed, event["run"], answer, row]
    assert {(view["state"], view["version"]) for view in views} == {(state, row["version"])}
    assert [run["id"] for run in active] == ([work.run_id] if row["finished_at"] is None else [])
    beat = await stage.beat(work)
    told = beat.body if beat.code == "ok" else beat.body["current"]
    assert (told["state"], told["version"]) == (state, row["version"])


@pytest.mark.parametrize("state", STATES)
async def test_duration_is_absent_or_real(stage: Stage, state: str) -> None:
    _, work, _ = await brought_to(stage, state)
    run = (await stage.run("alex", work.run_id)).body
    assert ("finished_at" in run) == (state in ("completed", "failed", "cancelled"))
    assert ("duration_ms" in run) == ("finished_at" in run)
    assert run.get("duration_ms", 0) >= 0


async def test_worker_that_went_silent_strands_no_thread(stage: Stage) -> None:
    message = await stage.queued()
    (dead,) = await stage.claim("lotse")
    assert (await stage.cancel("alex", dead.run_id)).code == "ok"
    again = await stage.say("alex", message["thread_id"])
    assert again["trigger_state"] == "received"
    for late in (await stage.start(dead), await stage.step(dead), await stage.finish(dead), await stage.beat(dead)):
        assert late.code == "run_ended"
    (new,) = await stage.claim("lotse")
    assert (await stage.start(new)).code == "ok"


async def test_cancelled_first_in_the_queue_lets_the_second_on(stage: Stage) -> None:
    message, work = await stage.working()
    first, second = [await stage.say("alex", message["thread_id"]) for _ in range(2)]
    await stage.write("delete_message", "alex", message_id=first["id"])
    await stage.finish(work)
    assert stage.runs(message["thread_id"])[1]["triggering_message_id"] == second["id"]


@pytest.mark.parametrize("odd", ["agent disabled", "message deleted", "never claimed", "person disabled", "many steps"])
async def test_cancel_in_odd_circumstances(stage: Stage, odd: str) -> None:
    message = await stage.queued()
    (run,) = stage.runs(message["thread_id"])
    if odd == "agent disabled":
        stage.disable("lotse")
    elif odd == "person disabled":
        stage.disable("alex")
    elif odd == "message deleted":
        await stage.write("delete_message", "alex", message_id=message["id"])
    elif odd == "many steps":
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        for _ in range(30):
            await stage.step(work)
        await stage.ask(work)
    outcome = await stage.cancel("owner", run["id"])
    assert (outcome.code, outcome.body["state"]) == ("ok", "cancelled")
    assert (await stage.run("owner", run["id"])).body["state"] == "cancelled"


async def test_cancel_of_a_queued_run_outlives_the_process(stage: Stage) -> None:
    message = await stage.queued()
    (run,) = stage.runs(message["thread_id"])
    assert (await stage.cancel("alex", run["id"])).code == "ok"
    again = Database(stage.dsn)
    await again.start()
    try:
        assert await stage.claim("lotse", db=again) == []
    finally:
        await again.stop()


async def test_cancel_between_two_attempts_of_a_worker(stage: Stage) -> None:
    message = await stage.queued()
    claim_id = str(uuid.uuid4())
    (work,) = await stage.claim("lotse", claim_id)
    await stage.cancel("alex", work.run_id)
    assert await stage.claim("lotse", claim_id) == []
    assert (await stage.beat(work)).code == "run_ended"
    assert (await stage.control("renew_invocation_token", work)).code == "run_ended"
    assert (await stage.say("alex", message["thread_id"]))["trigger_state"] == "received"


@pytest.mark.parametrize("first", ["cancel", "resume"])
async def test_waiting_run_is_cancelled_or_resumed_and_not_both(stage: Stage, other: Database, first: str) -> None:
    for _ in range(20):
        _, work = await stage.waiting()
        calls = [stage.cancel("alex", work.run_id, other), stage.resume(work)]
        found = await asyncio.gather(*(calls if first == "cancel" else reversed(calls)))
        cancelled, resumed = found if first == "cancel" else reversed(found)
        if cancelled.code == "ok":
            assert (resumed.code, stage.row(work.run_id)["cancel_outcome"]) == ("run_ended", "while_waiting")
        else:
            assert (cancelled.code, resumed.code) == ("accepted", "ok")
            assert (await stage.finish(work, "cancelled")).body["cancel"]["outcome"] == "acknowledged"


@pytest.mark.parametrize(
    "end", ["completed", "failed", "cancelled", "stale", "waiting, cancelled", "queued, cancelled"]
)
async def test_two_followups_outlive_every_end(stage: Stage, end: str) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    thread = message["thread_id"]
    if not end.startswith("queued"):
        await stage.start(work)
    if end.startswith("waiting"):
        await stage.ask(work)
    sent = [await stage.say("alex", thread) for _ in range(2)]
    if end.endswith("cancelled"):
        await stage.cancel("alex", work.run_id)
    if end == "stale":
        stage.sql(
            "SELECT livebox.transition_run(r, 'failed', 'stale', 'server', NULL, '{}', '{}') FROM livebox.runs r"
            " WHERE r.id = %s",
            work.run_id,
        )
    elif "," not in end:
        await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    _, run = stage.runs(thread)
    assert run["triggering_message_id"] == sent[0]["id"]
    assert stage.followups(run["id"]) == [(sent[1]["id"], "pending")]
    assert [stage.message(m["id"])["trigger_state"] for m in sent] == ["received", "received"]
