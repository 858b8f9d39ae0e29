"""Who may have a session, for how long, and how it ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from db import instance
from generated.gateway_messages import CLOSES
from livebox import jwks
from livebox.auth import new_token, token_hash
from livebox.world import OWNER
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Devices
from tests.gateway.raw_socket import PING, PONG, entered, frame, raw

ISSUER = "https://login.example.com"
KEY = Ed25519PrivateKey.generate()
SESSIONS = 3
BEAT = 0.2
CLOSE = {name: close.code for name, close in CLOSES.items()}


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("keys")
    file = Path(folder) / "jwks.json"
    file.write_text(json.dumps(jwks.document({"k": KEY.public_key()})))
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        gateway__sessions_max=SESSIONS,
        gateway__hello_timeout=0.5,
        gateway__recheck_interval=0.05,
        gateway__origins="https://app.example.com https://Other.example.com:8443",
        auth__jwt_issuer=ISSUER,
        auth__jwt_jwks_file=str(file),
        auth__jwt_leeway=0,
    ) as live:
        yield live


def minted(live: Live, handle: str, seconds: float) -> str:
    """A JWT of a principal that is good for so long, by the clock of the database."""
    now = live.app.edge._authenticator.now()
    claims = {"iss": ISSUER, "aud": "livebox", "sub": live.world.principals[handle], "exp": now + seconds}
    return jwt.encode(claims, KEY, "EdDSA", headers={"kid": "k"})


@pytest.mark.parametrize("token", ["x", "lbx_unknown", "ä", "a b", "a\nb", "eyJ.e30.x"])
async def test_a_bad_token_is_refused_and_ends_it(devices: Devices, token: str) -> None:
    device = await devices.connect()
    assert (await device.refused("hello", token=token))["code"] == "invalid_token"
    assert await device.closed() == CLOSE["invalid_token"]


async def test_an_expired_token_is_told_as_such(devices: Devices, live: Live) -> None:
    def expired() -> int:
        return sum(token.state == "expired" for token in instance.list_tokens(live.dsn, "alex"))

    before = expired()
    brief = live.issue("alex", 0.1)
    await eventually(lambda: expired() > before)
    for token in (minted(live, "alex", -1), brief):
        device = await devices.connect()
        problem = await device.refused("hello", token=token)
        assert problem["code"] == "token_expired"
        assert await device.closed() == CLOSE["token_expired"]


async def test_who_says_nothing_is_sent_away(live: Live) -> None:
    async with raw(live) as connection:
        assert await connection.closed() == CLOSE["no_hello"]
        assert await connection.over()


async def test_a_session_ends_with_its_token_unless_it_is_renewed(devices: Devices, live: Live) -> None:
    short = await devices.enter("alex", token=minted(live, "alex", 0.7))
    renewed = await devices.enter("alex", token=minted(live, "alex", 0.7))
    answer = await renewed.ask("hello", token=minted(live, "alex", 300))
    assert answer["type"] == "result"
    assert await short.closed() == CLOSE["token_expired"]
    assert (await short.first("bye"))["reason"] == "token_expired"
    assert (await renewed.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("around", [" {}", "{} ", "  {}  "])
async def test_spaces_around_a_token_do_not_make_it_last(devices: Devices, live: Live, around: str) -> None:
    device = await devices.enter("alex", token=around.format(minted(live, "alex", 0.7)))
    assert await device.closed() == CLOSE["token_expired"]


async def test_a_local_token_ends_too(devices: Devices, live: Live) -> None:
    device = await devices.enter("alex", token=live.issue("alex", 0.5))
    assert await device.closed() == CLOSE["token_expired"]


async def test_a_session_stays_with_its_principal(devices: Devices, live: Live) -> None:
    device = await devices.enter("alex")
    assert (await device.refused("hello", token=live.tokens["sam"]))["code"] == "invalid_token"
    assert await device.closed() == CLOSE["invalid_token"]


async def test_only_the_first_hello_resumes(devices: Devices, live: Live) -> None:
    device = await devices.enter("alex")
    problem = await device.refused("hello", token=live.tokens["alex"], resume_after=0)
    assert [(error["code"], error["pointer"]) for error in problem["errors"]] == [("unknown_field", "/resume_after")]


async def test_revoking_a_token_ends_its_sessions_and_no_others(devices: Devices, live: Live) -> None:
    token = new_token()
    issued = instance.issue_token(live.dsn, "alex", token_hash(token), 3600)
    assert issued is not None
    gone, stays = await devices.enter("alex", token=token), await devices.enter("alex")
    assert instance.revoke_token(live.dsn, issued.token_id)
    assert await gone.closed() == CLOSE["invalid_token"]
    assert gone.of("error")[-1]["problem"]["code"] == "invalid_token"
    assert (await stays.ask("ping"))["type"] == "pong"


async def test_disabling_ends_sessions_before_it_is_answered(devices: Devices, stage: Stage) -> None:
    handle = stage.principal()
    stage.live.tokens[handle] = stage.live.issue(handle)
    device, sam = await devices.enter(handle), await devices.enter("sam")
    stage.as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(handle)).ok()
    thread_id = stage.thread()
    assert await device.closed() == CLOSE["invalid_token"]
    assert not [event for event in device.events() if event["scope"].get("thread_id") == thread_id]
    assert (await sam.ask("ping"))["type"] == "pong"
    again = await devices.connect()
    assert (await again.refused("hello", token=stage.live.tokens[handle]))["code"] == "invalid_token"


async def test_the_oldest_session_makes_room(devices: Devices, stage: Stage) -> None:
    handle = stage.principal()
    stage.live.tokens[handle] = stage.live.issue(handle)
    mine = [await devices.enter(handle) for _ in range(SESSIONS)]
    sam = await devices.enter("sam")
    another = await devices.enter(handle)
    assert await mine[0].closed() == CLOSE["replaced"]
    bye = mine[0].frames[-1]
    assert (bye["type"], bye["reason"]) == ("bye", "replaced")
    for device in (*mine[1:], another, sam):
        assert (await device.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("origin", ["https://app.example.com", "https://other.example.com:8443", "http://localhost"])
async def test_pages_from_here_and_from_where_is_allowed_may_connect(live: Live, origin: str) -> None:
    async with raw(live, Origin=origin) as connection:
        connection.say("hello", token=live.tokens["alex"])
        await connection.first("ready")


@pytest.mark.parametrize(
    "origin", ["https://evil.example.com", "null", "", "http://localhost:1", "https://app.example.com:8443"]
)
async def test_pages_from_elsewhere_are_told_so(live: Live, origin: str) -> None:
    async with raw(live, Origin=origin) as connection:
        connection.say("hello", token=live.tokens["alex"])
        assert await connection.closed() == CLOSE["origin"]
        assert not [got for got in connection.got if got.opcode == 1]


async def test_failed_attempts_are_limited(world_copy: WorldCopy, tmp_path: Path) -> None:
    with live_server(world_copy, tmp_path, rl__auth__rate=0.01, rl__auth__burst=3) as live:
        for _ in range(3):
            async with raw(live) as connection:
                connection.say("hello", token="lbx_guess")
                assert (await connection.first("error"))["problem"]["code"] == "invalid_token"
        async with raw(live) as connection:
            connection.say("hello", token="lbx_guess")
            problem = (await connection.first("error"))["problem"]
            assert problem["code"] == "rate_limited"
            assert problem["retry_after_ms"] > 0


@pytest.fixture(scope="module")
def beating(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory, live: Live) -> Iterator[Live]:
    """A second server on the same database that pings often."""
    other = Live(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        {"gateway.heartbeat_interval": BEAT, "gateway.max_frame_bytes": 1 << 20},
    )
    other.loop = uvloop.new_event_loop()
    thread = threading.Thread(target=other.loop.run_forever, daemon=True)
    thread.start()
    other.run(other._start())
    other.world, other.tokens = live.world, live.tokens
    yield other
    other.run(other.app.stop())
    other.loop.call_soon_threadsafe(other.loop.stop)
    thread.join()


async def test_who_only_answers_pings_stays(beating: Live) -> None:
    async with entered(beating, "alex") as alex:
        pings = 0
        while pings < 10:
            alex.got.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT / 4):
                    await alex.next()
            for got in alex.got:
                if got.opcode == PING:
                    pings += 1
                    alex.send(got.payload, PONG)
        alex.say("ping", id="1")
        assert (await alex.first("pong"))["reply_to"] == "1"


async def test_who_answers_nothing_is_taken_for_gone(beating: Live) -> None:
    async with entered(beating, "alex") as alex:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await alex.closed()
        assert sum(got.opcode == PING for got in alex.got) >= 2
        await eventually(lambda: not beating.app.hub.of(beating.world.principals["alex"]))


async def test_a_long_frame_on_its_way_counts_as_life(beating: Live) -> None:
    """It comes in small pieces for longer than two missed pings would take, and no ping is answered meanwhile."""
    text = json.dumps({"type": "ping", "id": "1"}).encode()
    data = frame(text + b" " * 100_000)
    async with entered(beating, "alex") as alex:
        pieces = 60
        step = len(data) // pieces + 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for index in range(pieces):
            alex.writer.write(data[index * step : (index + 1) * step])
            await asyncio.sleep(BEAT * 6 / pieces)
        assert loop.time() - begun > BEAT * 5
        assert (await alex.first("pong"))["reply_to"] == "1"


async def test_two_devices_of_one_person_do_not_mind_each_other(beating: Live, stage: Stage) -> None:
    held = stage.running()
    async with entered(beating, "alex") as frozen, entered(beating, "alex") as other:
        other.say("focus", id="1", run_ids=[held.id])
        await other.first("result")
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(30):
                while True:
                    head = await frozen.reader.readexactly(2)
                    await frozen.reader.readexactly(head[1] if head[1] < 126 else 0)
                    other.send(b"", PONG)
        stage.step(held)
        assert (await other.first("run.updated"))["run_id"] == held.id


async def test_a_gone_client_leaves_nothing(devices: Devices, live: Live, stage: Stage) -> None:
    held = stage.running()
    hub = live.app.hub
    before = len(hub.sessions)
    for _ in range(5):
        device = await devices.enter("alex")
        await device.ask("focus", thread_ids=[held.run["thread_id"]], run_ids=[held.id])
        transport: Any = device.socket._response.connection.transport  # type: ignore[union-attr]
        transport.abort()
        await device.closed()
    await eventually(lambda: len(hub.sessions) == before)
    assert not list(hub.focus.watchers(held.id))


async def test_sessions_and_their_ends_are_counted(devices: Devices, live: Live, stage: Stage) -> None:
    held = stage.running()
    device = await devices.enter("sam")
    alex = await devices.enter("alex")
    await alex.ask("focus", run_ids=[held.id])

    def measured(name: str) -> float:
        lines = live.app.telemetry.exposition().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    assert measured("livebox_gateway_sessions") == len(live.app.hub.sessions)
    assert measured("livebox_run_watchers") == 1
    before = measured('livebox_gateway_closes_total{code="4501"}')
    lagged = measured("livebox_event_lag_seconds_count")
    assert (await device.refused("hello", token="lbx_other"))["code"] == "invalid_token"
    await device.closed()
    await eventually(lambda: measured('livebox_gateway_closes_total{code="4501"}') == before + 1)
    message = stage.message()
    await alex.event("message.created", thread_id=message["thread_id"])
    await eventually(lambda: measured("livebox_event_lag_seconds_count") > lagged)


async def test_a_session_that_fails_inside_says_so(devices: Devices, live: Live) -> None:
    device = await devices.enter("alex")
    (session,) = (found for found in live.app.hub.of(live.world.principals["alex"]))

    def broken(frame: object) -> None:
        raise RuntimeError("a fault")

    session._ping = broken  # type: ignore[method-assign, assignment]
    assert (await device.refused("ping"))["code"] == "internal_error"
    session._take = broken  # type: ignore[method-assign, assignment]
    await device.say("ping")
    assert await device.closed() == CLOSE["internal_error"]
