"""Sessions with the gateway: begun, lost, begun again, and not begun again where that would only repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.client import gateway as gateway_module
from livebox.client.gateway import Gateway
from livebox.client.pauses import Pauses
from livebox.client.problems import GatewayAbsent, GatewayLost, GatewayRefused, Problem
from tests.client.fake import Fake, problem, serving, when


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients come back at once; what the server asks for is still waited for."""
    monkeypatch.setattr(gateway_module, "Pauses", lambda: Pauses(0.001, 0.01))


async def test_a_session_begins_and_answers(fake: Fake) -> None:
    async with Gateway(fake.url, "t") as gateway:
        ready = await gateway.connected()
        assert ready["principal"]["handle"] == "lotse"
        run = fake.run("running")
        assert (await gateway.request({"type": "focus", "run_ids": [run["id"]]}))["run_ids"] == [run["id"]]
    assert fake.frames[0] == {"type": "hello", "id": "hello", "token": "t"}


async def test_a_refusal_is_a_problem(fake: Fake) -> None:
    fake.refuse["focus"] = [problem(429, "rate_limited", retry_after_ms=1500)]
    async with Gateway(fake.url, "t") as gateway:
        await gateway.connected()
        with pytest.raises(Problem) as refused:
            await gateway.request({"type": "focus"})
    assert (refused.value.code, refused.value.retry_after) == ("rate_limited", 1.5)


async def test_a_lost_session_is_begun_again_where_the_log_was(fake: Fake) -> None:
    seen: list[int] = []
    async with Gateway(fake.url, "t") as gateway:
        gateway.listen("event", lambda frame: seen.append(frame["event"]["seq"]))
        await gateway.connected()
        await fake.event("run.changed")
        (await fake.session()).cut()
        for _ in range(3):
            fake.events.append({**fake.events[0], "seq": len(fake.events) + 1})
        await fake.session(2)
        await fake.event("run.changed")
        await when(lambda: len(seen) == 5)
    assert seen == [1, 2, 3, 4, 5]
    assert fake.frames[-1]["resume_after"] in (0, 1)


async def test_an_event_that_comes_twice_is_heard_once(fake: Fake) -> None:
    seen: list[int] = []
    async with Gateway(fake.url, "t") as gateway:
        gateway.listen("event", lambda frame: seen.append(frame["event"]["seq"]))
        session = await fake.session()
        event = await fake.event("run.changed")
        await session.send({"type": "event", "event": event})
        await fake.event("run.changed")
        await when(lambda: seen[-1:] == [2])
    assert seen == [1, 2]


async def test_what_was_asked_when_the_session_ended_is_lost(fake: Fake) -> None:
    fake.lose = ["focus"]
    async with Gateway(fake.url, "t") as gateway:
        await gateway.connected()
        with pytest.raises(GatewayLost):
            await gateway.request({"type": "focus"})
        await gateway.connected()
        assert await gateway.request({"type": "focus"})


async def test_without_a_session_nothing_is_sent(fake: Fake) -> None:
    gateway = Gateway(fake.url, "t")
    with pytest.raises(GatewayLost):
        await gateway.send({"type": "ping"})


@pytest.mark.parametrize(("code", "name"), [(4501, "invalid_token"), (4503, "origin"), (4777, "unknown")])
async def test_a_final_close_ends_it(fake: Fake, code: int, name: str) -> None:
    fake.hello_problem = (problem(401, "invalid_token"), code)
    async with Gateway(fake.url, "t") as gateway:
        with pytest.raises(GatewayRefused) as refused:
            await gateway.connected()
        assert (refused.value.code, refused.value.name) == (code, name)
        assert refused.value.problem is not None
        assert refused.value.problem.code == "invalid_token"
    assert len(fake.frames) == 1


@pytest.mark.parametrize("code", [4500, 4777])
async def test_a_final_close_ends_a_session_that_had_begun(fake: Fake, code: int) -> None:
    async with Gateway(fake.url, "t") as gateway:
        session = await fake.session()
        await session.socket.close(code=code)
        await when(lambda: gateway.refusal)
        with pytest.raises(GatewayRefused):
            await gateway.connected()
    assert fake.calls["hello"] == 1


async def test_a_token_that_expired_is_final_for_who_has_no_other(fake: Fake) -> None:
    fake.hello_problem = (problem(401, "token_expired"), 4040)
    async with Gateway(fake.url, "t") as gateway:
        with pytest.raises(GatewayRefused) as refused:
            await gateway.connected()
    assert (refused.value.code, refused.value.name) == (4040, "token_expired")


async def test_a_token_that_expired_is_replaced_by_who_has_another(fake: Fake) -> None:
    fake.hello_problem = (problem(401, "token_expired"), 4040)
    tokens: list[str] = []

    def token() -> str:
        if tokens:
            fake.hello_problem = None
        tokens.append(f"t{len(tokens)}")
        return tokens[-1]

    async with Gateway(fake.url, token) as gateway:
        assert await gateway.connected()
    assert tokens == ["t0", "t1"]


async def test_a_hello_that_comes_too_soon_is_said_again_later(fake: Fake) -> None:
    fake.hello_problem = (problem(429, "rate_limited", retry_after_ms=1), 0)
    async with Gateway(fake.url, "t") as gateway:
        assert await asyncio.wait_for(gateway.connected(), 10)


@pytest.mark.parametrize("code", [4001, 4008, 4040, 1011, 1001])
async def test_other_closes_are_followed_by_another_session(fake: Fake, code: int) -> None:
    async with Gateway(fake.url, "t") as gateway:
        session = await fake.session()
        await session.socket.close(code=code)
        await fake.session(2)
        assert await gateway.connected()


async def test_it_comes_back_when_bye_asked_for_it(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(gateway_module.asyncio, "sleep", noted)
    fake.heartbeat_interval_ms = 3_600_000
    async with Gateway(fake.url, "t"):
        session = await fake.session()
        await session.send({"type": "bye", "reason": "shutdown", "retry_after_ms": 60_000})
        await session.socket.close(code=4001)
        await fake.session(2)
    assert 60.0 in slept


async def test_a_server_that_says_nothing_is_left(fake: Fake) -> None:
    fake.heartbeat_interval_ms = 20
    answered = fake.frame

    async def silent(session: Any, frame: dict[str, Any]) -> None:
        if frame["type"] != "ping":
            await answered(session, frame)

    fake.frame = silent  # type: ignore[method-assign]
    async with Gateway(fake.url, "t"):
        await fake.session(2)


async def test_pings_keep_a_quiet_session(fake: Fake) -> None:
    fake.heartbeat_interval_ms = 20
    async with Gateway(fake.url, "t"):
        await fake.session()
        await when(lambda: sum(frame["type"] == "ping" for frame in fake.frames) >= 10)
    assert fake.calls["hello"] == 1


async def test_where_there_is_no_gateway_it_is_said(fake: Fake) -> None:
    fake.gateway = False
    async with Gateway(fake.url, "t") as gateway:
        with pytest.raises(GatewayAbsent):
            await gateway.connected()


async def test_a_newer_token_is_taken_for_the_next_session(fake: Fake) -> None:
    tokens = iter(["old", "new"])
    async with Gateway(fake.url, lambda: next(tokens)):
        (await fake.session()).cut()
        await fake.session(2)
    assert [frame["token"] for frame in fake.frames if frame["type"] == "hello"] == ["old", "new"]


async def test_it_waits_for_a_server_that_is_not_there_yet(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []

    class Counted(Pauses):
        def next(self, asked: float | None = None) -> float:
            tries.append(0.001)
            return tries[-1]

    monkeypatch.setattr("livebox.client.gateway.Pauses", Counted)
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with Gateway(url, "t") as gateway:
        for outage in (1, 2):
            tries.clear()
            await when(lambda: len(tries) > 3)
            said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
            assert said == [f"no answer from {url}; trying again"] * outage
            async with serving(Fake(), unused_tcp_port):
                assert await asyncio.wait_for(gateway.connected(), 10)
            await when(lambda: gateway.ready is None)


async def test_a_listener_that_fails_harms_nobody(fake: Fake) -> None:
    heard = asyncio.Event()

    def broken(_: object) -> None:
        raise ZeroDivisionError

    async with Gateway(fake.url, "t") as gateway:
        gateway.listen("event", broken)
        gateway.listen("event", lambda _: heard.set())
        await gateway.connected()
        await fake.event("run.changed")
        await asyncio.wait_for(heard.wait(), 10)
        assert gateway.ready is not None
