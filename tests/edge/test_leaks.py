"""Nothing of the inside comes out: not in the text of a problem, not in a header, not in a log line."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from db import Answer, DatabaseUnavailable, InternalError, Overloaded, StatementTimeout
from generated.operations import OPERATIONS
from livebox import log
from livebox.context import Context
from tests.edge.raw import exchange, request
from tests.edge.samples import BEARER, SAMPLES, WITH_BODY
from tests.edge.test_bodies import BAD_JSON
from tests.fixtures.server import Clients, Got, Live

# What would tell of SQL, files, classes, hosts or secrets.
INSIDE = re.compile(
    r"(?i)\b(select|insert|update \w+ set|relation|constraint|sqlstate|psycopg|postgres|traceback|livebox\.\w+\(|"
    r"exception|\w+error\b|\.py\b|\.sql\b|/home/|/tmp/|/usr/|/root/|localhost|127\.0\.0\.1|aiohttp|msgspec|jsonschema|"
    r"lbx_\w|eyj\w|hint:|line \d+|object at 0x)"
)
# Our own words that look like one of them.
OURS = re.compile(r"urn:livebox:problem:internal_error|\"code\":\"internal_error\"|LB\d{3}")


def assert_tells_nothing(got: Got) -> None:
    """Fail when a response names what is inside."""
    text = OURS.sub("", got.body.decode() + json.dumps(dict(got.headers)))
    found = INSIDE.search(text)
    assert found is None, f"{found} in {text}"


async def test_refusals_of_all_kinds_tell_nothing_of_the_inside(clients: Clients) -> None:
    for operation in OPERATIONS.values():
        sample = SAMPLES[operation.id]
        for handle in ("sam", None):
            got = await sample.send(clients[handle], clients.live)
            if got.status >= 400:
                assert_tells_nothing(got)
        assert_tells_nothing(await sample.send(clients["sam"], clients.live, path=f"{sample.path}?x=1"))
        assert_tells_nothing(await sample.send(clients["sam"], clients.live, method="TRACE"))


@pytest.mark.parametrize("operation", WITH_BODY[:6], ids=lambda operation: operation.id)
async def test_refusals_of_bodies_tell_nothing_of_the_inside(clients: Clients, operation: Any) -> None:
    for raw, *_ in BAD_JSON.values():
        assert_tells_nothing(await SAMPLES[operation.id].send(clients["owner"], clients.live, data=raw))


def test_refusals_of_what_is_no_http_tell_nothing_of_the_inside(live: Live) -> None:
    for sent in (b"hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n", request("GET", "/", "A: " + "b" * 20_000)):
        assert_tells_nothing(exchange(live, sent))


SECRET = "SELECT secret FROM livebox.access_tokens WHERE host = '127.0.0.1' -- /home/ada/livebox.py"


class Failing:
    """In the place of what a handler asks: every call fails in the same way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def __call__(self, *_: object, **__: object) -> Answer:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError(SECRET), 500, "internal_error"),
        (KeyError(SECRET), 500, "internal_error"),
        (TimeoutError(SECRET), 500, "internal_error"),
        (InternalError(SECRET, "23505"), 500, "internal_error"),
        (DatabaseUnavailable(SECRET), 503, "unavailable"),
        (Overloaded(SECRET), 503, "overloaded"),
        (StatementTimeout(SECRET), 503, "timeout"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
async def test_a_failure_inside_is_logged_and_not_told(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO, error: BaseException, status: int, code: str
) -> None:
    monkeypatch.setattr(Context, "read", Failing(error))
    monkeypatch.setattr(Context, "write", Failing(error))
    monkeypatch.setattr(Context, "patch", Failing(error))
    for operation in BEARER:
        got = await SAMPLES[operation.id].send(clients["owner"], clients.live)
        assert (got.status, got.code) == (status, code), operation.id
        assert_tells_nothing(got)
        if status == 503:
            assert int(got.headers["Retry-After"]) >= 1
        else:
            logged = [json.loads(line) for line in lines.getvalue().splitlines()]
            assert got.headers["Request-Id"] in {line.get("request_id") for line in logged}


async def test_an_answer_that_the_contract_does_not_have_is_a_failure(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO
) -> None:
    async def read(*_: object, **__: object) -> Answer:
        return Answer("handle_taken")

    monkeypatch.setattr(Context, "read", read)
    assert (await clients["owner"].get("/v1/spaces")).code == "internal_error"
    assert "undeclared_problem" in lines.getvalue()


async def test_no_secret_is_logged(clients: Clients, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO) -> None:
    monkeypatch.setattr(Context, "write", Failing(RuntimeError(f"Bearer {clients.live.tokens['owner']}")))
    monkeypatch.setattr(clients.live.app.edge, "_log_requests", True)
    for operation in BEARER:
        sample = SAMPLES[operation.id]
        await sample.send(clients["owner"], clients.live)
        await sample.send(clients.with_token("lbx_guessed-0123456789abcdef"), clients.live)
    text = lines.getvalue()
    assert "request_failed" in text
    assert '"event": "request"' in text
    assert not re.search(r"lbx_[\w-]{8}|eyJ[\w-]+\.", text)


@pytest.fixture
def lines(live: Live) -> Iterator[io.StringIO]:
    """What is logged meanwhile, as JSON lines."""
    out = io.StringIO()
    log.configure("debug", "json", out)
    yield out
    structlog.reset_defaults()


async def test_every_request_has_a_line_when_lines_are_asked_for(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO
) -> None:
    monkeypatch.setattr(clients.live.app.edge, "_log_requests", True)
    got = [
        await clients["owner"].get("/v1/spaces"),
        await clients[None].get("/nothing"),
        await clients[None].get("/v1/spaces"),
    ]
    got += [exchange(clients.live, sent) for sent in (b"hello\r\n\r\n", request("BREW", "/v1/spaces"))]
    logged = {
        line["request_id"]: line
        for line in map(json.loads, lines.getvalue().splitlines())
        if line["event"] == "request"
    }
    for answer in got:
        line = logged[answer.headers["Request-Id"]]
        assert line["status"] == answer.status
        assert line["trace_id"] == answer.headers["traceparent"].split("-")[1]
    assert [logged[answer.headers["Request-Id"]]["operation"] for answer in got] == [
        *("listSpaces", "other", "listSpaces", "other", "other"),
    ]
