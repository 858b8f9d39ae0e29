"""Methods and paths: what exists answers, everything else is a problem of the same shape."""

from __future__ import annotations

import contextlib

import pytest

from generated.operations import OPERATIONS, Operation
from generated.routes import PATHS
from tests.edge.raw import connect, exchange, read_response, request
from tests.edge.samples import SAMPLES
from tests.fixtures.server import Clients, Live

METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "BREW",
    "PROPFIND",
    "get",
    "X-1",
    "QUERY",
)
FIRST_OF_PATH = {operation.path: operation for operation in OPERATIONS.values()}

every_path = pytest.mark.parametrize("operation", FIRST_OF_PATH.values(), ids=lambda operation: operation.path)


@every_path
def test_a_method_that_a_path_does_not_take_gets_405_with_allow(live: Live, operation: Operation) -> None:
    """For whoever asks, before who asks is looked at: whether a path exists is no secret, and no id is looked up."""
    taken = PATHS[operation.path]
    path = SAMPLES[operation.id].path
    for method in METHODS:
        if method in taken:
            continue
        got = exchange(live, request(method, path), check=("HEAD" if method == "HEAD" else "OTHER", path))
        assert got.status == 405, method
        assert got.headers["Allow"].split(", ") == sorted(taken)
        if method != "HEAD":
            assert got.code == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    [
        "/web",
        "/web/",
        "/web/index.html",
        "/web/%2e%2e/keys.py",
        "/index.html",
        "/favicon.ico",
        "//",
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v1/spaces/",
        "/v1//spaces",
        "/V1/spaces",
        "/v1/nothing",
        "/v1/runs/01933b7e-0000-7000-8000-000000000051/nothing",
        "/v1/runs/../spaces",
        "/v1/runs/%2e%2e/spaces",
        "/v1/threads//messages",
        "/v1/sp%61ces/x",
        "/%",
        "/%00",
        "/v2/spaces",
    ],
)
def test_an_unknown_path_is_a_problem_for_every_method(live: Live, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS", "BREW", "HEAD"):
        got = exchange(live, request(method, path), check=("HEAD" if method == "HEAD" else "OTHER", path))
        assert got.status == 404, method
        if method != "HEAD":
            assert got.code == "not_found"


@pytest.mark.parametrize(
    "operation", [o for o in OPERATIONS.values() if o.method == "GET"], ids=lambda operation: operation.id
)
async def test_head_is_get_without_a_body(clients: Clients, operation: Operation) -> None:
    for handle in ("owner", "sam", None):
        found = [
            await SAMPLES[operation.id].send(clients[handle], clients.live, method=method) for method in ("GET", "HEAD")
        ]
        get, head = found
        assert head.body == b""
        assert head.status == get.status
        volatile = {"date", "request-id", "traceparent", *(["content-length"] if operation.id == "getMetrics" else [])}
        assert _without(head.headers, volatile) == _without(get.headers, volatile)


def _without(headers: object, names: set[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}  # type: ignore[attr-defined]


def test_a_request_about_the_server_as_a_whole_names_no_path_of_ours(live: Live) -> None:
    assert exchange(live, request("OPTIONS", "*")).status == 404


def test_an_absolute_target_is_its_path(live: Live) -> None:
    assert exchange(live, request("GET", "http://elsewhere.example.com/v1/health")).status == 200


# What the HTTP parser refuses before there is a request.
NOT_HTTP = {
    "no HTTP at all": b"hello\r\n\r\n",
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n",
    "a bad version": b"GET /v1/health HTTP/9.9\r\nHost: x\r\n\r\n",
    "a space in a header name": b"GET /v1/health HTTP/1.1\r\nHo st: x\r\n\r\n",
    "a header without a colon": b"GET /v1/health HTTP/1.1\r\nHost\r\n\r\n",
    "a NUL in a header": b"GET /v1/health HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
    "two lengths": b"POST /v1/spaces HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a bad length": b"POST /v1/spaces HTTP/1.1\r\nHost: x\r\nContent-Length: two\r\n\r\n{}",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "a control character in the target": b"GET /v1/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target that is not ASCII": "GET /ä HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "a huge header": b"GET /v1/health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET /v1/health HTTP/1.1\r\nHost: x\r\n" + b"A: a\r\n" * 500 + b"\r\n",
    "a huge target": b"GET /v1/spaces?cursor=" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_no_http_gets_a_problem_and_the_end_of_the_connection(live: Live, name: str) -> None:
    with connect(live) as connection:
        with contextlib.suppress(ConnectionError):  # refused before all of it was sent
            connection.sendall(NOT_HTTP[name])
        stream = connection.makefile("rb")
        got = read_response(stream)
        assert (got.status, got.code) == (400, "validation_failed")
        assert got.headers["Connection"] == "close"
        assert got.headers["Content-Type"] == "application/problem+json"
        assert len(got.headers["Request-Id"]) == 36
        assert got.json["request_id"] == got.headers["Request-Id"]
        assert stream.read() == b""


def test_a_chunked_body_is_read_whatever_its_chunks_are(live: Live) -> None:
    headers = ("Authorization: Bearer " + live.tokens["owner"], "Content-Type: application/json")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (b"{", b'"na', b'me":', b"5}")) + b"0\r\n\r\n"
    got = exchange(live, request("POST", "/v1/spaces", *headers, "Transfer-Encoding: chunked", body=chunks))
    assert [error["pointer"] for error in got.json["errors"]] == ["/name"]
    endless = request("POST", "/v1/spaces", *headers, "Transfer-Encoding: chunked", body=b'7\r\n{"name"\r\nzz\r\n')
    assert exchange(live, endless).status == 400


def test_a_chunked_body_beyond_the_limit_is_refused_while_it_comes(live: Live) -> None:
    headers = ("Authorization: Bearer " + live.tokens["owner"], "Content-Type: application/json")
    piece = b"x" * 100_000
    chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
    with connect(live) as connection:
        connection.sendall(request("POST", "/v1/spaces", *headers, "Transfer-Encoding: chunked"))
        for _ in range(live.settings.integer("api.body_max_bytes") // len(piece) + 2):
            connection.sendall(chunk)
        assert read_response(connection.makefile("rb")).code == "body_too_large"


def test_requests_on_one_connection_are_answered_in_order(live: Live) -> None:
    sent = [request("GET", path) for path in ("/v1/health", "/nothing", "/v1/spaces", "/v1/health")]
    with connect(live) as connection:
        connection.sendall(b"".join(sent))
        stream = connection.makefile("rb")
        assert [read_response(stream).status for _ in sent] == [200, 404, 401, 200]


def test_an_old_client_gets_its_connection_closed_unless_it_asks(live: Live) -> None:
    with connect(live) as connection:
        connection.sendall(b"GET /v1/health HTTP/1.0\r\n\r\n")
        stream = connection.makefile("rb")
        assert read_response(stream).headers["Connection"] == "close"
        assert stream.read() == b""
    got = exchange(live, b"GET /v1/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert got.headers["Connection"] == "keep-alive"


def test_expectations_other_than_continue_do_no_harm(live: Live) -> None:
    got = exchange(live, request("GET", "/v1/health", "Expect: something"))
    assert got.status == 200


def test_a_client_that_waits_for_continue_is_told_to(live: Live) -> None:
    headers = ("Authorization: Bearer " + live.tokens["owner"], "Content-Type: application/json")
    with connect(live) as connection:
        connection.sendall(request("POST", "/v1/spaces", *headers, "Content-Length: 2", "Expect: 100-continue"))
        stream = connection.makefile("rb")
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert stream.readline() == b"\r\n"
        connection.sendall(b"{}")
        assert read_response(stream).code == "validation_failed"


def test_a_connect_is_no_proxy(live: Live) -> None:
    assert exchange(live, b"CONNECT elsewhere.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n").status in (400, 404)


def test_an_upgrade_that_nobody_offers_is_ignored(live: Live) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")
    with connect(live) as connection:
        connection.sendall(request("GET", "/v1/health", *upgrade) + request("GET", "/nothing"))
        stream = connection.makefile("rb")
        assert [read_response(stream).status for _ in range(2)] == [200, 404]


def test_a_body_that_does_not_come_is_not_waited_for_without_end(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.app.edge._bodies, "_patience", 0.01)
    headers = ("Authorization: Bearer " + live.tokens["owner"], "Content-Type: application/json", "Content-Length: 5")
    got = exchange(live, request("POST", "/v1/spaces", *headers, body=b"{"))
    assert (got.status, got.code) == (400, "invalid_json")


def test_a_failure_outside_of_any_operation_is_a_problem_too(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answered(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(live.app.edge, "_answered", answered)
    got = exchange(live, request("GET", "/v1/health"), check=("GET", "/v1/health"))
    assert (got.code, got.json["instance"], got.headers["Connection"]) == ("internal_error", "/v1/health", "close")
