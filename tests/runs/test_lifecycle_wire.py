"""The life of a run as an adapter meets it over the wire: tokens, beats, questions, answers, and whose clock counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livebox import invocations
from livebox.client import Rest
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered
from tests.fixtures.world import WorldCopy

KEYS = ("run.claim_lease", "run.holder_grace")


@pytest.fixture(scope="module")
def stage(live: Live) -> Iterator[Stage]:
    """The world of the module's server."""
    stage = Stage(live)
    yield stage
    stage.close()


def control(stage: Stage, operation: str, held: Held, body: Any = None, **path: str) -> Answered:
    return stage.as_("lotse").call(operation, body or {}, headers=held.headers, run_id=held.id, **path)


def renewed(stage: Stage, held: Held) -> Held:
    body = control(stage, "renewInvocationToken", held).ok()
    assert body["run_id"] == held.id
    return Held(held.run, body["token"])


def test_renewal(stage: Stage) -> None:
    old = stage.running()
    new = renewed(stage, old)
    assert new.token != old.token
    assert renewed(stage, old).token == new.token  # its answer was lost
    control(stage, "heartbeatRun", old).ok()
    control(stage, "heartbeatRun", new).ok()
    for operation, body in (("heartbeatRun", {}), ("renewInvocationToken", {}), ("finishRun", {"state": "completed"})):
        refused = control(stage, operation, old, body).refused(409, "token_renewed")
        assert refused.body["current"]["state"] == "running"
    control(stage, "finishRun", new, {"state": "completed"}).ok()
    control(stage, "heartbeatRun", new).refused(409, "run_ended")


def test_beat_tells_of_the_request_to_cancel_and_of_followups(stage: Stage) -> None:
    held = stage.running()
    stage.followup(held)
    stage.as_("alex").call("cancelRun", {}, run_id=held.id).ok()
    beat = control(stage, "heartbeatRun", held)
    assert (beat.body["cancel_requested"], beat.body["followups_pending"]) == (True, 1)
    assert "etag" not in beat.headers
    seen = control(stage, "heartbeatRun", held, {"cancel_seen": True}).ok()
    assert seen["version"] == beat.body["version"] + 1
    shown = stage.as_("alex").call("getRun", run_id=held.id).ok()
    assert shown["cancel"] == seen["cancel"]
    assert shown["version"] == seen["version"]


def test_beats_are_gathered_and_reach_the_row(stage: Stage) -> None:
    held = stage.running()
    column = "SELECT last_heartbeat_at FROM livebox.runs WHERE id = %s"
    before = stage.sql(column, held.id)[0][0]
    control(stage, "heartbeatRun", held).ok()
    assert len(stage.live.app.life) > 0
    stage.live.run(stage.live.app.life.flush())
    assert stage.sql(column, held.id)[0][0] > before


def test_question_answer_and_on(stage: Stage) -> None:
    held = stage.waiting()
    answer = stage.followup(held)
    beat = control(stage, "heartbeatRun", held).ok()
    assert (beat["state"], beat["followups_pending"]) == ("waiting_input", 1)
    listed = stage.as_("lotse").call("listRunFollowups", run_id=held.id).ok()["items"]
    assert [item["message"]["id"] for item in listed] == [answer]
    control(stage, "resumeRun", held).ok()
    control(stage, "awaitRunInput", held, {"prompt": "And?"}).refused(409, "followups_pending")
    taken = control(stage, "ackFollowup", held, message_id=answer).ok()
    assert taken["message"]["trigger_state"] == "followup_delivered"
    run = control(stage, "awaitRunInput", held, {"prompt": "And?", "choices": {"yes": "Yes"}}).ok()
    assert run["question"]["choices"] == {"yes": "Yes"}
    assert run["followups"][answer]["state"] == "delivered"


@pytest.mark.parametrize("prompt", ["", " ", "\t", "\u200b", "\u00a0", "\u3000"])
def test_blank_question(stage: Stage, prompt: str) -> None:
    held = stage.running()
    refused = control(stage, "awaitRunInput", held, {"prompt": prompt}).refused(400, "validation_failed")
    assert [name for _, name in refused.errors()] == ["/prompt"]
    assert stage.as_("alex").call("getRun", run_id=held.id).ok()["state"] == "running"


def test_result_that_is_none_leaves_the_run_to_be_ended_rightly(stage: Stage) -> None:
    held = stage.running()
    for raw in (b'{"state": "completed", "summary": "a\\u0000b"}', b'["completed"]', b'"completed"', b"{"):
        answer = stage.as_("lotse").call("finishRun", headers=held.headers, raw=raw, run_id=held.id)
        assert answer.status == 400
        assert stage.as_("alex").call("getRun", run_id=held.id).ok()["state"] == "running"
    control(stage, "finishRun", held, {"state": "completed"}).ok()


def test_the_clock_of_the_process_decides_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose clock is off by an hour either way takes and makes the same tokens."""
    for off in (-3600.0, 3600.0):
        real = invocations.time.time
        monkeypatch.setattr(stage.live.app.invocations, "_now", lambda real=real, off=off: real() + off)
        held = stage.running()
        new = renewed(stage, held)
        control(stage, "heartbeatRun", new).ok()
        control(stage, "finishRun", new, {"state": "completed"}).ok()
        (row,) = stage.sql("SELECT finished_at <= clock_timestamp() FROM livebox.runs WHERE id = %s", held.id)
        assert row[0]


# A server of its own, whose database's clock moves --------------------------------------------------------------------


@pytest.fixture
def moving(own_live: Live) -> Iterator[Stage]:
    stage = Stage(own_live)
    yield stage
    stage.close()


def later(stage: Stage, seconds: float) -> None:
    # In one transaction: the server must not find that time has passed without it.
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
        f" AS $$ SELECT clock_timestamp() + interval '{seconds} seconds' $$;"
        " UPDATE livebox.service SET touched_at = livebox.clock()"
    )


def test_expired_token(moving: Stage) -> None:
    held = moving.running()
    settings = moving.live.settings
    life, grace = settings.number("invocation.ttl"), settings.number("run.renew_grace")
    later(moving, life + grace / 2)
    refused = control(moving, "heartbeatRun", held).refused(401, "token_expired")
    assert refused.headers["www-authenticate"] == 'Bearer error="token_expired"'
    control(moving, "recordRunStep", held, {"kind": "tool", "name": "x"}, step_id=held.id).refused(401, "token_expired")
    later(moving, life + grace + 2)
    control(moving, "renewInvocationToken", held).refused(401, "token_expired")


def test_answer_reaches_an_adapter_that_came_back(moving: Stage) -> None:
    held = moving.waiting()
    answer = moving.followup(held)
    later(moving, 1 + max(moving.live.settings.number(key) for key in KEYS))
    wire = moving.as_("lotse")
    body = {"claim_id": "0193a000-0000-4000-8000-0000000000b1", "limit": 9}
    (item,) = wire.call("claimInvocations", body).ok()["items"]
    assert (item["kind"], item["run"]["id"]) == ("resume", held.id)
    assert [message["id"] for message in item["messages"]][-1] == answer
    assert wire.call("claimInvocations", body).ok()["items"][0]["token"] == item["token"]
    control(moving, "resumeRun", held).refused(409, "invocation_superseded")
    control(moving, "resumeRun", Held(item["run"], item["token"])).ok()


async def test_client(module_world_copy: WorldCopy, tmp_path: Path) -> None:
    """The SDK has a word for each of it."""

    def prepared(live: Live) -> tuple[Held, str, str]:
        stage = Stage(live)
        held = stage.running()
        found = held, stage.followup(held), live.issue("lotse")
        stage.close()
        return found

    with live_server(module_world_copy, tmp_path) as live:
        held, message, token = await asyncio.to_thread(prepared, live)
        async with Rest(live.url, token) as rest:
            renewal = await rest.renew_invocation_token(held.id, held.token)
            invocation = renewal["token"]
            assert (await rest.heartbeat_run(held.id, invocation))["followups_pending"] == 1
            assert (await rest.ack_followup(held.id, message, invocation))["followup"]["state"] == "delivered"
            assert [item["followup"]["state"] async for item in rest.list_run_followups(held.id)] == ["delivered"]
            asked = await rest.await_run_input(held.id, invocation, "Which?", {"a": "A"})
            assert asked["state"] == "waiting_input"
            named = asked["question"]["question_id"]  # by itself
            assert (await rest.resume_run(held.id, invocation, question_id=named))["state"] == "running"
            again = await rest.await_run_input(held.id, invocation, "Which?", {"a": "A"}, question_id=named)
            assert again["state"] == "running"
            assert (await rest.await_run_input(held.id, invocation, "Which?"))["state"] == "waiting_input"
            assert (await rest.resume_run(held.id, invocation))["state"] == "running"
            assert not (await rest.heartbeat_run(held.id, invocation, cancel_seen=True))["cancel_requested"]
