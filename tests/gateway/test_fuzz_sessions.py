"""Histories of sessions: frames made from the contract, broken ones among them, cuts and returns, while runs go on.

Whatever came: each frame with an id is answered once, by frames that keep to the contract; a session ends in a way of
the contract; nothing failed inside; nobody got a byte of what they may not see; and afterwards everybody is served.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import strategies as st
from structlog.testing import capture_logs

from generated.gateway_messages import CLOSES
from livebox.world import OWNER
from tests.fixtures.fuzzing import Budget
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import ROOM, Held, Stage
from tests.fixtures.wire import absent, fresh
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Device, Devices, Ended
from tests.gateway.made_frames import BREAKERS, FITS, FRAMES, KINDS, Json, Sent, Spot, filled, text_of
from tests.gateway.raw_socket import TEXT
from tests.gateway.test_focus import still

HISTORIES: Final = 16
STEPS_MIN: Final = 20
STEPS_MAX: Final = 60
MAX_FRAME: Final = 16 * 1024
VIOLATIONS: Final = 20
ENDS: Final = {close.code for close in CLOSES.values()} | {1000}
WHO: Final = ("agent", "alex", "nobody")
_ID: Final = re.compile(r"[\x20-\x7e]{1,64}", re.ASCII)
_HALF: Final = re.compile(r"[\ud800-\udfff]")

FRAME: Final = st.sampled_from(KINDS).flatmap(lambda kind: FRAMES[kind])
BROKEN: Final = st.one_of(st.none(), st.sampled_from(sorted(BREAKERS)))
SAY: Final = st.tuples(st.just("say"), st.sampled_from(WHO), FRAME, BROKEN, st.integers(0, 2**32))
STEPS: Final = st.one_of(
    *[SAY] * 6,
    st.tuples(st.just("look"), st.sampled_from(WHO), st.integers(0, 3)),
    st.tuples(st.just("early"), st.sampled_from(WHO), FRAME),
    st.tuples(st.just("leave"), st.sampled_from(WHO), st.booleans()),
    st.tuples(st.just("work"), st.sampled_from(["message", "step", "cancel", "finish", "ask", "open", "hidden"])),
)


class Client:
    """One principal over all its sessions. `asked` are the ids that wait for their answer in the present one."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.device: Device | None = None
        self.asked: Counter[str] = Counter()
        self.perhaps: Counter[str] = Counter()
        """Ids of frames that others read and the server need not."""
        self.seq = 0


def id_of(sent: Sent) -> tuple[str, bool]:
    """The id that the answer to a message repeats, empty where there is none; and whether it certainly does."""
    opcode, payload = sent
    try:
        value = json.loads(payload.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "", False
    found = value.get("id") if isinstance(value, dict) else None
    if not isinstance(found, str) or not _ID.fullmatch(found) or opcode != TEXT:
        return "", False
    # What a native parser stops at is no document of which something could be said.
    again = json.dumps(value)
    strange = _HALF.search(json.dumps(value, ensure_ascii=False)) or re.search(r"\d{16}|Infinity|\de\+", again)
    return found, not strange and payload.count(b"[") < 30


def _refuse(name: str) -> Any:
    raise ValueError(name)


class History:
    """Three clients, a run that one works on and another watches, a second one, and one that neither may see."""

    def __init__(self, stage: Stage, devices: Devices) -> None:
        self.stage = stage
        self.devices = devices
        # An agent of its own, so that nothing of another history is handed to this one's sessions.
        agent, nobody = stage.principal("agent"), stage.principal()
        stage.grant(agent, "write", channel_id=stage.world.channels[ROOM])
        for handle in (agent, nobody):
            stage.live.tokens[handle] = stage.live.issue(handle)
        self.clients = {"agent": Client(agent), "alex": Client("alex"), "nobody": Client(nobody)}
        self.runs = [stage.running(agent=agent), stage.running(agent=agent)]
        self.hidden = stage.running(OWNER, "texter", "Marketing/General")
        self.versions: Counter[str] = Counter()
        self.followups = [absent(), absent()]
        self.number = 0
        seen = [held.id for held in self.runs] + [str(held.run["thread_id"]) for held in self.runs]
        unseen = [self.hidden.id, str(self.hidden.run["thread_id"])]
        self.secrets = {"agent": unseen, "alex": unseen, "nobody": seen + unseen}

    # what is there to be named

    def fill(self, who: str, spot: Spot, base: str) -> Any:
        """What a member is filled with; `base` is the run of the frame."""
        three: list[Held] = [*self.runs, self.hidden]
        pick = spot.pick
        match spot.name:
            case "run_id":
                return [*(held.id for held in three), absent()][pick]
            case "thread_id":
                return [*(held.run["thread_id"] for held in three), absent()][pick]
            case "invocation":
                mine = next((held.token for held in three if held.id == base), "none")
                return [mine, mine, self.hidden.token, "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl"][pick]
            case "token":
                mine = self.stage.live.tokens[self.clients[who].handle]
                return [mine, mine, self.stage.live.tokens["alex"], "lbx_none"][pick]
            case "base_version":
                return max(1, self.versions[base] + [0, 0, 1, -1][pick])
            case "resume_after":
                return max(0, self.clients[who].seq + [0, -3, 5, -100][pick])
        return [self.followups[-1], self.followups[0], absent(), absent()][pick]

    def frame_of(self, who: str, made: Json) -> Json:
        """A frame whose spots are filled, and whose id is its own."""
        base = made.get("run_id", "")
        run_id = self.fill(who, base, "") if isinstance(base, Spot) else base
        self.number += 1
        if "id" in made or self.number % 2:
            made = {**made, "id": f"f-{self.number}"}
        frame: Json = filled(made, lambda spot: run_id if spot is base else self.fill(who, spot, run_id))
        for name in ("thread_ids", "run_ids"):
            if name in frame:
                frame[name] = list(dict.fromkeys(frame[name]))
        assert not FITS[frame["type"]](frame), frame
        return frame

    # steps

    async def do(self, step: tuple[Any, ...]) -> None:
        await getattr(self, step[0])(*step[1:])

    async def enter(self, client: Client) -> Device:
        """The session of a client, a new one when the last is over."""
        if client.device is None:
            more: Json = {"resume_after": client.seq} if client.seq else {}
            if client is self.clients["agent"]:
                more["capabilities"] = {"invocations": self.number % 3}
            client.device = await self.devices.enter(client.handle, **more)
            client.asked.clear()
            client.perhaps.clear()
        return client.device

    async def say(self, who: str, made: Json, broken: str | None, seed: int) -> None:
        client = self.clients[who]
        device = await self.enter(client)
        frame = self.frame_of(who, made)
        sent = BREAKERS[broken](Random(seed), frame) if broken else (TEXT, text_of(frame))
        await self._send(client, device, sent)
        if seed % 3:
            await self.settle(client)

    async def _send(self, client: Client, device: Device, sent: Sent) -> None:
        found, certain = id_of(sent)
        if found:
            (client.asked if certain else client.perhaps)[found] += 1
        try:
            await device.socket.send_frame(sent[1], aiohttp.WSMsgType(sent[0]))
        except ConnectionError:
            await self._ended(client, device)

    async def look(self, who: str, what: int) -> None:
        """Look at a run that is there."""
        client = self.clients[who]
        device = await self.enter(client)
        three = [*self.runs, self.hidden]
        frame = {
            "type": "focus",
            "id": f"look-{self.number}-{what}",
            "run_ids": [held.id for held in three[: what + 1]],
        }
        await self._send(client, device, (TEXT, text_of(frame)))
        await self.settle(client)

    async def early(self, who: str, made: Json) -> None:
        """Something is said before the hello, which the session then still takes."""
        client = self.clients[who]
        device = await self.devices.connect()
        frame = self.frame_of(who, made)
        if frame["type"] == "hello":
            return
        frame["id"] = "early"
        await device.say(frame.pop("type"), **frame)
        assert (await device.answer("early"))["problem"]["code"] == "validation_failed"
        ready = await device.ask("hello", token=self.stage.live.tokens[client.handle], capabilities={"invocations": 0})
        assert ready["type"] == "ready"
        self.kept(who, device)
        await device.close()

    async def leave(self, who: str, politely: bool) -> None:
        """The session ends, with or without a word; the next one goes on from where it was."""
        client = self.clients[who]
        if client.device is None:
            return
        if politely:
            await self.settle(client)
        if client.device is not None:
            device, client.device = client.device, None
            if not politely:
                connection = device.socket._response.connection
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()  # type: ignore[attr-defined]
            self.kept(who, device)
            await device.close()

    async def work(self, what: str) -> None:
        """Something happens to the first run, by whoever may; what does not fit its state is refused."""
        held = self.hidden if what == "hidden" else self.runs[0]
        agent = "texter" if what == "hidden" else self.clients["agent"].handle
        wire, more = self.stage.as_(agent), {"headers": held.headers, "run_id": held.id}
        match what:
            case "message":
                message = self.stage.message(held.run["thread_id"], "alex", "And last week?")
                self.followups.append(message["id"])
            case "cancel":
                self.stage.as_("alex").call("cancelRun", {}, run_id=held.id)
            case "finish":
                wire.call("finishRun", {"state": "completed"}, **more)
            case "open":
                thread_id = self.stage.thread()
                self.stage.message(thread_id, "alex", "Which files changed?", [agent])
                self.secrets["nobody"].append(thread_id)
            case "ask":
                wire.call("awaitRunInput", {"prompt": "Which week?"}, **more)
            case _:
                wire.call("recordRunStep", {"kind": "tool", "name": "read_folder"}, step_id=fresh(), **more)

    # what must be so

    async def settle(self, client: Client) -> None:
        """Everything that was asked is answered once, or the session has ended as the contract says."""
        device = client.device
        if device is None:
            return
        try:
            await device.settled()
        except (Ended, ConnectionError):
            await self._ended(client, device)
            return
        self._answered(client, device, all_of_them=True)
        self.learn(client, device)

    def _answered(self, client: Client, device: Device, *, all_of_them: bool) -> None:
        replies = Counter(frame["reply_to"] for frame in device.frames if "reply_to" in frame)
        for found, count in client.asked.items():
            most = count + client.perhaps[found]
            assert replies[found] <= most, (found, device.of("error"))
            assert replies[found] >= count or not all_of_them, f"{found!r} was not answered: {device.frames[-3:]}"

    async def _ended(self, client: Client, device: Device) -> None:
        code = await device.closed()
        assert code in ENDS, code
        self._answered(client, device, all_of_them=False)
        self.learn(client, device)
        self.kept(next(who for who, other in self.clients.items() if other is client), device)
        client.device = None

    def learn(self, client: Client, device: Device) -> None:
        """Versions and positions that the client knows now."""
        for frame in device.frames:
            if frame["type"] == "run.document":
                self.versions[frame["run"]["id"]] = frame["run"]["version"]
            elif frame["type"] == "run.updated":
                self.versions[frame["run_id"]] = frame["version"]
            elif frame["type"] == "error" and "run" in frame["problem"]:
                self.versions[frame["problem"]["run"]["id"]] = frame["problem"]["run"]["version"]
            elif frame["type"] == "event":
                client.seq = max(client.seq, frame["event"]["seq"])
            elif frame["type"] == "heartbeat" or "heartbeat" in frame:
                self.versions[frame["heartbeat"]["run_id"]] = frame["heartbeat"]["version"]

    def kept(self, who: str, device: Device) -> None:
        """The server kept to what holds for every frame, in this session."""
        told = json.dumps(device.frames)
        assert not [secret for secret in self.secrets[who] if secret in told], who
        problems = [frame["problem"] for frame in device.of("error")]
        assert all(problem["status"] < 500 for problem in problems), problems
        seqs = [frame["event"]["seq"] for frame in device.of("event")]
        assert seqs == sorted(set(seqs)), seqs

    async def end(self) -> None:
        """Everybody leaves, and comes again as if nothing had been."""
        for who, client in self.clients.items():
            if client.device is not None:
                await self.settle(client)
            await self.leave(who, True)
            device = await self.devices.enter(client.handle, capabilities={"invocations": 0})
            wanted = [held.id for held in self.runs]
            answer = await device.ask("focus", run_ids=[*wanted, self.hidden.id])
            assert answer["run_ids"] == ([] if who == "nobody" else wanted)
            for run_id in answer["run_ids"]:
                served = still(self.stage.as_(OWNER).call("getRun", run_id=run_id).ok())
                await device.until(lambda run_id=run_id, device=device: run_id in device.documents, "the document")
                await device.until(
                    lambda run_id=run_id, device=device, served=served: (
                        device.documents[run_id]["version"] >= served["version"]
                    ),
                    "the version",
                )
                assert still(device.documents[run_id]) == served
            assert not device.gaps
            self.kept(who, device)
            await device.close()


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        gateway__max_violations=VIOLATIONS,
        gateway__max_frame_bytes=MAX_FRAME,
    ) as live:
        yield live


async def play(stage: Stage, steps: list[tuple[Any, ...]]) -> None:
    """One history on a server."""
    async with aiohttp.ClientSession() as session:
        devices = Devices(session, stage.live)
        history = History(stage, devices)
        for step in steps:
            await history.do(step)
        await history.end()
        await devices.close()


# The server's thread uses what hypothesis takes for a strategy's own randomness.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_histories_of_sessions(stage: Stage, fuzzing: Budget, caplog: pytest.LogCaptureFixture) -> None:
    def history(steps: list[tuple[Any, ...]]) -> None:
        with capture_logs() as lines:
            asyncio.run(play(stage, steps))
        assert not [line for line in lines if line["log_level"] in ("error", "critical")]
        assert not [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]

    fuzzing.explore(st.lists(STEPS, min_size=STEPS_MIN, max_size=STEPS_MAX), HISTORIES, history)
