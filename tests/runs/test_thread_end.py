"""A thread that is deleted takes its active run with it: nobody could end that one any more."""

from __future__ import annotations

import pytest

from tests.runs.stage import Stage


async def delete(stage: Stage, thread: str) -> list[dict[str, object]]:
    """deleteThread as the owner: what is to be counted."""
    outcome = await stage.write("delete_thread", "owner", thread_id=thread)
    assert outcome.code == "no_content"
    return outcome.effects


async def test_running_run_ends_with_its_thread(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.step(work)
    thread = message["thread_id"]
    stage.mark()
    (effect,) = await delete(stage, thread)
    (run,) = stage.runs(thread)
    assert (run["state"], run["state_reason"], run["state_changed_by"]) == (
        "cancelled",
        "thread_deleted",
        stage.id("owner"),
    )
    assert (effect["from"], effect["to"], effect["reason"]) == ("running", "cancelled", "thread_deleted")
    assert stage.event_types() == ["run.state_changed cancelled", "message.updated cancelled", "thread.deleted"]
    stored = stage.message(message["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("cancelled", "thread_deleted")
    (step,) = stage.sql("SELECT status FROM livebox.run_steps")
    assert step["status"] == "cancelled"
    assert (await stage.finish(work)).code == "run_ended"
    assert await stage.claim("lotse", work.invocation["claim_id"]) == []


@pytest.mark.parametrize("waits", [False, True])
async def test_run_that_waits_ends_with_its_thread(stage: Stage, waits: bool) -> None:
    message = await stage.queued()
    (work,) = await stage.claim("lotse")
    if waits:
        await stage.start(work)
        stage.wait(work.run_id)
    await delete(stage, message["thread_id"])
    assert [run["state_reason"] for run in stage.runs(message["thread_id"])] == ["thread_deleted"]
    assert await stage.claim("lotse") == []


async def test_its_follow_ups_are_returned(stage: Stage) -> None:
    message, _ = await stage.working()
    thread = message["thread_id"]
    later = [await stage.say("alex", thread) for _ in range(2)]
    await delete(stage, thread)
    assert len(stage.runs(thread)) == 1
    for follow_up in later:
        stored = stage.message(follow_up["id"])
        assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("failed", "thread_deleted")
    assert [row["state"] for row in stage.sql("SELECT state FROM livebox.run_followups")] == ["returned", "returned"]


async def test_message_in_the_main_thread_says_what_became_of_its_run(stage: Stage) -> None:
    message = await stage.say("alex", "Support/General", "lotse")
    (run,) = stage.sql("SELECT * FROM livebox.runs")
    await delete(stage, str(run["thread_id"]))
    shown = await stage.read("get_message", "alex", message_id=message["id"])
    assert (shown.body["trigger_state"], shown.body["trigger_state_reason"]) == ("cancelled", "thread_deleted")


async def test_ended_run_stays_as_it_ended(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.finish(work)
    stage.mark()
    assert await delete(stage, message["thread_id"]) == []
    assert stage.event_types() == ["thread.deleted"]
    assert [run["state"] for run in stage.runs(message["thread_id"])] == ["completed"]
