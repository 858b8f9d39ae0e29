"""A researcher, then a writer, on one run, both reporting and closing in any order: nothing clobbers anything."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

DIMS = {"team": "support", "tier": "gold"}


class Ask(NamedTuple):
    """One request of an agent."""

    operation: str
    body: Any
    path: dict[str, str]


Do = Callable[[str, Ask], str]
"""Asks as somebody; gives `ok` or the problem code."""


def works(run_id: str, who: str) -> list[Ask]:
    """What an agent sends of its own accord, in its order: steps, spend, its count, and that it is done."""
    made = []
    for number in range(2):
        step = {"run_id": run_id, "step_id": fresh()}
        made += [
            Ask("recordRunStep", {"kind": "tool", "name": f"{who} {number}"}, step),
            Ask(
                "recordSpend",
                {"amount_micros": 100 + number, "currency": "EUR"},
                {"run_id": run_id, "entry_id": fresh()},
            ),
            Ask("updateRunStep", {"status": "completed"}, step),
        ]
    made += [Ask("updateRun", body, {"run_id": run_id}) for body in ({"steps": 2}, {"status": "completed"})]
    return made


def over_http(stage: Stage) -> Do:
    """Requests to the server."""

    def do(who: str, ask: Ask) -> str:
        answer = stage.as_(who).call(ask.operation, ask.body, **ask.path)
        return answer.code or "ok"

    return do


def by_operations(stage: Stage) -> Do:
    """The same operations as the server's lane runs them, which is much quicker."""
    limits = {
        "run.step_detail_max_bytes": 16384, "run.max_steps_persisted": 2000, "event.body_max_bytes": 4096,
        "registered.currency": "USD", "registered.governance_events_max": 500,
    }  # fmt: skip

    def do(who: str, ask: Ask) -> str:
        caller = json.dumps({"principal": stage.id(who)})
        args = json.dumps({**ask.path, "body": ask.body, "limits": limits})
        function = OPERATIONS[ask.operation].function
        ((code,),) = stage.sql("SELECT code FROM livebox.perform(%s, %s, %s)", function, caller, args)
        return str(code)

    return do


@pytest.mark.parametrize(("way", "rounds"), [(over_http, 10), (by_operations, 200)], ids=["over HTTP", "200 orders"])
def test_every_order_ends_the_same(stage: Stage, way: Callable[[Stage], Do], rounds: int) -> None:
    do = way(stage)
    for seed in range(rounds):
        chance = random.Random(seed)
        task = {"intent": "weekly report", "task": "Collect, then write.", "user_dims": DIMS}
        run = stage.registered(agents=["texter"], **task)
        queues = {who: works(run["id"], who) for who in ("lotse", "texter")}
        refused = []
        repeats = []
        while any(queues.values()):
            who = chance.choice([name for name, queue in queues.items() if queue])
            ask = queues[who].pop(0)
            code = do(who, ask)
            if code != "ok":
                refused.append((who, ask.operation, code))
            elif chance.random() < 0.2:
                repeats.append((who, ask))
        for who, ask in repeats:  # their answers were lost
            assert do(who, ask) == "ok", ask
        ended = stage.as_(OWNER).call("getRun", run_id=run["id"]).ok()
        for name in ("agent_id", "agents", "started_at", "registered_at", "registered_by", *task):
            assert ended[name] == run[name], name
        assert (ended["state"], ended["step_count"], ended["cost"]["amount_micros"]) == ("completed", 4, 402)
        assert ended["reported_steps"] == {stage.id("lotse"): 2, stage.id("texter"): 2}
        ends = stage.sql(
            "SELECT actor_id::text FROM livebox.events WHERE resource_id = %s AND payload #>> '{run,state}' = 'completed'"
            " AND type = 'run.state_changed'",
            run["id"],
        )
        assert ends == [(stage.id("lotse"),)], "one end, made by the entry agent"
        assert refused == [("texter", "updateRun", "status_not_yours")]
        spent = stage.as_(OWNER).call("getRunSpend", run_id=run["id"]).ok()["agents"]
        cost = {one["agent_id"]: one["own"]["costs"][0]["amount_micros"] for one in spent}
        assert cost == {stage.id("lotse"): 201, stage.id("texter"): 201}
