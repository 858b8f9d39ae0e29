"""Chance against an adapter: whatever goes wrong in whatever order, the run ends once and shows what was drafted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from livebox.client import RunHandle
from livebox.client.document import members
from tests.client.fake import Fake, problem
from tests.client.scene import at_work, ended

pytestmark = pytest.mark.usefixtures("quick")

KEYS = ("a", "b", "c")


def edits(run: RunHandle, chance: random.Random) -> list[Callable[[], object]]:
    """What an author may do."""
    key, number = chance.choice(KEYS), chance.randrange(100)
    return [
        lambda: setattr(run, "headline", f"Number {number}"),
        lambda: setattr(run, "headline", None),
        lambda: run.text.append(f"{number} "),
        lambda: run.text.clear(),
        lambda: run.plan.item(key, f"Point {number}", chance.choice(["pending", "done"])),
        lambda: run.plan.remove(key),
        lambda: run.subagent(key, "running", headline=f"Number {number}"),
        lambda: run.forget("subagents", key),
        lambda: run.tool(key, progress=number / 100),
        lambda: run.no_tool(),
        lambda: run.metrics(tool_calls=number),
    ]


def troubles(fake: Fake, run_id: str, chance: random.Random) -> list[Callable[[], object]]:
    """What may go wrong."""
    run = fake.runs[run_id]
    lost = chance.choice(["headline", "plan", "text", "subagents"])

    def fall() -> None:  # between two saves: content is gone, the version is higher, and so are the sessions
        fake.runs[run_id] = {**{k: v for k, v in run.items() if k != lost}, "version": run["version"] + 256}
        for session in fake.sessions:
            session.cut()

    return [
        lambda: [session.cut() for session in fake.sessions],
        lambda: fake.lose.append(chance.choice(["run.update", "heartbeat", "PUT", "PATCH"])),
        lambda: fake.refuse.setdefault("run.update", []).append(
            problem(*chance.choice([(409, "live_elsewhere"), (429, "rate_limited"), (503, "unavailable")]))
        ),
        lambda: fake.change(
            run_id, [{"op": "add", "path": "/stalled_since", "value": "x"}], by=chance.choice([1, 256])
        ),
        fall,
    ]


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_goes_wrong_the_last_state_is_shown_and_the_run_ends_once(fake: Fake, seed: int) -> None:
    chance = random.Random(seed)
    drafted: list[dict[str, Any]] = []

    async def work(run: RunHandle) -> str:
        for number in range(40):
            chance.choice(edits(run, chance))()
            if chance.random() < 0.3:
                chance.choice(troubles(fake, run.id, chance))()
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice([0, 0.001, 0.005]))
            if number == 20:
                async with run.step("status", "half"):
                    pass
        drafted.append(run.snapshot())
        fake.lose.append("finish")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert members(run) == drafted[0]
    assert (run["state"], run["summary"], fake.calls["finish"]) == ("completed", "Done.", 1)
    assert [step["status"] for step in run["steps"].values()] == ["completed"]
