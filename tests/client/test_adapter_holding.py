"""How an adapter comes to its runs and keeps hold of them: claims, tokens, hand-outs, with and without a gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.client import Adapter, GatewayRefused, RunHandle, RunLost
from tests.client.fake import Fake, problem, when
from tests.client.scene import assert_shown, at_work, ended, shows

pytestmark = pytest.mark.usefixtures("quick")


async def test_without_a_gateway_it_asks_for_work(fake: Fake) -> None:
    fake.gateway = False
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)
    async with at_work(fake, shows, use_gateway=False):
        assert_shown(await ended(fake, fake.invoke()))


async def test_several_runs_go_at_once(fake: Fake) -> None:
    together = asyncio.Barrier(3)

    async def work(_: RunHandle) -> str:
        await together.wait()
        return "Done."

    async with at_work(fake, work, concurrency=3):
        await fake.session()
        runs = [fake.invoke() for _ in range(3)]
        for run in runs:
            assert (await ended(fake, run))["state"] == "completed"
    assert fake.frames[0]["capabilities"] == {"invocations": 3}


async def test_a_run_that_is_handed_out_twice_is_worked_on_once(fake: Fake) -> None:
    go_on = asyncio.Event()
    begun = 0

    async def work(_: RunHandle) -> str:
        nonlocal begun
        begun += 1
        await go_on.wait()
        return "Done."

    async with at_work(fake, work, concurrency=2):
        run = fake.invoke()
        await when(lambda: begun)
        fake.tokens[run["id"]] = "newer"
        fake.queue = [fake.invocation(fake.runs[run["id"]])]
        await fake.hand_out()
        await when(lambda: not fake.queue)
        go_on.set()
        assert (await ended(fake, run))["state"] == "completed"
    assert (begun, fake.calls["start"], fake.calls["finish"]) == (1, 1, 1)


async def test_a_token_that_is_refused_ends_it(fake: Fake) -> None:
    fake.hello_problem = (problem(401, "invalid_token"), 4501)
    adapter = Adapter(fake.url, "t")
    with pytest.raises(GatewayRefused) as refused:
        await asyncio.wait_for(adapter.serve(), 10)
    assert refused.value.code == 4501


async def test_a_token_is_renewed_before_it_expires(fake: Fake) -> None:
    fake.expires_at = "2026-01-01T00:00:00.000000Z"
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await go_on.wait()
        return await shows(run)

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.calls["renew"])
        go_on.set()
        assert_shown(await ended(fake, run))
    assert fake.calls["renew"] == 1


@pytest.mark.parametrize("how", ["expired", "renewed"])
async def test_a_token_that_is_no_longer_taken_is_replaced(fake: Fake, how: str) -> None:
    async def work(run: RunHandle) -> str:
        if how == "expired":
            fake.expired.add(fake.tokens[run.id])
        summary = await shows(run)
        if how == "renewed":  # another request of ours has a newer one by now
            fake.renewed.add(fake.tokens[run.id])
            newer = fake.tokens[run.id] = "newer"
            run._holder.token, stale = newer, run._holder.token
            assert stale != newer
        return summary

    async with at_work(fake, work):
        assert_shown(await ended(fake, fake.invoke()))
    assert fake.calls["finish"] == 1


async def test_a_token_that_cannot_be_renewed_is_the_end(fake: Fake) -> None:
    told: list[BaseException] = []

    async def work(run: RunHandle) -> str:
        fake.expired.add(fake.tokens[run.id])
        fake.tokens[run.id] = "another's"
        try:
            async with run.step("tool", "x"):
                pass
        except (RunLost, asyncio.CancelledError) as lost:  # whether the step or a heartbeat found out first
            told.append(lost)
            raise
        return "Never."

    async with at_work(fake, work) as adapter:
        run = fake.invoke()
        await when(lambda: told and not adapter.working)
    assert fake.ends[run["id"]] == []


async def test_a_claim_whose_answer_was_lost_is_repeated_with_its_id(fake: Fake) -> None:
    fake.gateway = False
    claims: list[str] = []
    rest = fake.rest

    async def noted(request: Any, operation: str, token: str, body: Any) -> tuple[int, Any]:
        if operation.endswith("/claim"):
            claims.append(body["claim_id"])
            if len(claims) == 1:
                fake.lose.append("claim")
        return await rest(request, operation, token, body)

    fake.rest = noted  # type: ignore[method-assign]
    async with at_work(fake, shows):
        await when(lambda: len(claims) > 3)
    assert claims[0] == claims[1] != claims[2] != claims[3]


async def test_without_a_gateway_it_takes_no_more_than_it_can(fake: Fake) -> None:
    fake.gateway = False
    limits: list[int] = []
    go_on = asyncio.Event()
    rest = fake.rest

    async def noted(request: Any, operation: str, token: str, body: Any) -> tuple[int, Any]:
        if operation.endswith("/claim"):
            limits.append(body["limit"])
        return await rest(request, operation, token, body)

    async def work(_: RunHandle) -> str:
        await go_on.wait()
        return "Done."

    fake.rest = noted  # type: ignore[method-assign]
    async with at_work(fake, work, concurrency=1) as adapter:
        run = fake.invoke()
        await when(lambda: adapter.working == 1)
        asked = len(limits)
        await when(lambda: fake.calls["heartbeat"] > 5)
        assert len(limits) == asked
        go_on.set()
        await ended(fake, run)
        await when(lambda: len(limits) > asked)
    assert set(limits) == {1}


async def test_who_leaves_takes_nothing_more(fake: Fake) -> None:
    begun = asyncio.Event()

    async def work(_: RunHandle) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            fake.invoke()
            await when(lambda: any(frame["type"] == "heartbeat" for frame in fake.frames))
        return "Never."

    async with at_work(fake, work, concurrency=2):
        fake.invoke()
        await begun.wait()
    assert fake.calls["start"] == 1
    assert len(fake.queue) == 1


async def test_a_run_that_was_lost_and_comes_back_is_worked_on_again(fake: Fake) -> None:
    """It is handed out anew while the work that lost it has not come to its end."""
    lost, go_on = asyncio.Event(), asyncio.Event()
    begun = 0

    async def work(_: RunHandle) -> str:
        nonlocal begun
        begun += 1
        if begun == 2:
            return "Done."
        try:
            await asyncio.Event().wait()
        finally:
            lost.set()
            await go_on.wait()
        return "Never."

    async with at_work(fake, work, concurrency=2) as adapter:
        run = fake.invoke()
        await when(lambda: begun)
        fake.tokens[run["id"]] = "newer"
        await lost.wait()
        fake.queue = [fake.invocation(fake.runs[run["id"]])]
        await fake.hand_out()
        await when(lambda: any(f["type"] == "ack" and f["invocation"] == "newer" for f in fake.frames))
        go_on.set()
        assert (await ended(fake, run))["state"] == "completed"
        await when(lambda: not adapter.working)
    assert (begun, fake.calls["finish"]) == (2, 1)
