"""What listens to the clients of tests hears all of them, and what breaks the contract is found whoever got it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import requests
from aiohttp import web

from livebox.client import Rest
from livebox.client.gateway import Gateway
from tests.fixtures import coverage_of_contract, readers
from tests.fixtures.coverage_of_contract import declared, report, verdict
from tests.fixtures.received import KEPT, Frame, Response, texts
from tests.fixtures.server import Live

RUN = "0193a000-0000-7000-8000-000000000001"
PATH = f"/v1/runs/{RUN}"
READY = {"type": "ready", "reply_to": "1", "session_id": 5}


@pytest.fixture(scope="module")
def liar() -> Iterator[str]:
    """The URL of a server that breaks the contract with every answer."""
    loop = asyncio.new_event_loop()

    async def gateway(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(protocols=("livebox.v1",))
        await ws.prepare(request)
        async for _ in ws:
            await ws.send_str(json.dumps(READY))
            await ws.close(code=4999)
        return ws

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/v1/gateway", gateway)
        app.router.add_route("*", "/{rest:.*}", _lie)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def _lie(_: web.Request) -> web.Response:
    return web.json_response({"items": "none"})


async def with_http_client(url: str) -> None:
    """By what `fixtures.wire` is built on."""
    with closing(http.client.HTTPConnection(url.removeprefix("http://"))) as connection:
        await asyncio.to_thread(connection.request, "GET", PATH)
        assert json.loads(connection.getresponse().read()) == {"items": "none"}


async def with_urllib(url: str) -> None:
    def ask() -> Any:
        with urllib.request.urlopen(url + PATH, timeout=10) as answer:  # noqa: S310
            return json.load(answer)

    assert await asyncio.to_thread(ask) == {"items": "none"}


async def with_requests(url: str) -> None:
    answer = await asyncio.to_thread(requests.get, url + PATH, timeout=10)
    assert answer.json() == {"items": "none"}


async def with_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url + PATH) as answer:
        assert await answer.json() == {"items": "none"}


async def with_the_sdk(url: str) -> None:
    async with Rest(url, "t") as rest:
        assert await rest.get_run(RUN) == {"items": "none"}


@pytest.mark.parametrize("client", [with_http_client, with_urllib, with_requests, with_aiohttp, with_the_sdk])
async def test_every_client_is_heard(liar: str, client: Callable[[str], Awaitable[None]]) -> None:
    await client(liar)
    found = readers.look()
    assert len(found) == 1
    assert f"GET {PATH} -> 200" in found[0]
    assert "Request-Id is missing" in found[0]
    assert readers.look() == []


async def test_frames_and_close_codes_are_heard(liar: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "SEEN", seen := set())
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{liar}/v1/gateway") as socket:
        await socket.send_str(json.dumps({"type": "hello", "token": "t"}))
        while (await socket.receive()).type is not aiohttp.WSMsgType.CLOSE:
            pass
    (found,) = readers.look()
    assert "ready" in found
    assert seen == {"sent hello", "close 4999"}
    assert verdict(seen, declared()).undeclared == ["close 4999"]


async def test_the_gateway_of_the_sdk_is_heard(liar: str) -> None:
    async with Gateway(liar, "t"), asyncio.timeout(30):
        while not any(frame.sender == "server" for frame in KEPT.frames):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert "ready" in readers.look()[0]


def test_what_no_client_of_ours_gets_is_heard_from_the_server(live: Live) -> None:
    KEPT.responses.clear()
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as plain:
        plain.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while plain.recv(65536):
            pass
    (response,) = KEPT.responses
    assert (response.method, response.target, response.status, response.at_client) == ("GET", "/v1/health", 200, False)
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as plain:
        plain.sendall(b"no HTTP\r\n\r\n")
        while plain.recv(65536):
            pass
    assert KEPT.responses[1].status == 400


def test_frames_that_a_server_wrote_at_once_are_taken_apart() -> None:
    from livebox.gateway.frames import message

    wanted = [b"a", b"b" * 126, b"c" * 70_000, b""]
    assert list(texts(b"".join(map(message, wanted)))) == wanted


# The coverage


def test_facts_of_a_response() -> None:
    def facts(method: str, target: str, status: int, body: Any, **asked: str) -> set[str]:
        return set(
            coverage_of_contract.of_response(Response(method, target, asked, status, {}, json.dumps(body).encode()))
        )

    assert facts("GET", PATH, 200, {}, **{"if-none-match": '"1"', "cookie": "x"}) == {
        "operation getRun",
        "status getRun 200",
        "parameter getRun path run_id",
        "parameter getRun header if-none-match",
    }
    problem = {"code": "validation_failed", "errors": [{"code": "malformed_id"}]}
    assert facts("GET", f"{PATH}?a=b", 400, problem) == {
        "operation getRun",
        "status getRun 400",
        "problem getRun validation_failed",
        "error malformed_id",
    }
    assert facts("HEAD", PATH, 404, None) == {"operation getRun"}
    assert facts("GET", "/nothing", 404, problem) == set()
    assert "parameter listEvents query after" in facts("GET", "/v1/events?after=0", 200, {})


def test_facts_of_a_frame() -> None:
    def facts(sender: Any, value: Any) -> set[str]:
        return set(coverage_of_contract.of_frame(Frame(sender, json.dumps(value).encode())))

    assert facts("client", {"type": "ping"}) == {"sent ping"}
    assert facts("client", {"type": "ping", "more": 1}) == set()
    assert facts("server", {"type": "event", "event": {"type": "run.changed"}}) == {
        "received event",
        "event run.changed",
    }


def test_what_is_missing_on_either_side_is_named() -> None:
    wanted = declared()
    assert verdict(wanted, wanted)
    assert not verdict(wanted - {"status getRun 200"}, wanted)
    assert verdict(wanted - {"status getRun 200"}, wanted).unseen == ["status getRun 200"]
    assert verdict(wanted | {"close 4999"}, wanted).undeclared == ["close 4999"]
    assert "- status getRun 200" in report(wanted - {"status getRun 200"}, wanted).splitlines()
    assert coverage_of_contract.UNHEARD.keys() <= wanted
    assert {fact.split(" ")[0] for fact in wanted} == coverage_of_contract.KINDS.keys()


@pytest.mark.parametrize(
    ("source", "option", "whole"),
    [
        ("TESTPATHS", {}, True),
        ("ARGS", {}, False),
        ("TESTPATHS", {"keyword": "x"}, False),
        ("TESTPATHS", {"markexpr": "long"}, False),
        ("TESTPATHS", {"lf": True}, False),
        ("TESTPATHS", {"deselect": ["x"]}, False),
    ],
)
def test_only_a_whole_run_is_judged(source: str, option: dict[str, Any], whole: bool) -> None:
    config: Any = SimpleNamespace(
        args_source=pytest.Config.ArgsSource[source], option=SimpleNamespace(**{"keyword": "", **option})
    )
    assert readers.is_whole(config) is whole


@pytest.mark.parametrize(("missing", "status"), [(set(), 0), ({"status getRun 200"}, 1)])
def test_a_whole_run_fails_where_something_was_not_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, missing: set[str], status: int
) -> None:
    readers.look()
    monkeypatch.setattr(readers, "SEEN", declared() - missing)
    monkeypatch.setattr(readers, "is_whole", lambda _: True)
    config = SimpleNamespace(getoption=lambda _: None, rootpath=tmp_path)
    session: Any = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
    readers.pytest_sessionfinish(session, pytest.ExitCode.OK)
    assert session.exitstatus == status
    assert (tmp_path / readers.REPORT).read_text().startswith("What the tests have seen")


def test_workers_hand_over_what_they_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    readers.look()
    monkeypatch.setattr(readers, "SEEN", {"close 4001"})
    output: dict[str, Any] = {}
    session: Any = SimpleNamespace(config=SimpleNamespace(workeroutput=output), exitstatus=pytest.ExitCode.OK)
    readers.pytest_sessionfinish(session, pytest.ExitCode.OK)
    monkeypatch.setattr(readers, "SEEN", seen := set[str]())
    readers.pytest_testnodedown(SimpleNamespace(workeroutput=output))
    assert seen == {"close 4001"}


def test_what_is_found_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    readers.look()
    KEPT.frames.append(Frame("server", b'{"type":"nothing"}'))
    phase = readers.pytest_runtest_call(item=SimpleNamespace(get_closest_marker=lambda _: None))
    next(phase)
    with pytest.raises(readers.Broken, match="nothing"):
        phase.send(None)
    KEPT.frames.append(Frame("server", b'{"type":"nothing"}'))
    phase = readers.pytest_runtest_call(item=SimpleNamespace(get_closest_marker=lambda name: name == readers.BREAKS))
    next(phase)
    with pytest.raises(StopIteration):
        phase.send(None)
