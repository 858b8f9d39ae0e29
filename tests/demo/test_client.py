"""The client against a server that misbehaves: what is repeated, what is not, and what the caller gets to know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from livebox.client import Problem, Rest, Unreachable

Answer = Callable[[web.Request], Awaitable[web.StreamResponse] | web.StreamResponse]
RUN = {"id": "0193a000-0000-7000-8000-000000000001", "state": "running", "version": 3}


class Script:
    """Answers requests with the given answers, one after the other, the last one from then on; remembers them."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1](request)
        return answer if isinstance(answer, web.StreamResponse) else await answer


def ok(body: Any, status: int = 200) -> Answer:
    return lambda _request: web.json_response(body, status=status)


def problem(status: int, code: str, headers: dict[str, str] | None = None, **members: Any) -> Answer:
    document = {"title": "T", "status": status, "code": code, **members}
    return lambda _request: web.json_response(
        document, status=status, headers=headers, content_type="application/problem+json"
    )


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest_asyncio.fixture
async def script() -> AsyncIterator[tuple[Script, str]]:
    script = Script()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", script.serve)
    async with TestServer(app) as server:
        yield script, str(server.make_url("/"))


async def test_a_lost_answer_is_asked_for_again_with_the_same_request(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [cut, cut, ok({"id": "m"}, 201)]
    async with Rest(url, "t") as rest:
        assert (await rest.create_message("thread", "hello"))["id"] == "m"
    assert len(played.requests) == 3
    assert len({body for *_, body in played.requests}) == 1
    assert b'"client_msg_id"' in played.requests[0][3]


async def test_a_creating_request_keeps_its_idempotency_key(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [cut, ok({"id": "t"}, 201)]
    async with Rest(url, "t") as rest:
        await rest.create_thread("channel", "Title")
        await rest.create_thread("channel", "Title")
    keys = [headers["Idempotency-Key"] for _, _, headers, _ in played.requests]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says(script: tuple[Script, str], status: int) -> None:
    played, url = script
    played.answers = [problem(status, "overloaded", {"Retry-After": "1"}, retry_after_ms=10), ok(RUN)]
    async with Rest(url, "t") as rest:
        assert (await rest.get_run("r"))["version"] == 3
    assert len(played.requests) == 2


async def test_an_answer_that_would_come_too_late_is_not_waited_for(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [problem(503, "unavailable", {"Retry-After": "3600"})]
    async with Rest(url, "t", patience=5) as rest:
        with pytest.raises(Problem) as refused:
            await rest.get_run("r")
    assert (refused.value.code, refused.value.retry_after) == ("unavailable", 3600)
    assert len(played.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
async def test_a_refusal_is_not_repeated(script: tuple[Script, str], status: int) -> None:
    played, url = script
    played.answers = [problem(status, "some_code"), ok(RUN)]
    async with Rest(url, "t") as rest:
        with pytest.raises(Problem) as refused:
            await rest.get_run("r")
    assert (refused.value.status, refused.value.code) == (status, "some_code")
    assert len(played.requests) == 1


async def test_a_problem_says_what_the_server_said(script: tuple[Script, str]) -> None:
    played, url = script
    errors = [{"code": "too_long", "pointer": "/body", "message": "Too long."}]
    current = {"state": "completed", "version": 7, "allowed": [], "changed_at": "2026-01-01T00:00:00Z"}
    played.answers = [problem(409, "run_ended", errors=errors, current=current, detail="D", request_id="i")]
    async with Rest(url, "t") as rest:
        with pytest.raises(Problem) as refused:
            await rest.cancel_run("r")
    assert list(refused.value.errors) == errors
    assert refused.value.current == current
    assert refused.value.request_id == "i"
    assert str(refused.value) == "T: D: the run is completed: /body: Too long. (run_ended)"


async def test_an_answer_that_is_no_problem_document_is_still_a_problem(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [lambda _request: web.Response(status=418, text="<html>")]
    async with Rest(url, "t") as rest:
        with pytest.raises(Problem, match="HTTP status 418") as refused:
            await rest.get_run("r")
    assert refused.value.code == "unexpected_answer"


async def test_nobody_there_is_unreachable(unused_tcp_port: int) -> None:
    async with Rest(f"http://127.0.0.1:{unused_tcp_port}", "t", patience=0.2) as rest:
        with pytest.raises(Unreachable):
            await rest.get_run("r")


async def test_a_server_that_never_answers_is_unreachable(script: tuple[Script, str]) -> None:
    played, url = script
    released = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    played.answers = [silent]
    async with Rest(url, "t", patience=0, timeout=0.05) as rest:
        with pytest.raises(Unreachable):
            await rest.get_run("r")
    released.set()


async def test_an_unchanged_run_is_none(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [lambda _request: web.Response(status=304), ok(RUN)]
    async with Rest(url, "t") as rest:
        assert await rest.get_run_if_changed("r", 3) is None
        assert await rest.get_run_if_changed("r", 3) == RUN
    assert played.requests[0][2]["If-None-Match"] == '"3"'


async def test_watching_ends_with_the_run_and_shows_each_version_once(script: tuple[Script, str]) -> None:
    played, url = script
    unchanged: Answer = lambda _request: web.Response(status=304)  # noqa: E731
    played.answers = [ok(RUN), unchanged, ok({**RUN, "version": 4}), unchanged, ok({**RUN, "state": "failed"})]
    async with Rest(url, "t") as rest:
        seen = [(run["state"], run["version"]) async for run in rest.watch_run("r", every=0)]
    assert seen == [("running", 3), ("running", 4), ("failed", 3)]


async def test_lists_go_through_all_pages(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [
        ok({"items": [1, 2], "next_cursor": "c"}),
        ok({"items": [], "next_cursor": "d"}),
        ok({"items": [3]}),
    ]
    async with Rest(url, "t") as rest:
        assert [item async for item in rest.list_active_runs(state="queued")] == [1, 2, 3]
    assert [path for _, path, _, _ in played.requests] == [
        "/v1/active-runs?state=queued",
        "/v1/active-runs?state=queued&cursor=c",
        "/v1/active-runs?state=queued&cursor=d",
    ]


async def test_ids_cannot_change_the_path(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [ok(RUN)]
    async with Rest(url, "t") as rest:
        await rest.get_run("../threads/x?y=1#z")
    assert played.requests[0][1] == "/v1/runs/..%2Fthreads%2Fx%3Fy%3D1%23z"


async def test_an_agent_sends_both_tokens(script: tuple[Script, str]) -> None:
    played, url = script
    played.answers = [ok(RUN)]
    async with Rest(url, "principal") as rest:
        await rest.start_run("r", "invocation")
    _, path, headers, body = played.requests[0]
    assert (path, body) == ("/v1/runs/r/start", b"{}")
    assert headers["Authorization"] == "Bearer principal"
    assert headers["Livebox-Invocation"] == "invocation"
