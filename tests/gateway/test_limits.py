"""Too much at once: refused early, to who causes it, and never gathered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Devices
from tests.gateway.raw_socket import PING, entered

BURST = 10
ABSENT = "01933b7e-0000-7000-8000-00000000dead"


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    tight = {f"rl__{name}__rate": 0.01 for name in ("read", "patch")} | {
        f"rl__{name}__burst": BURST for name in ("read", "patch")
    }
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        gateway__send_queue_soft_bytes=64 * 1024,
        gateway__send_queue_hard_bytes=1 << 20,
        **tight,
    ) as live:
        yield live


async def test_a_flood_is_refused_with_when_to_come_back(devices: Devices, stage: Stage) -> None:
    who = stage.principal()
    stage.live.tokens[who] = stage.live.issue(who)
    device, another, sam = await devices.enter(who), await devices.enter(who), await devices.enter("sam")
    left = BURST - 2
    answers = [await device.ask("ping") for _ in range(left + 5)]
    assert [answer["type"] for answer in answers] == ["pong"] * left + ["error"] * 5
    problem = answers[-1]["problem"]
    assert (problem["code"], problem["status"]) == ("rate_limited", 429)
    assert problem["retry_after_ms"] > 0
    assert (await another.refused("ping"))["code"] == "rate_limited", "one budget for all sessions of a principal"
    newcomer = await devices.connect()
    assert (await newcomer.refused("hello", token=stage.live.tokens[who]))["code"] == "rate_limited"
    assert (await newcomer.ask("hello", token=stage.live.tokens["sam"]))["type"] == "ready"
    assert (await sam.ask("ping"))["type"] == "pong"


async def test_patches_have_a_budget_of_their_own(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    lotse = await devices.enter("lotse", capabilities={"invocations": 0})
    codes = []
    version = held.run["version"]
    for _ in range(BURST + 3):
        op = {"op": "add", "path": "/headline", "value": "x"}
        answer = await lotse.ask("run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[op])
        codes.append(answer["type"] if answer["type"] == "result" else answer["problem"]["code"])
        version = answer.get("version", version)
    assert codes == ["result"] * BURST + ["rate_limited"] * 3


async def test_who_asks_and_never_reads_is_not_answered_without_end(live: Live) -> None:
    """The server stops reading from a client that does not read: nothing gathers on either side."""
    async with entered(live, "robin") as robin:
        hub = live.app.hub
        (session,) = hub.of(live.world.principals["robin"])
        text = b'{"type":"shout"}'
        robin.writer.transport.set_write_buffer_limits(1 << 30)  # type: ignore[union-attr]
        robin.writer.transport.pause_reading()  # type: ignore[attr-defined, union-attr]
        live.app.hub.max_violations = 10**9
        try:
            for _ in range(100):
                for _ in range(1000):
                    robin.send(text)
            for _ in range(10_000):
                robin.send(b"x" * 100, PING)
            await eventually(lambda: session.behind_since or session.gone)
            assert not session.gone, "it was answered until nothing more could be kept"
            assert session.connection.unsent() < 2 * hub.soft
        finally:
            live.app.hub.max_violations = 10


async def test_a_token_that_holds_nothing_counts_too(devices: Devices, stage: Stage) -> None:
    """Whatever is answered costs something, so a bad token is no way around the limit."""
    agent = stage.principal("agent")
    stage.live.tokens[agent] = stage.live.issue(agent)
    device = await devices.enter(agent, capabilities={"invocations": 0})
    op = {"op": "add", "path": "/headline", "value": "x"}
    said = {"run_id": ABSENT, "invocation": "lbi_none", "base_version": 1, "ops": [op]}
    codes = [(await device.refused("run.update", **said))["code"] for _ in range(BURST + 3)]
    assert codes == ["invalid_token"] * BURST + ["rate_limited"] * 3
