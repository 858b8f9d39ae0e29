"""Bodies that no operation takes, on every operation that takes one."""

from __future__ import annotations

import copy
import gzip
import json
import zlib
from typing import Any

import pytest

from generated.operations import OPERATIONS, Operation
from tests.edge.samples import SAMPLES, WITH_BODY
from tests.fixtures.server import Clients, Got, Live, dumps

# patchRun says first who may not: what its holder hears of bad bodies is in tests/live/test_bodies_of_patches.py.
every_body = pytest.mark.parametrize(
    "operation", [one for one in WITH_BODY if one.id != "patchRun"], ids=lambda operation: operation.id
)

# name -> (bytes, problem code, code of the first error, its pointer)
BAD_JSON: dict[str, tuple[bytes, str, str, str]] = {
    "a word": (b"bar", "invalid_json", "malformed_json", ""),
    "a name without quotes": (b"{a:1}", "invalid_json", "malformed_json", ""),
    "single quotes": (b"{'a':1}", "invalid_json", "malformed_json", ""),
    "trailing comma": (b'{"a":1,}', "invalid_json", "malformed_json", "/a"),
    "trailing comma in a list": (b'{"a":[1,]}', "invalid_json", "malformed_json", "/a/1"),
    "byte order mark": (b"\xef\xbb\xbf{}", "invalid_json", "malformed_json", ""),
    "two documents": (b"{}{}", "invalid_json", "malformed_json", ""),
    "two lines": (b"{}\n{}", "invalid_json", "malformed_json", ""),
    "comment": (b"{} // more", "invalid_json", "malformed_json", ""),
    "cut off": (b'{"a":', "invalid_json", "malformed_json", "/a"),
    "cut off in a string": (b'{"a":"b', "invalid_json", "malformed_json", "/a"),
    "only space": (b" \n", "invalid_json", "malformed_json", ""),
    "line end in a string": (b'{"a":"b\nc"}', "invalid_json", "malformed_json", "/a"),
    "raw NUL": (b'{"a":"b\x00c"}', "invalid_json", "malformed_json", "/a"),
    "bad escape": (b'{"a":"\\x"}', "invalid_json", "malformed_json", "/a"),
    "leading zero": (b'{"a":01}', "invalid_json", "malformed_json", "/a"),
    "plus sign": (b'{"a":+1}', "invalid_json", "malformed_json", "/a"),
    "hexadecimal": (b'{"a":0x1}', "invalid_json", "malformed_json", "/a"),
    "NaN": (b'{"a":NaN}', "invalid_json", "malformed_json", "/a"),
    "Infinity": (b'{"a":[Infinity]}', "invalid_json", "malformed_json", "/a/0"),
    "-Infinity": (b'{"a":{"b":-Infinity}}', "invalid_json", "malformed_json", "/a/b"),
    "bad UTF-8": (b'{"a":"\xff"}', "invalid_json", "malformed_json", "/a"),
    "overlong UTF-8": (b'{"a":"\xc0\x80"}', "invalid_json", "malformed_json", "/a"),
    "surrogate in UTF-8": (b'{"a":"\xed\xa0\x80"}', "invalid_json", "malformed_json", "/a"),
    "latin-1": ('{"a":"ä"}'.encode("latin-1"), "invalid_json", "malformed_json", "/a"),
    "utf-16": ('{"a":1}'.encode("utf-16"), "invalid_json", "malformed_json", ""),
    "duplicate key": (b'{"a":1,"a":2}', "invalid_json", "duplicate_key", "/a"),
    "duplicate key by escape": (b'{"a":1,"\\u0061":1}', "invalid_json", "duplicate_key", "/a"),
    "duplicate key inside": (b'{"a":[{"b":{},"b":{}}]}', "invalid_json", "duplicate_key", "/a/0/b"),
    "depth 65": (b'{"a":' * 65 + b"1" + b"}" * 65, "invalid_json", "too_deep", "/a" * 64),
    "depth 20000": (b"[" * 20_000 + b"]" * 20_000, "invalid_json", "too_deep", "/0" * 64),
    "depth, never closed": (b'{"a":' * 150_000, "invalid_json", "too_deep", "/a" * 64),
    "1e999": (b'{"a":1e999}', "validation_failed", "invalid_number", "/a"),
    "-1E400": (b'{"a":[-1E400]}', "validation_failed", "invalid_number", "/a/0"),
    "2^53": (b'{"a":9007199254740992}', "validation_failed", "invalid_number", "/a"),
    "-2^53": (b'{"a":-9007199254740992}', "validation_failed", "invalid_number", "/a"),
    "2^53 as a float": (b'{"a":9007199254740992.0}', "validation_failed", "invalid_number", "/a"),
    "1e300": (b'{"a":1e300}', "validation_failed", "invalid_number", "/a"),
    "5000 digits": (b'{"a":' + b"1" * 5000 + b"}", "validation_failed", "invalid_number", "/a"),
    "NUL": (b'{"a":"b\\u0000"}', "validation_failed", "invalid_text", "/a"),
    "NUL in a key": (b'{"a":{"b\\u0000":1}}', "validation_failed", "invalid_text", "/a"),
    "high surrogate": (b'{"a":"\\ud83c"}', "validation_failed", "invalid_text", "/a"),
    "low surrogate": (b'{"a":"\\udf78 "}', "validation_failed", "invalid_text", "/a"),
    "surrogates in the wrong order": (b'{"a":"\\udf78\\ud83c"}', "validation_failed", "invalid_text", "/a"),
    "surrogate in a key": (b'{"\\ud83c":1}', "validation_failed", "invalid_text", ""),
    "null": (b'{"a":null}', "validation_failed", "null_not_allowed", "/a"),
    "null alone": (b"null", "validation_failed", "null_not_allowed", ""),
}

# Documents of the wrong shape: readable, and refused by the schema.
WRONG_SHAPE: dict[str, bytes] = {"a number": b"5", "a text": b'"x"', "a list": b"[]", "true": b"true"}


async def _send(clients: Clients, operation: Operation, **more: Any) -> Got:
    return await SAMPLES[operation.id].send(clients["owner"], clients.live, **more)


def _assert_refused(got: Got, code: str, error: str, pointer: str) -> None:
    assert (got.status, got.code) == (400, code)
    assert (error, pointer) in [(found["code"], found["pointer"]) for found in got.json["errors"]]


@every_body
async def test_bad_json_is_refused_with_the_place_where_it_is_bad(clients: Clients, operation: Operation) -> None:
    for name, (raw, code, error, pointer) in BAD_JSON.items():
        got = await _send(clients, operation, data=raw)
        assert got.status == 400, name
        _assert_refused(got, code, error, pointer)


@every_body
async def test_other_documents_than_objects_are_refused(clients: Clients, operation: Operation) -> None:
    for raw in WRONG_SHAPE.values():
        _assert_refused(await _send(clients, operation, data=raw), "validation_failed", "wrong_type", "")


@every_body
async def test_null_is_refused_at_every_depth(clients: Clients, operation: Operation) -> None:
    for depth in range(1, 11):
        for wrap, step in ((lambda value: {"k": value}, "/k"), (lambda value: [value], "/0")):
            value: Any = None
            for _ in range(depth - 1):
                value = wrap(value)
            body = {**SAMPLES[operation.id].body, "metadata": value}
            got = await _send(clients, operation, data=dumps(body))
            _assert_refused(got, "validation_failed", "null_not_allowed", "/metadata" + step * (depth - 1))


@every_body
async def test_null_in_the_place_of_each_member_is_refused(clients: Clients, operation: Operation) -> None:
    for name in SAMPLES[operation.id].body:
        body = {**SAMPLES[operation.id].body, name: None}
        _assert_refused(
            await _send(clients, operation, data=dumps(body)), "validation_failed", "null_not_allowed", f"/{name}"
        )


@every_body
async def test_nul_and_lone_surrogates_are_refused_in_every_text(clients: Clients, operation: Operation) -> None:
    for path in _texts(SAMPLES[operation.id].body):
        for bad in ("\x00", "\ud83c", "x\udf78"):
            body = copy.deepcopy(SAMPLES[operation.id].body)
            place = body
            for token in path[:-1]:
                place = place[token]
            place[path[-1]] = bad
            pointer = "".join(f"/{token}" for token in path)
            got = await _send(clients, operation, data=dumps(body))
            _assert_refused(got, "validation_failed", "invalid_text", pointer)


def _texts(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, str):
        return [path]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for name, member in members for found in _texts(member, (*path, name))]


@every_body
async def test_unknown_members_are_refused_and_deep_ones_do_no_harm(clients: Clients, operation: Operation) -> None:
    body = {**SAMPLES[operation.id].body, "colour": "blue"}
    _assert_refused(await _send(clients, operation, data=dumps(body)), "validation_failed", "unknown_field", "/colour")
    deep = dumps(SAMPLES[operation.id].body)[:-1] + b', "colour": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    deep = deep.replace(b"{, ", b"{")
    assert (await _send(clients, operation, data=deep)).code == "invalid_json"


# Content-Type -> is it taken
MEDIA_TYPES = {
    "application/json": True,
    "APPLICATION/JSON": True,
    "Application/Json; Charset=UTF-8": True,
    'application/json; charset="utf-8"': True,
    "application/json;charset=utf-8": True,
    "application/json; charset=foo": False,
    "application/json; charset=utf-16": False,
    "application/json; charset=latin-1": False,
    "text/plain": False,
    "text/json": False,
    "application/x-www-form-urlencoded": False,
    "multipart/form-data; boundary=x": False,
    "application/json-patch+json": False,
    "application/merge-patch+json": False,
    "application/vnd.api+json": False,
    "application/problem+json": False,
    "application/jsonx": False,
    "application/octet-stream": False,
    "json": False,
    "": False,
    "*/*": False,
    ";": False,
}


@every_body
async def test_media_types_are_taken_or_not_the_same_everywhere(clients: Clients, operation: Operation) -> None:
    for media, taken in MEDIA_TYPES.items():
        got = await _send(clients, operation, data=b'{"a": null}', headers={"Content-Type": media})
        assert got.status == (400 if taken else 415), media
        assert got.code == ("validation_failed" if taken else "unsupported_media_type")
        if not taken:
            assert got.headers["Accept"] == "application/json"


@every_body
async def test_a_body_without_a_media_type_is_refused(clients: Clients, operation: Operation) -> None:
    got = await _send(clients, operation, data=b'{"a": null}', headers={"Content-Type": ""})
    assert got.status == 415


@every_body
async def test_compressed_bodies_are_refused_unread(clients: Clients, operation: Operation) -> None:
    bomb = gzip.compress(b"0" * 1_000_000)
    for encoding, raw in {
        "gzip": bomb,
        "deflate": zlib.compress(b"{}"),
        "br": b"x",
        "gzip, gzip": gzip.compress(bomb),
        "zstd": b"x",
    }.items():
        got = await _send(clients, operation, data=raw, headers={"Content-Encoding": encoding})
        assert (got.status, got.code) == (415, "unsupported_media_type"), encoding
        assert got.headers["Accept-Encoding"] == "identity"
    assert (await _send(clients, operation, headers={"Content-Encoding": "identity"})).status != 415


@every_body
async def test_a_body_larger_than_the_limit_is_refused(clients: Clients, operation: Operation) -> None:
    limit = clients.live.settings.integer("api.body_max_bytes")
    at_the_limit = b'{"a": "' + b"x" * (limit - 9) + b'"}'
    assert len(at_the_limit) == limit
    got = await _send(clients, operation, data=at_the_limit)
    _assert_refused(got, "validation_failed", "unknown_field", "/a")
    assert (await _send(clients, operation, data=at_the_limit + b" ")).code == "body_too_large"


@every_body
async def test_an_absent_body_is_taken_where_it_is_optional(clients: Clients, operation: Operation) -> None:
    for headers in ({}, {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}):
        got = await _send(clients, operation, data=None, headers={"Content-Length": "0", **headers})
        if operation.body_required:
            _assert_refused(got, "validation_failed", "required", "")
        else:
            assert got.code == "not_found"


@pytest.mark.parametrize(
    "operation", [o for o in OPERATIONS.values() if not o.has_body], ids=lambda operation: operation.id
)
async def test_a_body_is_refused_where_none_is_taken(clients: Clients, operation: Operation) -> None:
    got = await _send(clients, operation, data=b"{}")
    _assert_refused(got, "validation_failed", "unknown_field", "")
    assert (await _send(clients, operation, headers={"Content-Length": "0"})).code != "validation_failed"


async def test_surrogate_pairs_and_raw_utf_8_are_the_same_text(clients: Clients) -> None:
    thread = clients.world.threads["Support/General"]
    texts = []
    for number, raw in enumerate((b'"\\ud83c\\udf78"', '"🍸"'.encode())):
        data = b'{"client_msg_id":"0193a000-0000-4000-8000-00000000000%d","body":%s}' % (number, raw)
        got = await clients["alex"].request("POST", f"/v1/threads/{thread}/messages", data=data)
        assert got.status == 201
        texts.append(got.json["body"])
    assert texts == ["🍸", "🍸"]


async def test_whole_numbers_may_be_written_as_floats_and_minus_zero_is_a_number(clients: Clients) -> None:
    """1.0 and 1e0 are the integer 1 (JSON Schema 2020-12, 6.1.1); a negative zero with a fraction is none."""
    for literal, taken in {b"1": True, b"1.0": True, b"10e-1": True, b"1.5": False, b"-0.0": False}.items():
        data = b'{"claim_id":"0193a000-0000-4000-8000-0000000000b1","limit":%s}' % literal
        got = await clients["lotse"].request("POST", "/v1/invocations/claim", data=data)
        assert (got.status == 200) is taken, literal


def test_the_corpus_is_json_nowhere_or_refused_for_what_it_says() -> None:
    """A document that a plain parser takes is refused for its content, not because the corpus is broken."""
    for name, (raw, _, error, _) in BAD_JSON.items():
        if error in ("null_not_allowed", "duplicate_key"):
            assert json.loads(raw) != [], name


async def test_a_live_server_is_still_well(live: Live, clients: Clients) -> None:
    assert (await clients[None].get("/v1/readiness")).status == 200
