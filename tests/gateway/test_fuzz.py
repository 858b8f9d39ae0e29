"""Frames of all shapes: legal ones of every type, and the same after something happened to them.

Whatever comes, each frame gets an answer or ends the session in a way of the contract; nothing fails inside, and the
next client is served.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import generated
from generated.gateway_messages import CLOSES, MESSAGES
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Device, Devices, Ended
from tests.gateway.raw_socket import BINARY, CONTINUATION, PING, TEXT, frame, raw

FRAMES: Final = 60
ASYNCAPI: Final = json.loads((Path(generated.__file__).parent / "asyncapi.json").read_bytes())
EXAMPLES: Final = [
    example["payload"]
    for name, message in ASYNCAPI["components"]["messages"].items()
    for example in message["examples"]
    if MESSAGES[message["name"]].sender == "client"
]
JUNK: Final[list[Any]] = [
    None, True, 0, -1, 1.5, 1e308, 2**53, "", " ", "\x00", "\ud800", "x" * 5000, "../..", "-", [], {}, [[]], {"a": {}},
    "01933b7e-0000-7000-8000-00000000abcd", "__proto__", "/ops/0", "/headline", "é\u202e", [0] * 200,
]  # fmt: skip


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_server(module_world_copy, tmp_path_factory.mktemp("data"), gateway__max_violations=1000) as live:
        yield live


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document but the root."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def mutated(random: Random, value: Any) -> Any:
    """A document with one thing changed."""
    value = json.loads(json.dumps(value))
    path = random.choice(places(value))
    target = value
    for key in path[:-1]:
        target = target[key]
    how = random.randrange(4)
    if how == 0:
        del target[path[-1]]
    elif how == 1 and isinstance(target, dict):
        target[random.choice(["more", "type", "id", "", "a/b", "ops", "token"])] = random.choice(JUNK)
    elif how == 2 and isinstance(target, list):
        target.extend(target * random.randrange(1, 4))
    else:
        target[path[-1]] = random.choice(JUNK)
    return value


def text_of(random: Random, value: Any) -> bytes:
    """A frame as text, now and then with broken bytes."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.8).encode("utf-8", "surrogatepass")
    if random.random() < 0.15:
        at = random.randrange(len(text))
        text = text[:at] + bytes([random.randrange(256)]) + text[at + random.randrange(2) :]
    return text


def some_frame(random: Random, held: Held) -> Any:
    """A frame of the contract, about a run that is there."""
    value = json.loads(json.dumps(random.choice(EXAMPLES)))
    if "run_id" in value:
        value |= {"run_id": held.id, "invocation": held.token}
        if "base_version" in value:
            value["base_version"] = held.run["version"] + random.randrange(3)
    for _ in range(random.randrange(3)):
        value = mutated(random, value)
        if not isinstance(value, dict) or not places(value):
            break
    return value


@settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
@given(random=st.randoms(use_true_random=False))
def test_every_text_is_answered_or_ends_it_as_the_contract_says(live: Live, random: Random) -> None:
    stage = Stage(live)
    held = stage.running()
    stage.close()

    async def play() -> None:
        async with aiohttp.ClientSession() as session:
            devices = Devices(session, live)
            device: Device | None = None
            for _ in range(FRAMES):
                device = device or await devices.enter("lotse", capabilities={"invocations": 0})
                value = some_frame(random, held)
                if isinstance(value, dict) and value.get("type") == "hello":
                    value["token"] = random.choice([live.tokens["lotse"], value.get("token")])
                text = text_of(random, value)
                try:
                    await device.socket.send_frame(text, aiohttp.WSMsgType.TEXT)
                    await device.settled()
                except (Ended, ConnectionError):
                    code = await device.closed()
                    assert code in {close.code for close in CLOSES.values()}, (code, text)
                    device = None
                if device is not None:
                    problems = [found["problem"] for found in device.of("error")]
                    assert all(problem["status"] < 500 for problem in problems), (problems, text)
            await devices.close()

    asyncio.run(play())


@settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
@given(random=st.randoms(use_true_random=False))
def test_bytes_of_any_kind_hurt_nobody(live: Live, random: Random) -> None:
    async def play() -> None:
        async with raw(live) as stranger, raw(live) as other:
            other.say("hello", token=live.tokens["alex"])
            await other.first("ready")
            for _ in range(random.randrange(1, 8)):
                sent = frame(
                    random.randbytes(random.randrange(300)),
                    random.choice([TEXT, TEXT, BINARY, CONTINUATION, PING, 3, 8, 11]),
                    fin=random.random() < 0.8,
                    rsv=random.choice([0, 0, 0, 1, 4]),
                    mask=random.random() < 0.9,
                )
                cut = random.randrange(len(sent)) if random.random() < 0.2 else len(sent)
                stranger.writer.write(sent[:cut])
            with suppress(ConnectionError):
                stranger.writer.write_eof()
                assert await stranger.over()
            other.say("ping", id="1")
            assert (await other.first("pong"))["reply_to"] == "1"

    asyncio.run(play())
