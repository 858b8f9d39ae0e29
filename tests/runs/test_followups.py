"""What becomes of follow-ups when their run ends: promoted, carried over or returned, never lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.stage import Stage, Work


async def busy(stage: Stage, count: int, who: str = "alex") -> tuple[str, Work, list[dict[str, Any]]]:
    """A running run with follow-ups: its thread, the work and their messages."""
    message, work = await stage.working("owner")
    sent = [await stage.say(who, message["thread_id"]) for _ in range(count)]
    return message["thread_id"], work, sent


def followups(stage: Stage, run: str) -> list[tuple[str, int, str]]:
    rows = stage.sql("SELECT * FROM livebox.run_followups WHERE run_id = %s ORDER BY position", run)
    return [(row["message_id"], row["position"], row["state"]) for row in rows]


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_first_is_promoted_and_the_rest_follow(stage: Stage, end: str) -> None:
    thread, work, sent = await busy(stage, 3)
    if end == "cancelled":
        await stage.cancel("owner", work.run_id)
    stage.mark()
    await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    old, new = stage.runs(thread)
    assert (old["state"], new["state"]) == (end, "queued")
    assert (new["triggering_message_id"], new["triggered_by"]) == (sent[0]["id"], stage.id("alex"))
    assert new["queued_at"] >= old["finished_at"]
    assert followups(stage, old["id"]) == [(m["id"], n, "promoted") for n, m in enumerate(sent, start=1)]
    assert followups(stage, new["id"]) == [(m["id"], n, "pending") for n, m in enumerate(sent[1:], start=1)]
    assert new["version"] == 3
    assert [stage.message(m["id"])["trigger_state"] for m in sent] == ["received"] * 3
    trigger = "done" if end == "completed" else end
    # received is on the messages already, so promoting says nothing of them
    assert stage.event_types() == [
        f"run.state_changed {end}",
        f"message.updated {trigger}",
        "message.created run",
        "run.state_changed queued",
    ]


async def test_whole_queue_is_worked_off_in_order(stage: Stage) -> None:
    thread, work, sent = await busy(stage, 2)
    await stage.finish(work)
    for message in sent:
        (work,) = await stage.claim("lotse")
        assert [m["id"] for m in work.item["messages"]] == [message["id"]]
        await stage.start(work)
        await stage.finish(work)
    assert [run["state"] for run in stage.runs(thread)] == ["completed"] * 3
    assert [stage.message(m["id"])["trigger_state"] for m in sent] == ["done", "done"]


async def test_denied_is_returned_and_the_next_goes_on(stage: Stage) -> None:
    thread, work, (denied,) = await busy(stage, 1, "alex")
    allowed = await stage.say("owner", thread)
    stage.sql(
        "UPDATE livebox.grants SET level = 'read', version = version + 1 WHERE principal_id = %s", stage.id("alex")
    )
    stage.mark()
    await stage.finish(work)
    old, new = stage.runs(thread)
    assert followups(stage, old["id"]) == [(denied["id"], 1, "returned"), (allowed["id"], 2, "promoted")]
    assert new["triggering_message_id"] == allowed["id"]
    stored = stage.message(denied["id"])
    assert (stored["trigger_state"], stored["trigger_state_reason"]) == ("failed", "no_trigger_right")


async def test_all_denied_opens_nothing(stage: Stage) -> None:
    thread, work, sent = await busy(stage, 2)
    stage.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stage.id("alex"))
    await stage.finish(work)
    assert len(stage.runs(thread)) == 1
    assert [state for _, _, state in followups(stage, work.run_id)] == ["returned", "returned"]
    assert {stage.message(m["id"])["trigger_state_reason"] for m in sent} == {"access_revoked"}


async def end_by_server(stage: Stage, run: str, state: str, reason: str) -> None:
    stage.sql(
        "SELECT livebox.transition_run(r, %s, %s, 'server', NULL, '{}', '{}') FROM livebox.runs r WHERE r.id = %s",
        state, reason, run,
    )  # fmt: skip


async def test_agent_that_is_not_there_returns_them_all(stage: Stage) -> None:
    message = await stage.queued("owner")
    sent = [await stage.say("alex", message["thread_id"]) for _ in range(2)]
    (run,) = stage.runs(message["thread_id"])
    await end_by_server(stage, run["id"], "failed", "agent_unavailable")
    assert len(stage.runs(message["thread_id"])) == 1
    assert [state for _, _, state in followups(stage, run["id"])] == ["returned", "returned"]
    assert {stage.message(m["id"])["trigger_state_reason"] for m in sent} == {"agent_unavailable"}


@pytest.mark.parametrize(
    ("state", "reason", "promoted"),
    [("failed", "stale", True), ("failed", "interrupted", True), ("failed", "adapter_error", True),
     ("failed", "budget_exhausted", False), ("cancelled", "cancel_timeout", False)],
)  # fmt: skip
async def test_taken_ones_are_done_with_the_work_unless_it_was_lost(
    stage: Stage, state: str, reason: str, promoted: bool
) -> None:
    thread, work, (taken,) = await busy(stage, 1)
    stage.sql("UPDATE livebox.run_followups SET state = 'delivered'")
    await end_by_server(stage, work.run_id, state, reason)
    assert len(stage.runs(thread)) == (2 if promoted else 1)
    stored = stage.message(taken["id"])
    if promoted:
        assert stored["trigger_state"] == "received"
    else:
        assert (stored["trigger_state"], stored["trigger_state_reason"]) == (state, reason)


async def test_deleted_message_is_no_followup_any_more(stage: Stage) -> None:
    thread, work, (deleted, kept) = await busy(stage, 2)
    version = stage.runs(thread)[0]["version"]
    assert (await stage.write("delete_message", "alex", message_id=deleted["id"])).code == "ok"
    assert followups(stage, work.run_id) == [(deleted["id"], 1, "cancelled"), (kept["id"], 2, "pending")]
    assert stage.runs(thread)[0]["version"] == version + 1
    await stage.finish(work)
    assert stage.runs(thread)[1]["triggering_message_id"] == kept["id"]


@pytest.mark.parametrize("reason", ["runtime_error", "because", "followup_limit"])
async def test_server_may_not_give_any_reason(stage: Stage, reason: str) -> None:
    message = await stage.queued()
    (before,) = stage.runs(message["thread_id"])
    stage.mark()
    with pytest.raises(Exception, match="may not give") as raised:
        await end_by_server(stage, before["id"], "failed", reason)
    assert raised.value.pgcode == "LB121"  # type: ignore[attr-defined]
    assert stage.written() == {}
    assert stage.runs(message["thread_id"]) == [before]
