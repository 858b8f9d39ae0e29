"""What the client does with registered runs: repeats count once, refusals have a name, lists come whole."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from generated.models import PublishedSnapshot
from generated.problems import PROBLEMS
from livebox import client
from livebox.client import (
    AlreadyRegistered,
    CurrencyMismatch,
    NotFound,
    Problem,
    RegisteredRun,
    Rest,
    RunEnded,
    SpendIdReused,
    StatusNotYours,
    Unreachable,
)
from tests.client.fake_runs import AGENT, Refusal
from tests.client.registry import Registry, serving

RUN = "0193a000-0000-4000-8000-0000000000d1"
OTHER = "01933b7e-0000-7000-8000-000000000012"


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with serving(Registry()) as registry:
        yield registry


@pytest.fixture
async def rest(registry: Registry) -> AsyncIterator[Rest]:
    async with Rest(registry.url, "t", patience=5) as rest:
        yield rest


async def registered(rest: Rest, **more: Any) -> RegisteredRun:
    return await RegisteredRun.register(rest, agent_id=AGENT, **{"run_id": RUN, **more})


async def test_what_is_registered_is_what_was_given_and_nothing_else(rest: Rest, registry: Registry) -> None:
    run = await registered(
        rest, agents=[OTHER], task="Write it up.", user_dims={"team": "support"}, budget={"tokens": 10}
    )
    assert registry.runs[RUN].items() >= {"task": "Write it up.", "user_dims": {"team": "support"}}.items()
    assert registry.runs[RUN]["agents"] == [AGENT, OTHER]
    assert not {"intent", "mode", "external_id", "parent_run_id"} & registry.runs[RUN].keys()
    assert (run.id, run.run["state"]) == (RUN, "running")


async def test_an_id_is_made_up_when_none_is_given(rest: Rest, registry: Registry) -> None:
    first = await RegisteredRun.register(rest, agent_id=AGENT)
    second = await RegisteredRun.register(rest, agent_id=AGENT, state="queued")
    assert first.id != second.id
    assert registry.runs[second.id]["state"] == "queued"


@pytest.mark.parametrize("operation", ["registerRun", "updateRun", "recordSpend"])
async def test_an_answer_that_is_lost_counts_once(rest: Rest, registry: Registry, operation: str) -> None:
    registry.lose = [operation] * 2
    run = await registered(rest)
    await run.report(steps=3, governance_events=[{"rule": "loop"}])
    await run.spend(130000, "EUR", tokens=1400)
    assert registry.calls == {"register": 1, "update": 1, "spend": 1}
    assert registry.runs[RUN]["governance_events"] == [{"rule": "loop"}]
    assert registry.runs[RUN]["cost"]["amount_micros"] == 130000
    assert not registry.lose
    (of_register, of_update) = dict.fromkeys(registry.keys)  # one key for each call, however often it was sent
    assert of_register != of_update


async def test_a_key_of_ones_own_counts_once_over_processes(registry: Registry, rest: Rest) -> None:
    await registered(rest)
    for _ in range(2):
        async with Rest(registry.url, "t", patience=0) as other:
            await (await RegisteredRun.find(other, RUN)).spend(5, "EUR", key="call-1")
    assert registry.calls["spend"] == 1
    handle = await RegisteredRun.find(rest, RUN)
    await handle.spend(5, "EUR")
    await handle.spend(5, "EUR")
    assert registry.runs[RUN]["cost"]["amount_micros"] == 15
    with pytest.raises(SpendIdReused):
        await handle.spend(6, "EUR", key="call-1")
    with pytest.raises(CurrencyMismatch):
        await handle.spend(6, "USD")


async def test_without_patience_a_lost_answer_is_told(registry: Registry) -> None:
    registry.lose = ["registerRun"]
    async with Rest(registry.url, "t", patience=0) as rest:
        with pytest.raises(Unreachable):
            await registered(rest)
        with pytest.raises(AlreadyRegistered):
            await registered(rest)
        assert await rest.register_run({"run_id": str(uuid.uuid4()), "agent_id": AGENT}, idempotency_key="k") == (
            await rest.register_run({"run_id": str(uuid.uuid4()), "agent_id": AGENT}, idempotency_key="k")
        )


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (409, "run_already_registered", AlreadyRegistered),
        (403, "status_not_yours", StatusNotYours),
        (409, "run_ended", RunEnded),
        (409, "external_id_taken", client.ExternalIdTaken),
        (409, "cost_owned_by_ledger", client.CostOwnedByLedger),
        (409, "snapshot_terminal", client.SnapshotEnded),
        (403, "forbidden", Problem),
    ],
)
async def test_refusals_have_a_name(
    rest: Rest, registry: Registry, status: int, code: str, kind: type[Problem]
) -> None:
    registry.refuse.append(Refusal(status, code))
    with pytest.raises(Problem) as caught:
        await rest.get_run(RUN)
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status) == (code, status)


def test_each_name_stands_for_a_code_of_the_contract() -> None:
    assert Problem._named.keys() <= PROBLEMS.keys()
    for kind in Problem._named.values():
        assert getattr(client, kind.__name__) is kind


async def test_a_step_ends_as_its_block_does(rest: Rest, registry: Registry) -> None:
    run = await registered(rest)
    async with run.step("tool", "read", title="Reading") as step:
        step.detail["files"] = 3
    with pytest.raises(ZeroDivisionError):
        async with run.step("tool", "count"):
            _ = 1 / 0
    done, failed = registry.steps.values()
    assert done == {"kind": "tool", "name": "read", "title": "Reading", "status": "completed", "detail": {"files": 3}}
    assert failed["status"] == "failed"


@pytest.mark.parametrize("away", ["refused", "unreachable"])
async def test_what_went_wrong_in_a_step_is_told_also_when_its_end_is_not_taken(registry: Registry, away: str) -> None:
    async with Rest(registry.url, "t", patience=0) as rest:
        run = await registered(rest)

        async def count() -> None:
            async with run.step("tool", "count"):
                if away == "refused":
                    registry.refuse.append(Refusal(409, "step_finished"))
                else:
                    registry.lose.append("step")
                _ = 1 / 0

        with pytest.raises(ZeroDivisionError):
            await count()


async def test_ends(rest: Rest, registry: Registry) -> None:
    run = await registered(rest)
    await run.fail("runtime_error", detector="loop guard", ended_at="2026-11-02T09:40:00Z")
    assert registry.runs[RUN].items() >= {"state": "failed", "detector": "loop guard"}.items()
    with pytest.raises(RunEnded) as caught:
        await run.complete()
    assert caught.value.current is not None
    assert caught.value.current["state"] == "failed"


async def test_lists_come_whole_and_say_what_they_ask_for(rest: Rest, registry: Registry) -> None:
    ids = [(await RegisteredRun.register(rest, agent_id=AGENT)).id for _ in range(5)]
    found = [unit["run_id"] async for unit in rest.list_agent_run_snapshots(active=True, source="fleet", explain=True)]
    assert found == ids
    assert registry.asked[0] == {"active": "true", "source": "fleet", "explain": "true"}
    assert [query.get("cursor") for query in registry.asked] == [None, "2", "4"]
    assert [unit async for unit in rest.list_agent_run_snapshots(active=False)]
    assert registry.asked[3] == {"active": "false"}
    assert [unit async for unit in (await RegisteredRun.find(rest, ids[0])).snapshots()]
    assert registry.asked[6] == {}


async def test_a_unit_is_published_below_the_run(rest: Rest, registry: Registry) -> None:
    run = await registered(rest)
    working: PublishedSnapshot = {"source": "workflow", "state": "running"}
    await run.publish("research/1", working, {"state": "waiting_tool"})
    assert registry.units == {"research/1": {"snapshot": {**working, "parent": RUN}, "live": {"state": "waiting_tool"}}}
