"""The mock's gateway: a session from the examples of the contract, and every way in which one may end."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from generated.gateway_messages import CLOSES
from livebox.client import Adapter, GatewayRefused, Livebox, RunHandle
from livebox.mock.gateway import STORIES_MAX, Gateway
from livebox.mock.script import Book, scripts
from livebox.settings import Settings
from tests.mock.conftest import Playing

RUN = "01933b7e-0000-7000-8000-000000000051"
THREAD = "01933b7e-0000-7000-8000-000000000021"
OTHER = "01933b7e-0000-7000-8000-0000000000ee"
Frame = dict[str, Any]


def own(script: str) -> str:
    """A token that plays a script and that no other test has."""
    return f"script-{script}.{uuid.uuid4()}"


class Talk:
    """One session, frame by frame."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def say(self, frame: Frame) -> None:
        await self.socket.send_str(json.dumps(frame))

    async def hear(self) -> Frame:
        message = await self.socket.receive(30)
        assert message.type is aiohttp.WSMsgType.TEXT, (message.type, self.socket.close_code)
        found: Frame = json.loads(message.data)
        return found

    async def hello(self, token: str, **more: Any) -> Frame:
        await self.say({"type": "hello", "id": "h", "token": token, **more})
        ready = await self.hear()
        assert (ready["type"], ready["reply_to"]) == ("ready", "h")
        return ready

    async def until(self, kind: str) -> list[Frame]:
        frames = [await self.hear()]
        while frames[-1]["type"] != kind:
            frames.append(await self.hear())
        return frames

    async def rest(self) -> tuple[list[Frame], int | None]:
        """What still comes, and the code of the end."""
        frames = []
        while (message := await self.socket.receive(30)).type is aiohttp.WSMsgType.TEXT:
            frames.append(json.loads(message.data))
        return frames, self.socket.close_code


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Talk]:
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/v1/gateway", protocols=["livebox.v1"]) as socket,
    ):
        assert socket.protocol == "livebox.v1"
        yield Talk(socket)


async def test_a_run_goes_on_while_it_is_looked_at(mock: str) -> None:
    book = Book()
    async with session(mock) as talk:
        assert (await talk.hello(own("run")))["principal"]["kind"] == "person"
        await talk.say({"type": "focus", "id": "f", "thread_ids": [THREAD, OTHER], "run_ids": [RUN, OTHER]})
        frames = await talk.until("event")
    assert frames[0] == {"type": "result", "reply_to": "f", "thread_ids": [THREAD], "run_ids": [RUN]}
    assert frames[1] == {"type": "run.document", **book.frame("run.document")}
    assert frames[2:4] == [{"type": "run.updated", **example} for example in book.frames("run.updated")]
    assert frames[4] == {"type": "event", **book.frame("event", "ended")}


async def test_what_is_not_there_is_left_out(mock: str) -> None:
    async with session(mock) as talk:
        await talk.hello(own("run"))
        await talk.say({"type": "focus", "id": "f", "run_ids": [OTHER]})
        await talk.say({"type": "ping", "id": "p"})
        assert await talk.hear() == {"type": "result", "reply_to": "f", "thread_ids": [], "run_ids": []}
        assert await talk.hear() == {"type": "pong", "reply_to": "p"}
        await talk.say({"type": "ping"})
        assert await talk.hear() == {"type": "pong"}
        await talk.say({"type": "hello", "id": "h2", "token": "a newer one"})
        assert await talk.hear() == {"type": "result", "reply_to": "h2"}


async def test_the_log_goes_on_where_it_was(mock: str) -> None:
    token = own("run")
    async with session(mock) as talk:
        assert (await talk.hello(token))["seq"] == 44
        await talk.say({"type": "focus", "run_ids": [RUN]})
        assert (await talk.until("event"))[-1]["event"]["seq"] == 45
    async with session(mock) as talk:
        assert (await talk.hello(token, resume_after=43))["seq"] == 45
        assert [(await talk.hear())["event"]["seq"] for _ in range(2)] == [44, 45]
    for position in (7, 46):
        async with session(mock) as talk:
            await talk.hello(token, resume_after=position)
            assert await talk.hear() == {"type": "resync", "after": 45}
    async with session(mock) as talk:  # the run begins again, the log does not
        await talk.hello(token)
        await talk.say({"type": "focus", "run_ids": [RUN]})
        frames = await talk.until("event")
        assert frames[0]["run"]["state"] == "running"
        assert frames[-1]["event"]["seq"] == 46


async def test_a_patch_is_applied_by_the_real_rules(mock: str) -> None:
    def patch(base: int, path: str = "/headline", **more: Any) -> Frame:
        return {"type": "run.update", "id": "u", "run_id": RUN, "base_version": base,
                "ops": [{"op": "add", "path": path, "value": "Counting"}], **more}  # fmt: skip

    async with session(mock) as talk:
        await talk.hello(own("run"))
        await talk.say(patch(4))
        problem = (await talk.hear())["problem"]
        assert problem["errors"][0]["pointer"] == "/invocation"
        await talk.say(patch(4, invocation="any"))
        assert await talk.hear() == {"type": "result", "reply_to": "u", "version": 5}
        await talk.say(patch(4))
        conflict = (await talk.hear())["problem"]
        assert (conflict["code"], conflict["run"]["version"], conflict["run"]["headline"]) == (
            "version_conflict",
            5,
            "Counting",
        )
        await talk.say(patch(5, "/state"))
        assert (await talk.hear())["problem"]["errors"][0]["code"] == "patch_path_forbidden"
        await talk.say({**patch(5), "run_id": OTHER})
        assert (await talk.hear())["problem"]["code"] == "invalid_token"


async def test_work_for_an_agent(mock: str) -> None:
    book = Book()
    async with session(mock) as talk:
        assert (await talk.hello(own("run"), capabilities={}))["principal"]["kind"] == "agent"
        assert await talk.hear() == {"type": "agent.invocation", **book.frame("agent.invocation")}
        await talk.say({"type": "ack", "id": "a", "work": "invocation", "run_id": RUN})
        assert [(await talk.hear())["type"] for _ in range(2)] == ["result", "run.watched"]
        await talk.say({"type": "heartbeat", "id": "b", "run_id": RUN})
        beat = await talk.hear()
        assert (beat["reply_to"], beat["heartbeat"]["version"], beat["heartbeat"]["cancel_requested"]) == (
            "b",
            4,
            False,
        )
        await talk.say({"type": "ack", "id": "c", "work": "followup", "run_id": RUN})
        assert (await talk.hear())["problem"]["errors"][0]["pointer"] == "/message_id"
        await talk.say({"type": "ack", "id": "d", "work": "followup", "run_id": RUN, "message_id": OTHER})
        assert (await talk.hear())["followup"] == book.answer("ackFollowup")
    async with session(mock) as talk:
        await talk.hello(own("run"), capabilities={"invocations": 0})
        await talk.say({"type": "ping"})
        assert (await talk.hear())["type"] == "pong"


@pytest.mark.parametrize(("script", "kind"), [("cancel", "run.cancel_requested"), ("followup", "run.followup")])
async def test_an_agent_is_asked_for_more(mock: str, script: str, kind: str) -> None:
    async with session(mock) as talk:
        await talk.hello(own(script), capabilities={"invocations": 1})
        assert [(await talk.hear())["type"] for _ in range(2)] == ["agent.invocation", kind]


# how sessions end


@pytest.mark.parametrize("name", [name for name in CLOSES if name != "invalid_token"])
async def test_every_close_code_can_be_played(mock: str, name: str) -> None:
    token = own(name)
    async with session(mock) as talk:
        await talk.hello(token)
        await talk.say({"type": "focus", "run_ids": [RUN]})
        frames, code = await talk.rest()
    assert code == CLOSES[name].code
    told = [frame["type"] for frame in frames]
    assert told[:2] == ["run.document", "run.updated"]
    reasons = {"restart": "shutdown"} | {reason: reason for reason in Book().reasons}
    assert [frame["reason"] for frame in frames[2:]] == ([reasons[name]] if name in reasons else [])
    async with session(mock) as talk:  # the next one lasts, and goes on
        await talk.hello(token, resume_after=44)
        await talk.say({"type": "focus", "run_ids": [RUN]})
        frames = await talk.until("event")
        await talk.say({"type": "ping", "id": "p"})
        assert await talk.hear() == {"type": "pong", "reply_to": "p"}
    assert [frame.get("version") for frame in frames[1:-1]] == [6]
    assert frames[0]["run"]["version"] == 5


async def test_a_session_that_is_refused(mock: str) -> None:
    async with session(mock) as talk:
        await talk.say({"type": "hello", "id": "h", "token": own("invalid_token")})
        frames, code = await talk.rest()
    assert [frame["problem"]["code"] for frame in frames] == ["invalid_token"]
    assert code == 4501


async def test_a_session_that_is_cut(mock: str) -> None:
    async with session(mock) as talk:
        await talk.hello(own("cut"))
        await talk.say({"type": "focus", "run_ids": [RUN]})
        _, code = await talk.rest()
    assert code not in {close.code for close in CLOSES.values()}


async def test_a_log_that_no_longer_reaches_back(mock: str) -> None:
    async with session(mock) as talk:
        await talk.hello(own("resync"), resume_after=44)
        assert await talk.hear() == {"type": "resync", "after": 44}


async def test_a_script_for_all_sessions() -> None:
    with Playing(script="token_expired") as playing:
        async with session(playing.url) as talk:
            await talk.hello(str(uuid.uuid4()))
            await talk.say({"type": "focus", "run_ids": [RUN]})
            assert (await talk.rest())[1] == CLOSES["token_expired"].code


async def test_a_mock_that_stops_says_so() -> None:
    with Playing() as playing:
        async with session(playing.url) as talk:
            await talk.hello(own("run"))
            playing.stop()
            frames, code = await talk.rest()
    assert [frame["reason"] for frame in frames] == ["shutdown"]
    assert code == CLOSES["restart"].code


async def test_frames_that_break_the_contract(mock: str) -> None:
    async with session(mock) as talk:
        await talk.say({"type": "ping", "id": "p"})
        first = await talk.hear()
        assert (first["reply_to"], first["problem"]["errors"]) == (
            "p",
            [{"code": "not_allowed_value", "pointer": "/type", "message": "The first frame is hello."}],
        )
        await talk.hello(own("run"))
        for frame, code, pointer in (
            ({"type": "focus", "run_ids": ["x"]}, "malformed_id", "/run_ids/0"),
            ({"type": "focus", "more": 1}, "unknown_field", "/more"),
            ({"type": "focus", "run_ids": None}, "null_not_allowed", "/run_ids"),
            ({"type": "nothing"}, "not_allowed_value", "/type"),
            ({"type": "heartbeat"}, "required", "/run_id"),
            ({"type": "focus", "run_ids": [f"{RUN[:-3]}{n:03x}" for n in range(101)]}, "too_many", "/run_ids"),
        ):
            await talk.say(frame)
            error = (await talk.hear())["problem"]["errors"][0]
            assert (error["code"], error["pointer"]) == (code, pointer)
        for _ in range(3):
            await talk.socket.send_str("{")
        frames, code = await talk.rest()
    assert {frame["problem"]["code"] for frame in frames} == {"invalid_json"}
    assert code == CLOSES["bad_frames"].code


@pytest.mark.parametrize(
    ("raw", "name"), [(b"\x00", "unsupported_data"), ("x" * (1024**2 + 1), "frame_too_large")], ids=["binary", "large"]
)
async def test_what_is_no_frame(mock: str, raw: str | bytes, name: str) -> None:
    async with session(mock) as talk:
        await talk.hello(own("run"))
        await (talk.socket.send_bytes(raw) if isinstance(raw, bytes) else talk.socket.send_str(raw))
        assert (await talk.rest())[1] == CLOSES[name].code


async def test_who_says_nothing() -> None:
    with Playing(gateway__hello_timeout=0.1) as playing:
        async with session(playing.url) as talk:
            assert await talk.rest() == ([], CLOSES["no_hello"].code)


# the client for Python


@pytest.mark.parametrize("script", ["run", "cut", "going_away"])
async def test_the_client_follows_a_run_to_its_end(mock: str, script: str) -> None:
    async with Livebox(mock, own(script)) as livebox:
        sessions = []
        livebox.gateway.listen("ready", sessions.append)
        runs = [run async for run in livebox.follow_run(RUN)]
    assert (runs[-1]["version"], runs[-1]["state"]) == (6, "completed")
    assert len(sessions) == (1 if script == "run" else 2)


async def test_the_client_does_not_come_back_where_it_should_not(mock: str) -> None:
    async with Livebox(mock, own("invalid_token")) as livebox:
        with pytest.raises(GatewayRefused):
            async for _ in livebox.follow_run(RUN):
                pass


async def test_an_adapter_works(mock: str) -> None:
    adapter = Adapter(mock, "adapter", model="example")
    heard: list[str] = []

    @adapter.on_invocation
    async def work(run: RunHandle) -> str:
        run.headline = "Counting"
        await run.flush()
        heard.append(run.prompt)
        asyncio.get_running_loop().call_soon(adapter.leave)
        return "Done."

    await asyncio.wait_for(adapter.serve(), 30)
    assert heard == ["Which files changed this week?"]


async def test_a_frame_that_would_break_the_contract_is_not_sent(mock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Book, "bye", lambda self, close: {"reason": "no reason", "retry_after_ms": 1})
    async with session(mock) as talk:
        await talk.hello(own("restart"))
        await talk.say({"type": "focus", "run_ids": [RUN]})
        frames, code = await talk.rest()
    assert "bye" not in {frame["type"] for frame in frames}
    assert code == CLOSES["internal_error"].code


async def test_a_mock_that_fails_says_so(mock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Book, "answer")
    async with session(mock) as talk:
        await talk.say({"type": "hello", "id": "h", "token": own("run")})
        failed = await talk.hear()
        assert (failed["reply_to"], failed["problem"]["code"]) == ("h", "internal_error")


def test_a_script_that_is_not_there_is_none() -> None:
    gateway = Gateway(Settings.load({}), "cut")
    assert [gateway.script_of(token) for token in ("any", "script-restart", "script-restart.1", "script-nothing")] == [
        "cut", "restart", "restart", "cut",
    ]  # fmt: skip


def test_clients_that_were_here_long_ago_are_forgotten() -> None:
    gateway = Gateway(Settings.load({}))
    first = gateway.story("first")
    assert gateway.story("first") is first
    for number in range(STORIES_MAX):
        gateway.story(str(number))
    assert gateway.story("first") is not first


def test_every_script_can_be_chosen_by_a_token() -> None:
    assert {"run", "cut", "resync", *CLOSES} <= set(scripts())
