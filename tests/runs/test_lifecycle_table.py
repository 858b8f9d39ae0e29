"""Every operation of a run in every state: what is told, and that a refusal leaves every byte as it was."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from tests.runs.stage import Outcome, Stage, Work

# The columns: how a run can stand when its holder (or a person) asks for something.
STATES: Final = ("queued", "running", "asked", "followed", "waiting", "answered", "completed", "failed", "cancelled")
OK: Final = "ok"
MOVE: Final = "invalid_state_transition"
END: Final = "run_ended"
ENDED: Final = (END, END, END)

# 'asked' runs and is asked to stop; 'followed' runs and a follow-up waits; 'answered' waits and has an answer.
TABLE: Final[dict[str, tuple[str, ...]]] = {
    # operation           queued  running  asked  followed  waiting  answered  ended
    "start": (OK, OK, OK, OK, OK, OK, *ENDED),
    "start otherwise": (OK, MOVE, MOVE, MOVE, MOVE, MOVE, *ENDED),
    "heartbeat": (OK, OK, OK, OK, OK, OK, *ENDED),
    "cancel seen": (OK, OK, OK, OK, OK, OK, *ENDED),
    "renew": (OK, OK, OK, OK, OK, OK, *ENDED),
    "await": (MOVE, OK, OK, "followups_pending", OK, OK, *ENDED),
    "await otherwise": (MOVE, OK, OK, "followups_pending", MOVE, MOVE, *ENDED),
    "resume": (MOVE, MOVE, MOVE, MOVE, OK, OK, *ENDED),
    "ack": ("not_found", "not_found", "not_found", OK, "not_found", OK, *ENDED),
    "record step": (MOVE, OK, OK, OK, OK, OK, *ENDED),
    "update step": ("not_found",) * 6 + ENDED,
    "complete": (MOVE, OK, OK, OK, MOVE, MOVE, *ENDED),
    "fail": (OK, OK, OK, OK, OK, OK, *ENDED),
    "say cancelled": (OK, OK, OK, OK, OK, OK, *ENDED),
    "cancel": (OK, "accepted", "accepted", "accepted", OK, OK, END, END, OK),
}
# What a success makes of the state. A cancellation that nobody asked for is a failure of the adapter.
AFTER: Final[dict[str, tuple[str, ...]]] = {
    "start": ("running", "running", "running", "running", "waiting_input", "waiting_input"),
    "await": ("", "waiting_input", "cancelled", "", "waiting_input", "waiting_input"),
    "await otherwise": ("", "waiting_input", "cancelled", "", "", ""),
    "resume": ("", "", "", "", "running", "running"),
    "complete": ("", "completed", "completed", "completed", "", ""),
    "fail": ("failed",) * 6,
    "say cancelled": ("failed", "failed", "cancelled", "failed", "failed", "failed"),
    "cancel": ("cancelled", "running", "running", "running", "cancelled", "cancelled", "", "", "cancelled"),
}
FINISH: Final = {
    "complete": {"state": "completed"},
    "fail": {"state": "failed", "reason": "runtime_error"},
    "say cancelled": {"state": "cancelled"},
}


async def scene(stage: Stage, state: str) -> Work:
    """A run that stands so, held by its agent."""
    message = await stage.queued()
    (run,) = stage.runs(message["thread_id"])
    (work,) = [work for work in await stage.claim("lotse", limit=100) if work.run_id == run["id"]]
    if state == "queued":
        return work
    await stage.start(work)
    if state in ("asked", "cancelled"):
        await stage.cancel("alex", work.run_id)
    if state in ("waiting", "answered"):
        await stage.ask(work)
    if state in ("followed", "answered"):
        await stage.say("alex", message["thread_id"])
    if state in ("completed", "failed", "cancelled"):
        # Ended in other words than the table's, so that none of it is a repeat.
        await stage.finish(
            work, state, summary="before", **({"reason": "budget_exhausted"} if state == "failed" else {})
        )
    return work


def moves(stage: Stage, work: Work) -> dict[str, Callable[[], Awaitable[Outcome]]]:
    step = str(uuid.uuid4())
    waiting = [message for message, state in stage.followups(work.run_id) if state == "pending"]
    made: dict[str, Callable[[], Awaitable[Outcome]]] = {
        "start": lambda: stage.start(work),
        "start otherwise": lambda: stage.start(work, model="another"),
        "heartbeat": lambda: stage.beat(work),
        "cancel seen": lambda: stage.beat(work, cancel_seen=True),
        "renew": lambda: stage.control("renew_invocation_token", work),
        "await": lambda: stage.ask(work),
        "await otherwise": lambda: stage.ask(work, "Another?"),
        "resume": lambda: stage.resume(work),
        "ack": lambda: stage.ack(work, (waiting or [step])[0]),
        "record step": lambda: stage.step(work, step),
        "update step": lambda: stage.control("update_run_step", work, {"title": "x"}, step_id=step),
        "cancel": lambda: stage.cancel("alex", work.run_id),
    }
    for name, body in FINISH.items():
        made[name] = lambda body=body: stage.control("finish_run", work, body)  # type: ignore[misc]
    return made


def test_the_table_is_whole() -> None:
    assert {len(row) for row in TABLE.values()} == {len(STATES)}


@pytest.mark.parametrize("state", STATES)
async def test_what_is_told(stage: Stage, state: str) -> None:
    column = STATES.index(state)
    found: dict[str, str] = {}
    for operation, row in TABLE.items():
        work = await scene(stage, state)
        before = stage.image(work.run_id)
        version = stage.row(work.run_id)["version"]
        move = moves(stage, work)[operation]
        stage.mark()
        outcome = await move()
        found[operation] = outcome.code
        if outcome.code not in ("ok", "accepted"):
            assert stage.image(work.run_id) == before, operation
            assert stage.written() == {}, operation
            assert outcome.effects == []
            _explained(stage, work, outcome, version)
        elif operation in AFTER:
            assert stage.row(work.run_id)["state"] == AFTER[operation][column], operation
        assert row[column] == outcome.code, f"{operation} of a run that is {state}"
    assert found == {operation: row[column] for operation, row in TABLE.items()}


def _explained(stage: Stage, work: Work, outcome: Outcome, version: int) -> None:
    if outcome.code == "not_found":
        assert outcome.body is None
        return
    current: dict[str, Any] = outcome.body["current"]
    row = stage.row(work.run_id)
    assert (current["state"], current["version"]) == (row["state"], version)
    pairs = stage.sql("SELECT to_state FROM livebox.run_transitions WHERE from_state = %s", row["state"])
    assert current["allowed"] == sorted(pair["to_state"] for pair in pairs)


# What writes a run is given the row as it was read, and writes nothing when that is not the row any more.
WRITERS: Final = {
    "transition": "livebox.transition_run(r, 'completed', NULL, 'adapter', NULL, '{}', '{}')",
    "step": "livebox.count_step(r, 1, livebox.clock())",
    "follow-up added": "livebox.add_followup(r, '{other}', livebox.clock())",
    "follow-up taken": "livebox.set_followup(r, '{message}', 'delivered')",
    "claim": "livebox.claim_run(r, gen_random_uuid(), '{}')",
    "request to cancel": "livebox.ask_cancel(r, '{alex}', '{}')",
    "stall": "livebox.show_stall(r, livebox.clock())",
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("stale", ["version", "state"])
async def test_row_that_is_read_too_early_writes_nothing(stage: Stage, writer: str, stale: str) -> None:
    message, work = await stage.working()
    other = await stage.say("owner", message["thread_id"], "lotse")
    names = {"message": other["id"], "other": message["id"], "alex": stage.id("alex")}
    call = WRITERS[writer]
    for name, value in names.items():
        call = call.replace("{" + name + "}", value)
    early = {"version": "version - 1", "state": "version"}[stale]
    as_read = f"to_jsonb(r) || jsonb_build_object('version', {early}, 'state', '{'waiting_input' if stale == 'state' else 'running'}')"
    before = stage.image(work.run_id)
    with pytest.raises(Exception, match="changed under its lock") as raised:
        stage.sql(
            f"SELECT {call} FROM (SELECT (jsonb_populate_record(NULL::livebox.runs, {as_read})).*"
            f" FROM livebox.runs r WHERE id = '{work.run_id}') AS r"
        )
    assert raised.value.pgcode == "LB120"  # type: ignore[attr-defined]
    assert stage.image(work.run_id) == before
