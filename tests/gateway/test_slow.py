"""Devices that do not read: they harm nobody, cost a bounded amount of memory, and are made good for or cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from generated.gateway_messages import CLOSES
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Device, Devices
from tests.gateway.raw_socket import Raw, frame, handshake
from tests.gateway.test_focus import shows, still

SOFT, HARD = 32 * 1024, 256 * 1024
BIG = "x" * 12_000
SLOW = 2.0


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        gateway__send_queue_soft_bytes=SOFT,
        gateway__send_queue_hard_bytes=HARD,
        gateway__slow_consumer_timeout=SLOW,
        run__patch_rate=1_000_000,
        run__patch_burst=1_000_000,
    ) as live:
        yield live


class Deaf:
    """A device with a small receive buffer that reads only when it is told to."""

    def __init__(self, live: Live, handle: str) -> None:
        self._live = live
        self._handle = handle
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    async def enter(self, **focus: Any) -> Any:
        """Its session, on the server."""
        loop = asyncio.get_running_loop()
        self.socket.setblocking(False)
        await loop.sock_connect(self.socket, ("127.0.0.1", self._live.port))
        hello = b'{"type":"hello","token":"%s"}' % self._live.tokens[self._handle].encode()
        await loop.sock_sendall(self.socket, handshake() + frame(hello))
        hub, principal = self._live.app.hub, self._live.world.principals[self._handle]
        await eventually(lambda: hub.of(principal))
        session = hub.of(principal)[-1]
        if focus:
            import msgspec

            await loop.sock_sendall(self.socket, frame(msgspec.json.encode({"type": "focus", "id": "f", **focus})))
            await eventually(lambda: session.documents)
        return session

    async def listen(self) -> Raw:
        """From now on it reads."""
        reader, writer = await asyncio.open_connection(sock=self.socket)
        await reader.readuntil(b"\r\n\r\n")
        return Raw(reader, writer)


class Agent:
    """Patches one run, each time with a large text."""

    def __init__(self, device: Device, stage: Stage) -> None:
        self.device = device
        self.held = stage.running()
        self.version = self.held.run["version"]

    async def patch(self, count: int, text: str = BIG) -> None:
        """So many patches, each acknowledged."""
        for number in range(count):
            ops = [{"op": "add", "path": "/text", "value": {"content": f"{number} {text}"}}]
            answer = await self.device.ask(
                "run.update", run_id=self.held.id, invocation=self.held.token, base_version=self.version, ops=ops
            )
            assert answer["type"] == "result", answer
            self.version = answer["version"]


async def agent_of(devices: Devices, stage: Stage) -> Agent:
    """An agent with a run."""
    return Agent(await devices.enter("lotse", capabilities={"invocations": 0}), stage)


async def test_patches_are_left_out_and_made_good_by_a_document(devices: Devices, stage: Stage, live: Live) -> None:
    agent = await agent_of(devices, stage)
    alex = await devices.enter("alex")
    await alex.ask("focus", run_ids=[agent.held.id])
    deaf = Deaf(live, "owner")
    session = await deaf.enter(run_ids=[agent.held.id])
    while not session.stale:
        await agent.patch(20)
    assert session.connection.unsent() <= SOFT + 2 * len(BIG)
    await agent.patch(50)
    assert session.connection.unsent() <= SOFT + 2 * len(BIG), "what it does not read does not gather"
    await shows(alex, stage, agent.held.id)
    assert not alex.gaps
    assert len(alex.of("run.document")) == 1, "who reads gets every patch"

    listening = await deaf.listen()
    document: dict[str, Any] = {}
    broken = 0
    while document.get("version") != agent.version:
        got = (await listening.next()).json
        if got["type"] == "run.document":
            document, broken = got["run"], broken + 1
        elif got["type"] == "run.updated":
            assert got["base_version"] == document["version"]
            document = {**document, "text": got["ops"][0]["value"], "version": got["version"]}
    assert broken == 2, "the first document, and one for all that was left out"
    assert still(document)["text"] == still(alex.documents[agent.held.id])["text"]
    await eventually(lambda: not session.stale and not session.behind_since)
    await agent.patch(1, "again")
    assert (await listening.first("run.updated"))["version"] == agent.version
    listening.writer.close()


async def test_events_are_never_left_out(devices: Devices, stage: Stage, live: Live) -> None:
    agent = await agent_of(devices, stage)
    deaf = Deaf(live, "owner")
    session = await deaf.enter(run_ids=[agent.held.id])
    start = session.seq
    while session.follows:
        await agent.patch(20)
        stage.message(by="owner")
    for _ in range(5):
        stage.message(by="owner")
    listening = await deaf.listen()
    last = stage.message(by="owner")
    seqs: list[int] = []
    while True:
        got = (await listening.next()).json
        if got["type"] == "event":
            seqs.append(got["event"]["seq"])
            if got["event"]["resource"]["id"] == last["id"]:
                break
    wanted: list[int] = []
    after = start
    while True:
        page = stage.as_("owner").call("listEvents", query={"after": after, "limit": 200}).ok()
        wanted += [event["seq"] for event in page["items"]]
        after = page["next_after"]
        if not page["has_more"]:
            break
    assert seqs == [seq for seq in wanted if seqs[0] <= seq <= seqs[-1]]
    assert seqs == sorted(set(seqs))
    listening.writer.close()


async def test_who_stays_behind_for_too_long_is_cut_off(devices: Devices, stage: Stage, live: Live) -> None:
    agent = await agent_of(devices, stage)
    alex = await devices.enter("alex")
    await alex.ask("focus", run_ids=[agent.held.id])
    deaf = Deaf(live, "sam")
    stage.grant("sam", "read", channel_id=stage.world.channels["Support/Escalation"])
    session = await deaf.enter(run_ids=[agent.held.id])
    while not session.stale:
        await agent.patch(20)
    await eventually(lambda: session not in live.app.hub.sessions)
    assert session.connection.ending == CLOSES["slow_consumer"].code
    await eventually(lambda: session.connection.unsent() == 0)
    await shows(alex, stage, agent.held.id)
    deaf.socket.close()


async def test_who_reads_again_at_the_last_moment_is_told_why(devices: Devices, stage: Stage, live: Live) -> None:
    agent = await agent_of(devices, stage)
    deaf = Deaf(live, "owner")
    session = await deaf.enter(run_ids=[agent.held.id])
    while not session.stale:
        await agent.patch(20)
    await eventually(lambda: session.connection.ending)
    assert await (await deaf.listen()).closed() == CLOSES["slow_consumer"].code


async def test_beyond_the_hard_cap_it_is_cut_at_once(devices: Devices, stage: Stage, live: Live) -> None:
    """What must arrive and is not taken: no more of it than the cap."""
    deaf = Deaf(live, "robin")
    session = await deaf.enter()

    def fill() -> int:
        from livebox.gateway import frames

        most = 0
        while not session.gone:
            session.send(frames.made("pong", {}, reply_to="x" * 60))
            session.connection.flush()
            most = max(most, session.connection.unsent())
        return most

    async def filling() -> int:
        return fill()

    most = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(filling(), live.loop))
    assert most <= HARD + 512 * 1024
    assert session.connection.ending == CLOSES["slow_consumer"].code
    await eventually(lambda: session not in live.app.hub.sessions)
    with suppress(ConnectionError):
        await (await deaf.listen()).over()


async def test_one_that_never_reads_harms_none_of_a_hundred(devices: Devices, stage: Stage, live: Live) -> None:
    agent = await agent_of(devices, stage)
    readers = [await devices.enter("alex") for _ in range(40)]
    for device in readers:
        await device.ask("focus", run_ids=[agent.held.id])
    deaf = Deaf(live, "owner")
    session = await deaf.enter(run_ids=[agent.held.id])
    most = 0
    for _ in range(15):
        await agent.patch(20)
        most = max(most, session.connection.unsent())
    assert most <= HARD
    for device in readers:
        await device.until(lambda device=device: device.documents[agent.held.id]["version"] == agent.version)
        assert not device.gaps
        assert len(device.of("run.document")) == 1
    deaf.socket.close()
