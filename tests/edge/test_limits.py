"""Rate limits: how much at once, how much after it, and that nobody pays for another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from livebox import limits
from livebox.limits import Limit, retry_after
from tests.edge.samples import SAMPLES
from tests.fixtures.server import Client, Live, client_session, live_server
from tests.fixtures.world import WorldCopy


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_then_one_for_each_interval() -> None:
    clock = Clock()
    limit = Limit(10, 5, clock)
    assert [limit.take("a") for _ in range(5)] == [0] * 5
    assert limit.take("a") == pytest.approx(0.1)
    clock.now += 0.05
    assert limit.take("a") == pytest.approx(0.05)
    clock.now += 0.05
    assert limit.take("a") == 0
    assert limit.take("a") > 0
    clock.now += 100
    assert [limit.take("a") for _ in range(6)][:5] == [0] * 5


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    limit = Limit(1, 1, clock)
    limit.take("a")
    assert all(limit.take("a") > 0 for _ in range(1000))
    clock.now += 1
    assert limit.take("a") == 0


def test_keys_do_not_share() -> None:
    limit = Limit(1, 1, Clock())
    assert [limit.take(key) for key in "abc"] == [0, 0, 0]


def test_waiting_asks_and_takes_nothing() -> None:
    limit = Limit(1, 1, Clock())
    assert limit.wait("a") == limit.wait("a") == limit.take("a") == 0
    assert limit.wait("a") == pytest.approx(1)


def test_what_is_full_again_is_forgotten() -> None:
    clock = Clock()
    limit = Limit(10, 5, clock)
    for number in range(30_000):
        limit.take(number)
        clock.now += 0.1
    assert len(limit._full_at) <= limits._SWEEP + 1


def test_memory_is_bounded_under_many_callers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BUCKETS", 1000)
    monkeypatch.setattr(limits, "_SWEEP", 500)
    limit = Limit(0.01, 2, Clock())
    limit.take("busy")
    limit.take("busy")
    for number in range(20_000):
        limit.take(number)
        assert len(limit._full_at) <= 2000
    assert limit.take("busy") > 0


@pytest.mark.parametrize(("seconds", "header"), [(0.01, "1"), (1, "1"), (1.01, "2"), (100, "100")])
def test_retry_after_is_whole_seconds(seconds: float, header: str) -> None:
    assert retry_after(seconds) == header


# Over the wire.


@pytest.fixture
def narrow(world_copy: WorldCopy, tmp_path: Path) -> Iterator[Live]:
    """A server that allows two reads, two writes and three failed authentications, and then next to nothing."""
    few = {f"rl__{name}__rate": 0.01 for name in ("read", "write", "auth")}
    bursts = {"rl__read__burst": 2, "rl__write__burst": 2, "rl__auth__burst": 3}
    with live_server(world_copy, tmp_path, **few, **bursts) as live:
        yield live


async def test_limits_are_per_class_and_principal(narrow: Live) -> None:
    async with client_session() as session:
        alex, sam = (Client(session, narrow.url, narrow.tokens[handle]) for handle in ("alex", "sam"))
        other = Client(session, narrow.url, narrow.issue("alex"))
        assert (await alex.get("/v1/spaces")).status == 200
        assert (await other.get("/v1/spaces")).status == 200
        for client in (alex, other):
            got = await client.get("/v1/spaces")
            assert (got.status, got.code) == (429, "rate_limited")
            assert 1 <= int(got.headers["Retry-After"]) <= 100
            assert got.json["retry_after_ms"] > 0
        assert (await sam.get("/v1/spaces")).status == 200
        sample = SAMPLES["createMessage"]
        assert [(await sample.send(alex, narrow)).status for _ in range(3)] == [404, 404, 429]
        assert (await alex.get("/v1/health")).status == 200


async def test_a_limited_request_is_not_looked_at(narrow: Live) -> None:
    async with client_session() as session:
        alex = Client(session, narrow.url, narrow.tokens["alex"])
        for _ in range(2):
            assert (await alex.get("/v1/spaces?colour=blue")).status == 400
        assert (await alex.get("/v1/spaces?colour=blue")).status == 429


async def test_guessing_tokens_is_limited_per_address_and_does_not_shut_others_out(narrow: Live) -> None:
    async with client_session() as session:
        known = Client(session, narrow.url, narrow.tokens["alex"])
        assert (await known.get("/v1/spaces")).status == 200
        guesser = [Client(session, narrow.url, f"lbx_guess{number}") for number in range(4)]
        assert [(await client.get("/v1/spaces")).status for client in guesser] == [401, 401, 401, 429]
        assert (await known.get("/v1/spaces")).status == 200
        assert (await guesser[0].get("/v1/health")).status == 200
