"""What the log says of runs is enough: an old snapshot and the events after it make a fresh one."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from generated.validators import checker
from tests.runs.stage import Stage

ACTIVE: Final = ("queued", "running", "waiting_input")
WITHOUT_EVENTS: Final = ("step_count", "headline", "version")  # of active runs these move silently
WATCHERS: Final = ("alex", "sam", "robin", "owner", "lotse", "texter")


class Device:
    """What a client holds: a snapshot that it brings up to date with events alone."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self.seq: int = snapshot["seq"]
        self._lists = {name: {item["id"]: item for item in snapshot[name]} for name in _NAMES}

    def apply(self, event: dict[str, Any]) -> None:
        """One event, in order. Applying it twice is the same as once."""
        payload, kind = event["payload"], event["type"]
        if kind.startswith("message."):
            self._lists["messages"][payload["message"]["id"]] = payload["message"]
        elif kind == "thread.created":
            self._lists["threads"][payload["thread"]["id"]] = payload["thread"]
        elif kind.startswith("run."):
            run = payload["run"]
            if run["state"] in ACTIVE:
                self._lists["active_runs"][run["id"]] = run
            else:
                self._lists["active_runs"].pop(run["id"], None)
        else:
            raise AssertionError(kind)

    def holds(self) -> dict[str, Any]:
        """All of it, comparable."""
        return _comparable(self._lists)


_NAMES: Final = ("channels", "threads", "messages", "active_runs")


def _comparable(lists: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = copy.deepcopy(lists)
    for run in found["active_runs"].values():
        for name in WITHOUT_EVENTS:
            run.pop(name, None)
    return found


async def snapshot(stage: Stage, who: str) -> dict[str, Any]:
    outcome = await stage.read("get_snapshot", who)
    assert outcome.code == "ok"
    assert outcome.answer.cursor is None
    return dict(outcome.body)


async def opened(stage: Stage) -> None:
    await stage.queued("alex", "Support/Escalation")


async def opened_in_main(stage: Stage) -> None:
    await stage.say("alex", "Support/Escalation", "lotse")


async def rejected(stage: Stage) -> None:
    await stage.say("robin", "Support/Escalation", "lotse")


async def followed_up(stage: Stage) -> None:
    message = await stage.queued("alex", "Support/Escalation")
    await stage.say("owner", message["thread_id"])


async def claimed(stage: Stage) -> None:
    await stage.queued("alex", "Support/Escalation")
    await stage.claim("lotse")


async def started(stage: Stage) -> None:
    await stage.working("alex", "Support/General")


async def stepped(stage: Stage) -> None:
    _, work = await stage.working("alex", "Support/General")
    await stage.step(work)


async def asked_to_cancel(stage: Stage) -> None:
    _, work = await stage.working("alex", "Support/General")
    await stage.cancel("alex", work.run_id)


async def cancelled(stage: Stage) -> None:
    message = await stage.queued("alex", "Support/General")
    await stage.cancel("owner", stage.runs(message["thread_id"])[0]["id"])


async def completed(stage: Stage) -> None:
    _, work = await stage.working("alex", "Support/General")
    await stage.finish(work, summary="done", cost={"amount_micros": 1, "currency": "EUR", "is_estimate": False})


async def failed_and_promoted(stage: Stage) -> None:
    message, work = await stage.working("alex", "Support/General")
    await stage.say("owner", message["thread_id"], body="x" * 10_000)
    await stage.finish(work, "failed", reason="because")


async def denied_at_delivery(stage: Stage) -> None:
    await stage.queued("alex", "Support/General")
    stage.sql(
        "UPDATE livebox.principals SET tool_class = 'owner_only', version = version + 1 WHERE id = %s",
        stage.id("lotse"),
    )
    assert await stage.claim("lotse") == []


ACTIONS: Final[list[Callable[[Stage], Awaitable[None]]]] = [
    opened, opened_in_main, rejected, followed_up, claimed, started, stepped, asked_to_cancel, cancelled, completed,
    failed_and_promoted, denied_at_delivery,
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
async def test_old_snapshot_and_events_make_a_fresh_one(
    stage: Stage, action: Callable[[Stage], Awaitable[None]]
) -> None:
    await stage.queued("owner", "Support/Escalation", "texter")  # something that is there before and after
    devices = {who: Device(await snapshot(stage, who)) for who in WATCHERS}
    await action(stage)
    for who, device in devices.items():
        page = (await stage.read("list_events", who, after=device.seq, limit=1000)).body
        assert page["has_more"] is False
        for event in page["items"]:
            device.apply(event)
        fresh = Device(await snapshot(stage, who))
        assert device.holds() == fresh.holds(), who
        assert page["next_after"] == fresh.seq


@pytest.mark.parametrize("action", ACTIONS)
async def test_each_event_keeps_to_its_schema(stage: Stage, action: Callable[[Stage], Awaitable[None]]) -> None:
    errors_of = checker("/schemas/Event")
    stage.mark()
    await action(stage)
    page = (await stage.read("list_events", "owner", after=0, limit=1000)).body
    assert page["items"]
    for event in page["items"]:
        assert errors_of(event) == [], event["type"]
    seqs = [event["seq"] for event in page["items"]]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("action", ACTIONS)
async def test_events_of_a_thread_follow_their_numbers(
    stage: Stage, action: Callable[[Stage], Awaitable[None]]
) -> None:
    stage.mark()
    await action(stage)
    numbers: dict[str, list[int]] = {}
    for event in stage.events():
        numbers.setdefault(event["thread_id"], []).append(event["thread_seq"])
    assert None not in numbers
    for found in numbers.values():
        assert found == list(range(found[0], found[0] + len(found)))
    anchors = stage.sql("SELECT thread_id, thread_seq FROM livebox.messages")
    created = {
        (event["thread_id"], event["thread_seq"]) for event in stage.sql(
            "SELECT thread_id, thread_seq FROM livebox.events WHERE type = 'message.created'")
    }  # fmt: skip
    assert {(row["thread_id"], row["thread_seq"]) for row in anchors} == created


async def test_work_for_agents_is_not_in_the_log(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.cancel("alex", work.run_id)
    assert stage.sql("SELECT type FROM livebox.events WHERE type IN ('run.cancel_requested', 'run.followup')") == []


async def test_trigger_state_is_no_revision_and_anchors_are_not_edited(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.finish(work)
    assert stage.message(message["id"])["version"] == 5  # received, queued, working, done
    assert stage.sql("SELECT * FROM livebox.message_revisions") == []
    (anchor,) = stage.sql("SELECT id, version FROM livebox.messages WHERE kind = 'run'")
    assert anchor["version"] == 1
    for who in ("lotse", "alex", "owner"):
        edited = await stage.write("edit_message", who, message_id=anchor["id"], body={"body": "x"})
        assert edited.code in ("message_not_editable", "forbidden")


@pytest.mark.parametrize("action", ACTIONS)
async def test_nothing_tells_of_hidden_channels(stage: Stage, action: Callable[[Stage], Awaitable[None]]) -> None:
    await action(stage)
    for who in WATCHERS:
        seen = {
            row["channel_id"] for row in stage.sql("SELECT channel_id FROM livebox.visible_channels(%s)", stage.id(who))
        }
        hidden = set(stage.world.channels.values()) - seen
        threads = {
            row["id"]
            for row in stage.sql("SELECT id FROM livebox.threads WHERE channel_id = ANY(%s::uuid[])", list(hidden))
        }
        told = [
            (await stage.read("get_snapshot", who)).answer.body,
            (await stage.read("list_events", who, after=0, limit=1000)).answer.body,
        ]
        if who not in ("lotse", "texter"):
            told.append((await stage.read("list_active_runs", who)).answer.body)
        for body in told:
            assert body is not None
            assert not [name for name in hidden | threads if name.encode() in body]


async def test_numbers_go_on_beyond_four_bytes(stage: Stage) -> None:
    mark = 2**31 - 2
    stage.sql("SELECT setval('livebox.event_seq', %s)", mark)
    message, work = await stage.working()
    thread = message["thread_id"]
    stage.sql("UPDATE livebox.threads SET last_thread_seq = %s WHERE id = %s", mark, thread)
    stage.sql("UPDATE livebox.messages SET version = %s WHERE id = %s", mark, message["id"])
    stage.sql("UPDATE livebox.runs SET version = %s, version_reserved = %s, step_count = %s WHERE id = %s",
              mark, mark, mark, work.run_id)  # fmt: skip
    step_id = str(uuid.uuid4())
    for _ in range(2):
        step = await stage.step(work)
    assert (await stage.step(work, step_id)).body["ordinal"] == mark + 3
    assert step.body["ordinal"] == mark + 2
    followup = await stage.say("alex", thread)
    assert followup["thread_seq"] == mark + 1
    run = (await stage.finish(work)).body
    assert (run["version"], run["step_count"]) == (mark + 5, mark + 3)
    assert stage.message(message["id"])["version"] == mark + 1
    (last,) = stage.sql("SELECT max(seq) AS seq, max(thread_seq) AS thread_seq FROM livebox.events")
    assert last["seq"] > 2**31
    assert last["thread_seq"] > 2**31
    page = (await stage.read("list_events", "alex", after=mark, limit=1000)).body
    assert page["items"][-1]["seq"] == last["seq"]
