"""Random histories: whatever people and agents do, in whatever order, these things hold."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.runs.stage import Outcome, Stage, Work
from tests.runs.test_log import WATCHERS, Device, snapshot

SEEDS: Final = range(6)
STEPS: Final = 80
PEOPLE: Final = ("alex", "owner", "robin", "sam")
AGENTS: Final = ("lotse", "texter")
REASONS: Final = ("runtime_error", "because", "stale", "a\u202eb", "budget_exhausted")
FOLLOWS: Final = {
    None: {"received", "failed"},
    "received": {"queued", "failed", "cancelled"},
    "queued": {"working", "failed", "cancelled"},
    "working": {"done", "failed", "cancelled"},
}


class Play:
    """Does random things and remembers what agents hold."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = random.Random(seed)
        self.threads: list[str] = []
        self.messages: list[tuple[str, str]] = []
        self.works: list[Work] = []

    async def prepare(self) -> None:
        for channel in ("Support/Escalation", "Support/General"):
            self.threads.append(await self.stage.thread("owner", channel))
        self.threads.append("Support/Escalation")

    async def step(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[Outcome | None]]]] = [
            (6, self.say), (3, self.claim), (4, self.start), (3, self.record), (4, self.finish), (2, self.cancel),
            (1, self.delete),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        (_, action) = self.random.choices(actions, weights)[0]
        self.stage.mark()
        outcome = await action()
        if outcome is not None and outcome.code not in ("ok", "created", "accepted"):
            assert self.stage.written() == {}, outcome
            assert outcome.effects == []

    async def say(self) -> Outcome:
        who = self.random.choice(PEOPLE)
        mentions = self.random.choice([(), (), ("lotse",), ("texter",), ("lotse", "texter")])
        outcome = await self.stage.post(who, self.random.choice(self.threads), *mentions)
        if outcome.code == "created":
            self.messages.append((who, outcome.body["id"]))
        return outcome

    async def claim(self) -> None:
        self.works += await self.stage.claim(self.random.choice(AGENTS), limit=self.random.randint(1, 3))

    async def start(self) -> Outcome | None:
        return await self.stage.start(self.random.choice(self.works[-4:])) if self.works else None

    async def record(self) -> Outcome | None:
        if not self.works:
            return None
        return await self.stage.step(
            self.random.choice(self.works[-4:]), status=self.random.choice(["running", "completed"])
        )

    async def finish(self) -> Outcome | None:
        if not self.works:
            return None
        state = self.random.choice(["completed", "failed", "cancelled"])
        reason = {"reason": self.random.choice(REASONS)} if state == "failed" else {}
        return await self.stage.finish(self.random.choice(self.works[-4:]), state, **reason)

    async def cancel(self) -> Outcome:
        runs = [row["id"] for row in self.stage.sql("SELECT id FROM livebox.runs ORDER BY id DESC LIMIT 4")]
        return await self.stage.cancel(self.random.choice(PEOPLE), self.random.choice([*runs, str(uuid.uuid4())]))

    async def delete(self) -> Outcome | None:
        if not self.messages:
            return None
        who, message = self.messages[-1]
        return await self.stage.write("delete_message", who, message_id=message)


@pytest.mark.parametrize("seed", SEEDS)
async def test_history(stage: Stage, seed: int) -> None:
    play = Play(stage, seed)
    await play.prepare()
    devices = {who: Device(await snapshot(stage, who)) for who in WATCHERS}
    for _ in range(STEPS):
        await play.step()
        assert_one_active_run_per_thread(stage)
    assert stage.sql("SELECT count(*) AS n FROM livebox.runs")[0]["n"] > 2
    assert_runs_took_allowed_paths(stage)
    assert_messages_took_allowed_paths(stage)
    assert_nothing_accepted_was_lost(stage)
    await assert_devices_are_up_to_date(stage, devices)


def assert_one_active_run_per_thread(stage: Stage) -> None:
    assert not stage.sql("SELECT thread_id FROM livebox.runs WHERE finished_at IS NULL GROUP BY 1 HAVING count(*) > 1")


def assert_runs_took_allowed_paths(stage: Stage) -> None:
    pairs = {(row["from_state"], row["to_state"]) for row in stage.sql("SELECT * FROM livebox.run_transitions")}
    for run in stage.sql("SELECT * FROM livebox.runs"):
        told = [
            event["payload"]["run"]
            for event in stage.sql(
                "SELECT payload FROM livebox.events WHERE type = 'run.state_changed' AND resource_id = %s ORDER BY seq",
                str(run["id"]),
            )
        ]
        states = [summary["state"] for summary in told]
        versions = [summary["version"] for summary in told]
        assert states[0] == "queued"
        assert set(pairwise(states)) <= pairs
        assert versions == sorted(set(versions))
        assert (states[-1], run["version"] >= versions[-1]) == (run["state"], True)
        steps = stage.sql("SELECT status FROM livebox.run_steps WHERE run_id = %s", run["id"])
        assert run["step_count"] == len(steps)
        if run["finished_at"] is not None:
            assert versions[-1] == run["version"]
            assert "running" not in {step["status"] for step in steps}


def assert_messages_took_allowed_paths(stage: Stage) -> None:
    for message in stage.sql("SELECT * FROM livebox.messages"):
        told: list[dict[str, Any]] = [
            event["payload"]["message"]
            for event in stage.sql(
                "SELECT payload FROM livebox.events WHERE resource_kind = 'message' AND resource_id = %s ORDER BY seq",
                str(message["id"]),
            )
        ]
        assert [state["version"] for state in told] == list(range(1, message["version"] + 1))
        states = [state.get("trigger_state") for state in told]
        for before, after in pairwise(states):
            assert before == after or after in FOLLOWS[before], states
        assert states[-1] == message["trigger_state"]
        if message["origin"] != "human":
            assert set(states) == {None}
    assert stage.sql("SELECT * FROM livebox.message_revisions") == []


def assert_nothing_accepted_was_lost(stage: Stage) -> None:
    """Each message that waits or is worked on has its place: the run it opened, or the queue of one that is active."""
    lost = stage.sql(
        "SELECT m.id, m.trigger_state FROM livebox.messages m "
        "WHERE m.trigger_state IN ('received', 'queued', 'working') AND m.deleted_at IS NULL "
        "AND NOT EXISTS (SELECT FROM livebox.runs r WHERE r.triggering_message_id = m.id AND r.finished_at IS NULL) "
        "AND NOT EXISTS (SELECT FROM livebox.run_followups f JOIN livebox.runs r ON r.id = f.run_id "
        "WHERE f.message_id = m.id AND f.state = 'pending' AND r.finished_at IS NULL)"
    )
    assert lost == []


async def assert_devices_are_up_to_date(stage: Stage, devices: dict[str, Device]) -> None:
    for who, device in devices.items():
        page = (await stage.read("list_events", who, after=device.seq, limit=10_000)).body
        assert page["has_more"] is False
        for event in page["items"]:
            device.apply(event)
        assert device.holds() == Device(await snapshot(stage, who)).holds(), who
