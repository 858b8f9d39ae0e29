"""The mock answers every operation with every example of the contract, on a port and without a database."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from generated.problems import PROBLEMS
from livebox.mock.prefer import Wanted, choose, examples, wanted
from livebox.responses import PROBLEM_JSON, Refusal
from tests.contract.parity_corpus import Operation, operations
from tests.contract.parity_values import DOCUMENT, node, step
from tests.fixtures.wire import Answered
from tests.mock.conftest import Playing

RUN = "/v1/runs/01933b7e-0000-7000-8000-000000000051"
BEARER = {"Authorization": "Bearer whatever"}


class Client:
    """One connection to the mock."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 0, timeout=30)

    def ask(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answered:
        self._connection.request(method, target, body, BEARER if headers is None else headers)
        response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answered(response.status, found, response.read(), f"{method} {target}")


@pytest.fixture(scope="module")
def client(mock: str) -> Client:
    return Client(mock)


def declared(operation: Operation) -> list[tuple[int, str, str, Any]]:
    """(status, media type, name, value) of each example that the contract has for an operation; names may be empty.

    A problem that the operation does not have stands in what it shares with others; one that has no example is there
    by its code.
    """
    raw = node(operation.pointer)[1]
    found: list[tuple[int, str, str, Any]] = []
    for status in raw["responses"]:
        pointer, response = node(step(operation.pointer, "responses", status))
        for media, content in response.get("content", {}).items():
            for name in content["examples"]:
                value = node(step(pointer, "content", media, "examples", name))[1]["value"]
                if media != PROBLEM_JSON or value["code"] in raw["x-problem-codes"]:
                    found.append((int(status), media, name, value))
        if "content" not in response:
            found.append((int(status), "", "", None))
    shown = {value["code"] for _, media, _, value in found if media == PROBLEM_JSON}
    for code in raw["x-problem-codes"]:
        if code not in shown:
            status, title = PROBLEMS[code]
            problem = {"type": f"urn:livebox:problem:{code}", "title": title, "status": status, "code": code}
            found.append((status, PROBLEM_JSON, code, problem))
    return found


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.id)
def test_every_operation_answers_each_of_its_examples(client: Client, operation: Operation) -> None:
    case = operation.case("valid", drop="If-None-Match")
    default = client.ask(case.method, case.target, case.headers, case.body)
    assert default.status == min(status for status, *_ in declared(operation))
    for status, media, name, value in declared(operation):
        prefer = f"code={status}" + (f", example={name}" if name else "")
        answered = client.ask(case.method, case.target, {**case.headers, "Prefer": prefer}, case.body)
        assert answered.status == status, (prefer, answered.raw)
        assert answered.headers["preference-applied"] == (f"example={name}, " if name else "") + f"code={status}"
        if not name:
            assert answered.raw == b""
        elif media == "text/plain":
            assert answered.raw.decode() == value
        elif media == PROBLEM_JSON:
            body = answered.body
            assert body["request_id"] == answered.headers["request-id"]
            assert body["instance"] == case.target.partition("?")[0]
            own = {"request_id", "instance"}
            own |= {"retry_after_ms"} - value.keys()
            assert {k: v for k, v in body.items() if k not in own} == {k: v for k, v in value.items() if k not in own}
        else:
            assert answered.body == value
            if "etag" in answered.headers and "version" in value:
                assert answered.headers["etag"] == f'"{value["version"]}"'


@pytest.mark.parametrize("state", ["queued", "running", "waiting_input", "completed", "failed", "cancelled"])
def test_a_run_in_every_state(client: Client, state: str) -> None:
    answered = client.ask("GET", RUN, {**BEARER, "Prefer": f"example={state}"})
    assert answered.ok()["state"] == state


def test_there_is_an_example_of_every_state() -> None:
    states = DOCUMENT["components"]["schemas"]["RunState"]["enum"]
    get_run = next(operation for operation in operations() if operation.id == "getRun")
    assert sorted(name for status, _, name, _ in declared(get_run) if status == 200) == sorted(states)


def test_a_name_of_another_status_is_found(client: Client) -> None:
    assert client.ask("GET", RUN, {**BEARER, "Prefer": "example=absent"}).refused(404, "not_found")


@pytest.mark.parametrize(
    ("prefer", "words"),
    [
        ("example=nothing", ["'nothing'", "running, queued, waiting_input", "404: absent"]),
        ("code=418", ["'418'", "200: running", "304"]),
        ("code=404, example=running", ["'running'", "404: absent"]),
        ("code=2xx", ["'2xx'"]),
        ("example=cursor", ["'cursor'", "400: field;"]),  # of others with which the response is shared
    ],
)
def test_what_the_operation_does_not_have_is_named(client: Client, prefer: str, words: list[str]) -> None:
    answered = client.ask("GET", RUN, {**BEARER, "Prefer": prefer}).refused(400, "validation_failed")
    assert answered.errors() == [("not_allowed_value", "Prefer")]
    for word in words:
        assert word in answered.body["detail"]


def test_a_long_name_leaves_room_for_those_that_there_are(client: Client) -> None:
    for prefer in ("example=", "code="):
        answered = client.ask("GET", RUN, {**BEARER, "Prefer": prefer + "a" * 3000})
        assert answered.status == 400
        assert answered.body["detail"].endswith(".")
        assert "waiting_input" in answered.body["detail"]


def test_a_unit_that_does_not_hang_together_is_refused(client: Client) -> None:
    case = next(one for one in operations() if one.id == "putAgentRunSnapshot").case("valid")
    body = json.loads(case.body or b"")
    body["snapshot"]["state"] = "terminal"
    body["snapshot"].pop("terminal", None)
    body["snapshot"]["parent"] = case.target.rpartition("/")[2]
    refused = client.ask(case.method, case.target, case.headers, json.dumps(body).encode())
    assert (refused.status, refused.body["code"]) == (400, "validation_failed")
    assert [(error["code"], error["pointer"]) for error in refused.body["errors"]] == [
        ("required", "/snapshot/terminal"),
        ("invalid_value", "/snapshot/parent"),
    ]


def test_other_preferences_mean_nothing(client: Client) -> None:
    assert (
        client.ask("GET", RUN, {**BEARER, "Prefer": "respond-async, wait=10, dynamic=true"}).ok()["state"] == "running"
    )


def test_what_breaks_the_contract_is_told_before_what_is_preferred(client: Client) -> None:
    answered = client.ask("GET", "/v1/runs/x", {**BEARER, "Prefer": "code=404"})
    assert answered.refused(400, "validation_failed").errors() == [("malformed_id", "run_id")]


def test_the_header_is_read_as_the_standard_says() -> None:
    assert wanted([]) == Wanted()
    assert wanted(["example=a", "Code=200"]) == Wanted("a", "200")
    assert wanted(['foo; bar="x", example="a b" ;q=1 , example=c']) == Wanted("a b")
    assert wanted(["code = 404 , , return=minimal"]) == Wanted("", "404")
    assert wanted(['example="a\\"b"']) == Wanted('a"b')
    assert wanted(["example"]) == Wanted()


def test_a_status_with_nothing_to_show_comes_last_among_what_is_named() -> None:
    content = {"application/json": {"examples": {"a": {"value": 1}, "b": {"value": 2}}}}
    known = examples({"200": {"content": content}, "204": {}})
    assert [(example.status, example.name) for example in known] == [(200, "a"), (200, "b"), (204, "")]
    assert choose("op", known, Wanted(code="204")).value is None
    with pytest.raises(Refusal, match="validation_failed") as caught:
        choose("op", known, Wanted(example="c"))
    assert caught.value.detail == "There is no example 'c'. op has 200: a, b; 204."


# what is no request of an operation, or not from anybody


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}, {"Authorization": "Bearer a b"}]
)
def test_somebody_has_to_ask(client: Client, headers: dict[str, str]) -> None:
    answered = client.ask("GET", RUN, headers).refused(401, "invalid_token")
    assert answered.headers["www-authenticate"] == 'Bearer error="invalid_token"'


def test_what_is_public_needs_nobody(client: Client) -> None:
    for path in ("/v1/health", "/metrics", "/openapi.json", "/.well-known/jwks.json"):
        assert client.ask("GET", path, {}).status == 200


def test_run_control_needs_the_token_of_the_run(client: Client) -> None:
    body = b'{"state": "completed"}'
    typed = {**BEARER, "Content-Type": "application/json"}
    client.ask("POST", f"{RUN}/finish", typed, body).refused(401, "invalid_token")
    client.ask("POST", f"{RUN}/finish", typed, b"{}").refused(400, "validation_failed")  # told first, as in production
    held = {**typed, "Livebox-Invocation": "any"}
    assert client.ask("POST", f"{RUN}/finish", held, body).ok()["state"] == "completed"


def test_paths_and_methods_that_are_not_there(client: Client) -> None:
    client.ask("GET", "/v1/nothing").refused(404, "not_found")
    client.ask("GET", "/v1/nothing", {}).refused(404, "not_found")
    assert client.ask("DELETE", "/v1/health").refused(405, "method_not_allowed").headers["allow"] == "GET, HEAD"
    assert client.ask("PUT", "/v1/spaces").refused(405, "method_not_allowed").headers["allow"] == "GET, HEAD, POST"
    client.ask("FOO", RUN).refused(405, "method_not_allowed")


def test_other_media_types_and_large_bodies(client: Client) -> None:
    typed = {**BEARER, "Content-Type": "application/json"}
    for media in ("text/plain", "application/json; charset=latin-1", "application/merge-patch+json"):
        client.ask("POST", "/v1/spaces", {**BEARER, "Content-Type": media}, b'{"name": "x"}').refused(
            415, "unsupported_media_type"
        )
    client.ask("POST", "/v1/spaces", {**typed, "Content-Encoding": "gzip"}, b"xx").refused(
        415, "unsupported_media_type"
    )
    client.ask("POST", "/v1/spaces", typed, b" " * (1024**2 + 1)).refused(413, "body_too_large")
    client.ask("POST", "/v1/spaces", typed, b'{"name": "a\\u0000"}').refused(400, "validation_failed")


def test_a_body_in_chunks(mock: str) -> None:
    parts = urlsplit(mock)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 0, timeout=30)
    typed = {**BEARER, "Content-Type": "application/json"}
    connection.request("POST", "/v1/spaces", iter([b'{"name"', b': "x"}']), typed, encode_chunked=True)
    assert connection.getresponse().status == 201


def test_a_patch_of_what_may_not_be_patched(client: Client) -> None:
    def patch(*ops: dict[str, Any]) -> Answered:
        body = json.dumps({"base_version": 4, "ops": ops}).encode()
        held = {**BEARER, "Content-Type": "application/json", "Livebox-Invocation": "any"}
        return client.ask("PATCH", f"{RUN}/document", held, body)

    assert patch({"op": "replace", "path": "/headline", "value": "Counting"}).ok()["version"]
    wrong = patch({"op": "add", "path": "/state", "value": "x"}, {"op": "move", "path": "/headline"})
    assert wrong.errors() == [("patch_path_forbidden", "/ops/0/path"), ("patch_op_forbidden", "/ops/1/path")]
    assert patch({"op": "add", "path": "/headline", "value": 7}).errors() == [("wrong_type", "/ops/0/value")]


def test_a_head_and_what_has_not_changed(client: Client) -> None:
    head = client.ask("HEAD", RUN)
    assert (head.status, head.raw, head.headers["etag"]) == (200, b"", '"4"')
    assert client.ask("GET", RUN, {**BEARER, "If-None-Match": 'W/"4"'}).status == 304
    assert client.ask("GET", RUN, {**BEARER, "If-None-Match": '"3"'}).status == 200
    assert client.ask("GET", RUN, {**BEARER, "If-None-Match": '"4"', "Prefer": "example=completed"}).status == 200


def test_the_trace_goes_on(client: Client) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    answered = client.ask("GET", RUN, {**BEARER, "traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    assert trace in answered.headers["traceparent"]


def test_what_is_no_http_gets_a_problem(mock: str) -> None:
    parts = urlsplit(mock)
    with socket.create_connection((parts.hostname, parts.port), 30) as raw:
        raw.sendall(b"this is no request\r\n\r\n")
        assert b"application/problem+json" in raw.recv(65536)


def test_the_gateway_is_there_only_when_asked_for(client: Client) -> None:
    answered = client.ask("GET", "/v1/gateway").refused(426, "upgrade_required")
    assert answered.headers["upgrade"] == "websocket"
    client.ask("POST", "/v1/gateway").refused(405, "method_not_allowed")
    with Playing(gateway=False) as playing:
        Client(playing.url).ask("GET", "/v1/gateway").refused(404, "not_found")
