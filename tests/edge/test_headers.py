"""Headers of every response: ids, traces, versions, and what a client has already."""

from __future__ import annotations

import re

import pytest

from generated.operations import OPERATIONS, Operation
from livebox.responses import is_current, new_request_id
from livebox.trace import Trace
from tests.edge.samples import BEARER, SAMPLES
from tests.fixtures.server import Clients

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]")
TRACE = "0af7651916cd43dd8448eb211c80319c"

every_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.id)


@every_operation
async def test_each_answer_names_its_request_and_trace(clients: Clients, operation: Operation) -> None:
    seen = set()
    for handle in ("owner", "alex", None):
        got = await SAMPLES[operation.id].send(clients[handle], clients.live)
        assert UUID7.fullmatch(got.headers["Request-Id"])
        assert TRACEPARENT.fullmatch(got.headers["traceparent"])
        seen.add(got.headers["Request-Id"])
    assert len(seen) == 3


@every_operation
async def test_a_trace_is_carried_on_under_a_span_of_its_own(clients: Clients, operation: Operation) -> None:
    for flags in ("00", "01"):
        sent = f"00-{TRACE}-b7ad6b7169203331-{flags}"
        got = await SAMPLES[operation.id].send(clients["owner"], clients.live, headers={"traceparent": sent})
        version, trace, span, returned = got.headers["traceparent"].split("-")
        assert (version, trace, returned) == ("00", TRACE, flags)
        assert span != "b7ad6b7169203331"


@pytest.mark.parametrize(
    "sent", ["", "x", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-b7ad6b7169203331-01", "0" * 5000]
)
async def test_a_trace_that_is_none_is_replaced(clients: Clients, sent: str) -> None:
    got = await clients[None].get("/v1/health", headers={"traceparent": sent})
    assert got.status == 200
    assert TRACEPARENT.fullmatch(got.headers["traceparent"])
    assert TRACE not in got.headers["traceparent"]


def test_request_ids_differ_and_rise_with_time() -> None:
    ids = [new_request_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert all(UUID7.fullmatch(found) for found in ids)
    assert [found[:13] for found in ids] == sorted(found[:13] for found in ids)


def test_a_span_is_never_all_zero() -> None:
    for _ in range(1000):
        trace = Trace.of(None)
        assert trace.trace_id.strip("0")
        assert trace.span_id.strip("0")


@every_operation
async def test_no_header_says_what_the_server_is_made_of(clients: Clients, operation: Operation) -> None:
    got = await SAMPLES[operation.id].send(clients["owner"], clients.live)
    assert got.headers["Server"] == "livebox"
    assert not re.search(r"(?i)python|aiohttp|postgres", str(dict(got.headers)))
    assert got.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("header", "current"),
    [
        ('"3"', True),
        ('W/"3"', True),
        ("*", True),
        ('"1", "3"', True),
        ('"1",W/"3" , "x"', True),
        ('W/"1", W/"2"', False),
        ('"33"', False),
        ("3", False),
        ("", False),
        ('"3', False),
        ('""', False),
    ],
)
def test_if_none_match_is_compared_weakly(header: str, current: bool) -> None:
    assert is_current(header, "3") is current


async def test_what_a_client_has_is_not_sent_again(clients: Clients) -> None:
    owner = clients["owner"]
    paths = [
        f"/v1/principals/{clients.world.principals['alex']}",
        f"/v1/threads/{clients.world.threads['Support/General']}",
    ]
    for path in (*paths, "/openapi.json", "/asyncapi.json"):
        tag = (await owner.get(path)).headers["ETag"]
        for sent in (tag, f"W/{tag}", "*", f'"other", {tag}', f'"other",W/{tag}'):
            for method in ("GET", "HEAD"):
                got = await owner.request(method, path, headers={"If-None-Match": sent})
                assert (got.status, got.body, got.headers["ETag"]) == (304, b"", tag), sent
                assert "Content-Type" not in got.headers
        for sent in ('"other"', 'W/"0"', tag.strip('"')):
            assert (await owner.get(path, headers={"If-None-Match": sent})).status == 200, sent


async def test_a_star_gives_no_hint_of_what_is_hidden(clients: Clients) -> None:
    hidden = f"/v1/threads/{clients.world.threads['Research/General']}"
    absent = SAMPLES["getThread"].path
    for path in (hidden, absent):
        for sent in ("*", '"1"'):
            assert (await clients["alex"].get(path, headers={"If-None-Match": sent})).status == 404


async def test_if_match_is_compared_strongly(own_clients: Clients) -> None:
    path = f"/v1/channels/{own_clients.world.channels['Support/General']}"
    owner = own_clients["owner"]
    for sent in ('W/"1"', '"99"', "1", '"1', '"x"', 'W/"*"', '"1e0"', '"' + "1" * 400 + '"'):
        got = await owner.patch(path, {"read_only": True}, headers={"If-Match": sent})
        assert got.code == "version_mismatch", sent
    assert (await owner.patch(path, {"read_only": True}, headers={"If-Match": '"99", "1"'})).headers["ETag"] == '"2"'
    assert (await owner.patch(path, {"read_only": False}, headers={"If-Match": "*"})).headers["ETag"] == '"3"'


@pytest.mark.parametrize("operation", BEARER, ids=lambda operation: operation.id)
async def test_the_language_asked_for_changes_no_code(clients: Clients, operation: Operation) -> None:
    codes = set()
    for language in ("", "de", "ar", "zh-Hant;q=0.5, *;q=0.1", "x" * 500):
        headers = {"Accept-Language": language} if language else {}
        got = await SAMPLES[operation.id].send(clients["sam"], clients.live, headers=headers)
        codes.add((got.status, got.code))
    # What was created or ended the first time may answer otherwise after it.
    assert len({code for code in codes if code[0] >= 400}) <= 1
