"""Mapping many units is work of the one thread that serves everybody: others get their turn in between."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from db import Answer
from handlers.context import Context
from handlers.snapshots import list_agent_run_snapshots

RUNS = 50


class Asked:
    """What the handler asks of a request: a page of runs, none of which the filter lets through."""

    position = None
    limit = 10

    async def read(self, operation: str, parameters: Any, *, limits: tuple[str, ...]) -> Answer:
        """The records of all runs at once."""
        records = [
            {
                "at": "2026-11-02T09:30:00.000000Z", "id": f"0193a000-0000-4000-8000-{number:012}", "registered": True,
                "state": "running", "claimed": False, "cancel_asked": False, "step_count": 0,
                "document": {"jobs": {f"j{key}": {"name": "x", "state": "running"} for key in range(20)}},
            }
            for number in range(RUNS)
        ]  # fmt: skip
        return Answer("ok", json.dumps({"items": records, "scanned": RUNS, "scan_max": 10**6}).encode())


async def test_others_get_their_turn_between_runs() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    answer = await list_agent_run_snapshots(cast(Context, Asked()), {"source": "task"})
    waiting.cancel()
    assert json.loads(answer.body or b"") == {"items": []}
    assert turns >= RUNS
