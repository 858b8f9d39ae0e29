"""An agent that may no longer work where its run is goes on holding it, and is told nothing that is said there."""

from __future__ import annotations

from tests.runs.changes import move, revoke, status
from tests.runs.stage import Stage, Work


async def taken(stage: Stage) -> tuple[str, Work]:
    """Texter, a guest in Escalation, works and has taken a follow-up: that message, and the work."""
    message, work = await stage.working("alex", "Support/Escalation", "texter")
    followup = await stage.say("alex", message["thread_id"], "texter")
    assert (await stage.control("ack_followup", work, message_id=followup["id"])).code == "ok"
    return str(followup["id"]), work


async def held(stage: Stage, work: Work) -> list[dict[str, object]]:
    """The messages that a repeat of the claim tells."""
    (again,) = await stage.claim("texter", work.invocation["claim_id"])
    return list(again.item["messages"])


async def test_while_it_may_work_there_a_repeat_tells_all(stage: Stage) -> None:
    followup, work = await taken(stage)
    assert followup in {message["id"] for message in await held(stage, work)}
    assert (await stage.control("ack_followup", work, message_id=followup)).body["message"]["id"] == followup


async def test_moved_out_of_its_sight(stage: Stage) -> None:
    followup, work = await taken(stage)
    await move(stage, stage.row(work.run_id)["thread_id"], "Support/General")
    assert await held(stage, work) == []
    listed = await stage.read("list_run_followups", "texter", run_id=work.run_id)
    assert [set(item) for item in listed.body["items"]] == [{"followup"}]
    assert set((await stage.control("ack_followup", work, message_id=followup)).body) == {"followup"}


async def test_grant_revoked(stage: Stage) -> None:
    _, work = await taken(stage)
    await revoke(stage, "texter", channel_id=stage.world.channels["Support/Escalation"])
    assert await held(stage, work) == []


async def test_thread_deleted(stage: Stage) -> None:
    _, work = await taken(stage)
    await stage.write("delete_thread", "owner", thread_id=stage.row(work.run_id)["thread_id"])
    assert (await stage.read("list_run_followups", "texter", run_id=work.run_id)).code == "not_found"


async def test_answer_of_somebody_disabled_is_not_handed_over_by_a_repeat(stage: Stage) -> None:
    message, work = await stage.working("owner")
    await stage.control("await_run_input", work, {"prompt": "Which week?"})
    answer = await stage.say("alex", message["thread_id"])
    assert answer["trigger_state"] == "received"
    await status(stage, "alex", "disabled")
    (again,) = await stage.claim("lotse", work.invocation["claim_id"])
    assert [told["id"] for told in again.item["messages"]] == [message["id"]]
    assert stage.message(answer["id"])["trigger_state"] == "failed"
