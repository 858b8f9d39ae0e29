"""Failures that people met in systems of this kind, played through over the wire, restarts of the server included."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.server import PATIENCE, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import fresh
from tests.fixtures.world import WorldCopy
from tests.runs.test_lifecycle_wire import control, later

MOST = 2


@pytest.fixture
def own(world_copy: WorldCopy, tmp_path: Path) -> Iterator[Stage]:
    """The world of a server that takes few follow-ups and can be started again."""
    with live_server(world_copy, tmp_path, run__followups_max=MOST) as live:
        stage = Stage(live)
        yield stage
        stage.close()


def restarted(stage: Stage) -> Stage:
    """The same database and folder under a new server."""
    stage.close()
    stage.live.run(stage.live.app.stop())
    stage.live.run(stage.live._start())
    return Stage(stage.live)


def shown(stage: Stage, run_id: str) -> dict[str, Any]:
    """A run as its reader gets it."""
    return dict(stage.as_("alex").call("getRun", run_id=run_id).ok())


def claim(stage: Stage, claim_id: str = "") -> list[dict[str, Any]]:
    body = {"claim_id": claim_id or fresh(), "limit": 9}
    return list(stage.as_("lotse").call("claimInvocations", body).ok()["items"])


@pytest.mark.parametrize("state", ["queued", "claimed", "waiting"])
def test_ghost_of_a_restart_is_cancelled_at_once(own: Stage, state: str) -> None:
    ghost = {"queued": own.queued, "claimed": own.claimed, "waiting": own.waiting}[state]()
    run_id = ghost["id"] if isinstance(ghost, dict) else ghost.id
    again = restarted(own)
    answer = again.as_("alex").call("cancelRun", {}, run_id=run_id)
    assert (answer.status, answer.body["state"]) == (200, "cancelled")
    run = shown(again, run_id)
    assert run == answer.body
    assert run["cancel"]["outcome"] == ("while_waiting" if state == "waiting" else "before_start")
    again.close()


def test_ghost_at_work_is_cancelled_at_its_deadline(own: Stage) -> None:
    held = own.running()
    again = restarted(own)
    answer = again.as_("alex").call("cancelRun", {}, run_id=held.id)
    assert (answer.status, answer.body["state"]) == (202, "running")
    assert shown(again, held.id) == answer.body
    assert set(answer.body["cancel"]) == {"requested_by", "requested_at", "deadline"}
    later(again, again.live.settings.number("run.cancel_timeout") + 1)
    again.sql("UPDATE livebox.service SET available_since = clock_timestamp() - interval '1 hour'")
    again.live.run(again.live.app._reaper.sweep())
    run = shown(again, held.id)
    assert (run["state"], run["state_reason"], run["cancel"]["outcome"]) == ("cancelled", "cancel_timeout", "forced")
    assert again.as_("alex").call("cancelRun", {}, run_id=held.id).status == 200
    again.close()


def test_cancelled_run_is_handed_to_nobody_after_a_restart(own: Stage) -> None:
    run, other = own.queued(), own.queued()
    assert own.as_("alex").call("cancelRun", {}, run_id=run["id"]).status == 200
    again = restarted(own)
    assert [item["run"]["id"] for item in claim(again)] == [other["id"]]
    assert shown(again, run["id"])["state"] == "cancelled"
    again.close()


def test_worker_that_tries_again_after_a_cancel(own: Stage) -> None:
    run, claim_id = own.queued(), fresh()
    (item,) = claim(own, claim_id)
    held = Held(item["run"], item["token"])
    assert own.as_("alex").call("cancelRun", {}, run_id=held.id).status == 200
    assert claim(own, claim_id) == []
    for operation, body in (
        ("startRun", {}), ("heartbeatRun", {}), ("resumeRun", {}), ("awaitRunInput", {"prompt": "?"}),
        ("renewInvocationToken", {}), ("finishRun", {"state": "completed"}),
    ):  # fmt: skip
        refused = control(own, operation, held, body).refused(409, "run_ended")
        assert refused.body["current"]["state"] == "cancelled"
    assert shown(own, held.id)["version"] == 2
    own.message(run["thread_id"], "alex", "Once more", ["lotse"])
    (item,) = claim(own)
    assert item["run"]["id"] != held.id
    assert control(own, "startRun", Held(item["run"], item["token"])).ok()["state"] == "running"


@pytest.mark.parametrize("end", ["stale", "failed", "completed", "cancelled", "cancelled while it waits"])
def test_two_followups_outlive_every_end(own: Stage, end: str) -> None:
    held = own.waiting() if end.endswith("waits") else own.running()
    sent = [own.followup(held) for _ in range(2)]
    if end == "stale":
        later(own, own.live.settings.number("run.stale_after") + 1)
        own.sql("UPDATE livebox.service SET available_since = clock_timestamp() - interval '1 hour'")
        own.live.run(own.live.app._reaper.sweep())
    elif end.startswith("cancelled"):
        own.as_("alex").call("cancelRun", {}, run_id=held.id).ok()
    if end in ("failed", "completed", "cancelled"):
        control(own, "finishRun", held, {"state": end, **({"reason": "runtime_error"} if end == "failed" else {})}).ok()
    old = shown(own, held.id)
    assert (old["state"], old.get("state_reason")) == {
        "stale": ("failed", "stale"), "failed": ("failed", "runtime_error"), "completed": ("completed", None),
    }.get(end, ("cancelled", "user_cancelled"))  # fmt: skip
    assert [old["followups"][message]["state"] for message in sent] == ["promoted", "promoted"]
    (new,) = own.as_("alex").call("listActiveRuns").ok()["items"]
    assert shown(own, new["id"])["triggering_message_id"] == sent[0]
    assert list(shown(own, new["id"])["followups"]) == [sent[1]]
    assert [item["run"]["id"] for item in claim(own)] == [new["id"]]


def test_receipts_at_the_limit_and_after_the_end_are_true(own: Stage) -> None:
    held = own.running()
    taken = [own.followup(held) for _ in range(MOST)]
    over = own.message(held.run["thread_id"], "alex", "And another?")
    assert (over["trigger_state"], over["trigger_state_reason"]) == ("failed", "followup_limit")
    assert own.as_("alex").call("getMessage", message_id=over["id"]).ok() == over
    listed = own.as_("alex").call("listRunFollowups", run_id=held.id).ok()["items"]
    assert [item["followup"]["message_id"] for item in listed] == taken
    control(own, "finishRun", held, {"state": "completed"}).ok()
    control(own, "ackFollowup", held, message_id=taken[0]).refused(409, "run_ended")


def test_receipts_during_a_shutdown_are_true(world_copy: WorldCopy, tmp_path: Path) -> None:
    with live_server(world_copy, tmp_path, run__followups_max=1000) as live:
        before = Stage(live)
        held = before.running()
        wire, thread_id = before.as_("alex"), held.run["thread_id"]
        told: dict[str, int] = {}
        some = threading.Event()

        def talks() -> None:
            for _ in range(1000):
                name = fresh()
                try:
                    answer = wire.call("createMessage", {"body": "And?", "client_msg_id": name}, thread_id=thread_id)
                except (OSError, HTTPException):  # the server is gone
                    return
                told[name] = answer.status
                if len(told) > 20:
                    some.set()

        talker = threading.Thread(target=talks)
        talker.start()
        assert some.wait(PATIENCE)
        live.run(live.app.stop())
        talker.join(PATIENCE)
        live.run(live._start())
        after = Stage(live)
        accepted = [name for name, status in told.items() if status == 201]
        assert len(accepted) > 20
        assert set(told.values()) <= {201, 503}
        found = after.sql(
            "SELECT m.client_msg_id::text FROM livebox.run_followups f JOIN livebox.messages m ON m.id = f.message_id"
            " WHERE f.run_id = %s AND f.state = 'pending' ORDER BY f.position", held.id,
        )  # fmt: skip
        kept = [name for (name,) in found]
        assert kept[: len(accepted)] == accepted
        assert len(kept) <= len(accepted) + 1  # whose answer was lost with its connection
        assert control(after, "heartbeatRun", held).ok()["followups_pending"] == len(kept)
        after.close()


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ({"state": "failed", "reason": "runtime_error"}, "lost_to_failed"),
        ({"state": "completed"}, "lost_to_completed"),
        ({"state": "cancelled"}, "acknowledged"),
    ],
)
def test_receipt_of_a_cancel_says_who_was_first(own: Stage, end: dict[str, str], outcome: str) -> None:
    held = own.running()
    assert own.as_("alex").call("cancelRun", {}, run_id=held.id).status == 202
    ended = control(own, "finishRun", held, end).ok()
    assert ended["cancel"]["outcome"] == outcome
    assert shown(own, held.id) == ended
    repeated = own.as_("alex").call("cancelRun", {}, run_id=held.id)
    if end["state"] == "cancelled":
        assert repeated.ok() == ended
    else:
        assert repeated.refused(409, "run_ended").body["current"]["state"] == end["state"]
    assert control(own, "finishRun", held, end).ok() == ended


def test_late_repeats_of_an_earlier_question(own: Stage) -> None:
    held, first, second = own.running(), fresh(), fresh()
    asked = {"prompt": "Which week?", "question_id": first}
    assert control(own, "awaitRunInput", held, asked).ok()["question"]["question_id"] == first
    control(own, "resumeRun", held, {"question_id": first}).ok()
    control(own, "awaitRunInput", held, asked | {"question_id": second}).ok()
    before = shown(own, held.id)
    assert control(own, "awaitRunInput", held, asked).ok() == before
    assert control(own, "resumeRun", held, {"question_id": first}).ok() == before
    assert shown(own, held.id) == before
    refused = control(own, "resumeRun", held, {"question_id": fresh()}).refused(400, "validation_failed")
    assert refused.errors() == [("unknown_reference", "/question_id")]
    assert control(own, "resumeRun", held, {"question_id": second}).ok()["state"] == "running"


def test_answer_that_was_taken_before_its_agent_died(own: Stage) -> None:
    held = own.waiting()
    answer = own.followup(held)
    control(own, "ackFollowup", held, message_id=answer).ok()
    later(own, 1 + max(own.live.settings.number(key) for key in ("run.claim_lease", "run.holder_grace")))
    own.sql("UPDATE livebox.service SET available_since = clock_timestamp() - interval '1 hour'")
    (item,) = claim(own)
    assert (item["kind"], item["run"]["id"]) == ("resume", held.id)
    assert item["messages"][-1]["id"] == answer
    control(own, "resumeRun", held).refused(409, "invocation_superseded")
    control(own, "resumeRun", Held(item["run"], item["token"])).ok()
