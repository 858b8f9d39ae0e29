"""Work for agents comes from rows: to one session at a time, until it is acknowledged, and never twice in effect."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from db import Caller, Database, DatabaseUnavailable
from generated.validators import checker
from tests.fixtures.waiting import eventually
from tests.gateway.work_stand import Device, Stand, got, standing
from tests.runs.conftest import other, stage
from tests.runs.stage import Stage

__all__ = ["other", "stage"]


async def queued(stage: Stage, count: int = 1) -> list[str]:
    """New runs of lotse, by id."""
    messages = [await stage.queued() for _ in range(count)]
    return [stage.runs(message["thread_id"])[0]["id"] for message in messages]


def handed(*devices: Device) -> Counter[str]:
    return Counter(run for device in devices for run in device.runs())


# runs


async def test_a_run_goes_to_a_session_with_its_token(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        device = stand.device()
        await stand.turn()
        (frame,) = device.got
        assert checker("/messages/agent.invocation")(frame) == []
        assert device.runs() == [run]
        assert frame["claim_id"] == str(stage.row(run)["claim_id"])
        assert [message["body"] for message in frame["invocation"]["messages"]] == ["hello"]
        assert run in device.held
        assert (await stage.start(device.taken())).code == "ok"


@pytest.mark.parametrize(("said", "taken"), [(None, 1), (0, 0), (1, 1), (3, 3)])
async def test_a_session_gets_as_many_runs_as_it_takes(stage: Stage, said: int | None, taken: int) -> None:
    await queued(stage, 4)
    async with standing(stage) as stand:
        device = stand.device(invocations=said)
        for _ in range(3):
            await stand.turn()
        assert len(device.runs()) == taken
        device.invocations = 4
        stand.work.told(device)
        await stand.turn()
        assert len(set(device.runs())) == 4


async def test_an_ended_run_makes_room(stage: Stage) -> None:
    first, second = await queued(stage, 2)
    async with standing(stage) as stand:
        device = stand.device()
        await stand.turn()
        device.ack("invocation", first)
        await stage.start(device.taken())
        await stand.turn()
        assert device.runs() == [first]
        await stage.finish(device.taken())
        await stand.turn()
        assert device.runs() == [first, second]
        assert first not in device.held


async def test_a_run_that_waits_for_people_takes_no_room(stage: Stage) -> None:
    first, second = await queued(stage, 2)
    async with standing(stage) as stand:
        device = stand.device()
        await stand.turn()
        await stage.start(device.taken())
        await stage.ask(device.taken())
        await stand.turn()
        assert device.runs() == [first, second]


async def test_a_run_to_be_resumed_takes_room_until_it_has_arrived(stage: Stage) -> None:
    message, work = await stage.waiting()
    await stage.say("alex", message["thread_id"])
    stage.later(61)
    await queued(stage)
    async with standing(stage) as stand:
        device = stand.device()
        await stand.turn()
        await stand.turn()
        assert device.runs() == [work.run_id]
        assert device.got[0]["invocation"]["kind"] == "resume"


async def test_several_sessions_share_the_work(stage: Stage) -> None:
    runs = await queued(stage, 4)
    async with standing(stage) as stand:
        devices = [stand.device(invocations=2) for _ in range(2)]
        await stand.turn()
        assert [len(device.runs()) for device in devices] == [2, 2]
        assert handed(*devices) == Counter(runs)


async def test_the_work_of_another_agent_is_not_handed_out(stage: Stage) -> None:
    await queued(stage)
    async with standing(stage) as stand:
        device = stand.device("texter")
        await stand.turn()
        assert device.got == []


async def test_a_person_gets_no_work(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = Device(stand, "alex", None)
        device.kind = "person"
        stand.work.begun(device)
        await stand.turn()
        stand.work.ended(device)
        assert device.got == []


async def test_a_token_that_is_no_good_gets_nothing_and_costs_nothing(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        device = stand.device()
        device.caller = Caller(device.principal_id, "01933b7e-0000-7000-8000-00000000dead")
        await stand.turn()
        assert device.got == []
        assert stage.row(run)["claim_id"] is None


async def test_what_is_acknowledged_is_not_sent_again(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage, gateway__ack_timeout=0.1) as stand:
        device = stand.device()
        await stand.turn()
        device.ack("invocation", run)
        assert not stand.work._given
        device.close()
        late = stand.device()
        await stand.turn()
        assert late.got == []


async def test_what_is_not_acknowledged_is_sent_again_under_the_same_claim(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage, gateway__ack_timeout=0.1) as stand:
        device = stand.device()
        await stand.turn()

        async def again() -> bool:
            await stand.turn()
            return len(device.got) > 1

        await eventually(again, "the same again")
        assert device.got[0] == device.got[1]
        assert device.runs() == [run, run]


async def test_a_session_that_goes_leaves_it_to_the_next(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        first = stand.device()
        await stand.turn()
        second, third = stand.device(), stand.device()
        first.close()
        await stand.turn()
        assert second.got == first.got
        assert third.got == []
        assert run in second.held
        second.close()
        await stand.turn()
        assert third.got == first.got


async def test_a_session_that_does_not_answer_is_passed_over(stage: Stage) -> None:
    await queued(stage)
    async with standing(stage, gateway__ack_timeout=0.1) as stand:
        first = stand.device()
        await stand.turn()
        second = stand.device()

        async def passed() -> bool:
            await stand.turn()
            return bool(second.got)

        await eventually(passed, "the next session's turn")
        assert second.got[0] == first.got[0]
        assert not first.held


async def test_nobody_there_keeps_it_for_who_comes_back(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        first = stand.device()
        await stand.turn()
        first.close()
        await stand.turn()
        back = stand.device()
        await stand.turn()
        assert back.got == first.got
        assert run in back.held


async def test_nobody_there_for_long_leaves_it_to_its_lease(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage, run__claim_lease=1, gateway__poll_interval=0.05) as stand:
        first = stand.device()
        await stand.turn()
        first.close()

        async def forgotten() -> bool:
            await stand.turn()
            return not stand.work._given

        await eventually(forgotten, "the end of the lease")
        back = stand.device()

        async def anew() -> bool:
            await stand.turn()
            return bool(back.got)

        await eventually(anew, "the run")
        assert back.runs() == [run]
        assert back.got[0]["claim_id"] != first.got[0]["claim_id"]


async def test_a_run_that_ended_is_not_handed_on(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        first = stand.device()
        await stand.turn()
        await stage.cancel("alex", run)
        first.close()
        second = stand.device()
        await stand.turn()
        assert second.got == []


@pytest.mark.parametrize("told", [True, False])
async def test_a_run_that_was_started_is_not_handed_on(stage: Stage, told: bool) -> None:
    """Who started it has it, whether it said so or not, and whether the log has told of it yet or not."""
    await queued(stage)
    async with standing(stage) as stand:
        first = stand.device()
        await stand.turn()
        await stage.start(first.taken())
        second = stand.device()
        if told:
            await stand.turn()
        first.close()
        await (stand.turn() if told else stand.work.turn())
        assert second.got == []
        assert not stand.work._given


async def test_a_right_that_was_taken_keeps_it_from_the_next(stage: Stage) -> None:
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        first = stand.device()
        await stand.turn()
        stage.disable("alex")
        first.close()
        second = stand.device()
        await stand.turn()
        assert second.got == []
        assert stage.row(run)["state"] == "cancelled"


async def test_a_claim_whose_outcome_is_unknown_is_asked_for_again(stage: Stage) -> None:
    """Nothing is lost and nothing claimed twice when the database goes away under a claim."""
    (run,) = await queued(stage)
    async with standing(stage) as stand:
        device = stand.device(invocations=2)
        submit = stage.db.lane.submit

        async def lose(operation: str, caller: Caller, args: dict[str, Any]) -> Any:
            stage.db.lane.submit = submit  # type: ignore[method-assign]
            await submit(operation, caller, args)
            raise DatabaseUnavailable("the answer was lost")

        stage.db.lane.submit = lose  # type: ignore[method-assign]
        with pytest.raises(DatabaseUnavailable):
            await stand.turn()
        assert device.got == []
        await stand.turn()
        assert device.runs() == [run]
        assert device.got[0]["claim_id"] == str(stage.row(run)["claim_id"])


async def test_two_processes_hand_each_run_out_once(stage: Stage, other: Database) -> None:
    runs = await queued(stage, 6)
    async with standing(stage) as here, standing(stage, other) as there:
        devices = [here.device(invocations=4), there.device(invocations=4)]
        for _ in range(3):
            await here.turn()
            await there.turn()
        assert handed(*devices) == Counter(runs)


async def test_a_process_that_dies_leaves_its_runs_to_the_others(stage: Stage, other: Database) -> None:
    """It never says anything again: the lease of its claims ends."""
    (run,) = await queued(stage)
    async with standing(stage) as here, standing(stage, other) as there:
        lost, device = here.device(), there.device()
        await here.turn()
        await there.turn()
        assert device.got == []
        stage.later(61)
        await there.turn()
        assert device.runs() == lost.runs() == [run]
        assert (await stage.start(lost.taken())).code == "invocation_superseded"
        assert (await stage.start(device.taken())).code == "ok"


async def test_it_works_by_itself(stage: Stage) -> None:
    """Woken by the log: without waiting for the next look."""
    async with standing(stage, started=True) as stand:
        device = stand.device()
        (run,) = await queued(stage)
        await got(device, "agent.invocation")
        assert device.runs() == [run]


# requests to cancel


async def working(stage: Stage, stand: Stand, device: Device) -> str:
    """A run that the session works on."""
    (run,) = await queued(stage)
    await stand.turn()
    device.ack("invocation", run)
    assert (await stage.start(device.taken(-1))).code == "ok"
    await stand.turn()
    return run


async def test_who_holds_the_run_is_asked_to_stop(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        newer = stand.device()
        await stage.cancel("alex", run)
        await stand.turn()
        await stand.turn()
        (frame,) = device.frames("run.cancel_requested")
        assert checker("/messages/run.cancel_requested")(frame) == []
        assert frame["run_id"] == run
        assert newer.frames("run.cancel_requested") == []


async def test_without_a_holder_the_newest_session_is_and_each_that_comes(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    async with standing(stage) as stand:
        devices: list[Device] = []
        for _ in range(3):
            devices.append(stand.device())
            await stand.turn()
            await stand.turn()
        assert [len(device.frames("run.cancel_requested")) for device in devices] == [1, 1, 1]
        await stage.beat(work, cancel_seen=True)
        devices[-1].close()
        devices.append(stand.device())
        await stand.turn()
        assert len(devices[-1].frames("run.cancel_requested")) == 1, "until the end"
        await stage.finish(work, "cancelled", reason="user_cancelled")
        devices.append(stand.device())
        await stand.turn()
        assert devices[-1].frames("run.cancel_requested") == []


async def test_a_request_is_repeated_until_it_is_seen(stage: Stage) -> None:
    async with standing(stage, gateway__ack_timeout=0.1) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        await stage.cancel("alex", run)

        async def again() -> bool:
            await stand.turn()
            return len(device.frames("run.cancel_requested")) > 1

        await eventually(again, "the request again")
        device.ack("cancel", run)
        count = len(device.got)
        assert stand.work._told["cancel", run].sent == float("inf")
        await stand.turn()
        assert len(device.got) == count


# follow-ups


async def test_a_follow_up_goes_to_who_holds_the_run(stage: Stage) -> None:
    async with standing(stage) as stand:
        device, another = stand.device(), stand.device(invocations=0)
        run = await working(stage, stand, device)
        thread = str(stage.row(run)["thread_id"])
        message = await stage.say("alex", thread, "lotse", body="and this")
        await stand.turn()
        await stand.turn()
        (frame,) = device.frames("run.followup")
        assert checker("/messages/run.followup")(frame) == []
        assert frame["followup"]["message_id"] == message["id"]
        assert frame["message"]["body"] == "and this"
        assert another.got == []
        await stage.ack(device.taken(), message["id"])
        device.ack("followup", run, message_id=message["id"])
        device.close()
        device = stand.device()
        await stand.turn()
        assert device.frames("run.followup") == []


async def test_a_pending_follow_up_comes_again_to_the_next_holder(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        await stage.say("alex", str(stage.row(run)["thread_id"]), "lotse")
        await stand.turn()
        held = device.held[run]
        device.close()
        back = stand.device()
        await stand.turn()
        assert back.frames("run.followup") == []
        back.hold(held)
        await stand.turn()
        assert back.frames("run.followup") == device.frames("run.followup") != []


async def test_a_follow_up_is_repeated_until_it_is_taken(stage: Stage) -> None:
    async with standing(stage, gateway__ack_timeout=0.1) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        await stage.say("alex", str(stage.row(run)["thread_id"]), "lotse")

        async def again() -> bool:
            await stand.turn()
            return len(device.frames("run.followup")) > 1

        await eventually(again, "the follow-up again")


async def test_who_was_superseded_is_told_nothing(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = stand.device()
        (run,) = await queued(stage)
        await stand.turn()
        device.ack("invocation", run)
        device.invocations = 0
        stage.later(61)
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        await stage.say("alex", str(stage.row(run)["thread_id"]), "lotse")
        await stand.turn()
        assert device.frames("run.followup") == []
        assert run not in device.held


async def test_an_agent_that_may_not_read_there_gets_no_text(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        await stage.say("alex", str(stage.row(run)["thread_id"]), "lotse")
        stage.sql("UPDATE livebox.channels SET operator_agent_id = NULL, version = version + 1")
        await stand.turn()
        (frame,) = device.frames("run.followup")
        assert "message" not in frame


async def test_a_run_that_waits_for_an_answer_gets_it(stage: Stage) -> None:
    async with standing(stage) as stand:
        device = stand.device()
        run = await working(stage, stand, device)
        await stage.ask(device.taken())
        await stage.say("alex", str(stage.row(run)["thread_id"]), body="That one.")
        await stand.turn()
        (frame,) = device.frames("run.followup")
        assert frame["message"]["body"] == "That one."
        assert device.runs() == [run], "and is not handed out again"
