"""Bodies of patchRun that are not taken, from the holder of the run: others hear first that they may not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.edge.test_bodies import BAD_JSON, MEDIA_TYPES, WRONG_SHAPE
from tests.fixtures.server import Live
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered

PATCH = {"base_version": 1, "ops": [{"op": "add", "path": "/headline", "value": "Counting"}]}


@pytest.fixture(scope="module")
def held(live: Live) -> Iterator[tuple[Stage, Held]]:
    """A running run, and the world that it is in."""
    stage = Stage(live)
    yield stage, stage.running()
    stage.close()


def send(held: tuple[Stage, Held], raw: bytes | None, **headers: str) -> Answered:
    stage, run = held
    given = {**run.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return stage.as_("lotse").call("patchRun", raw=raw, headers=given, run_id=run.id)


def refused(answer: Answered, status: int, code: str, error: str = "", pointer: str = "") -> None:
    assert (answer.status, answer.body["code"]) == (status, code)
    if error:
        assert (error, pointer) in [(found["code"], found["pointer"]) for found in answer.body["errors"]]


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json(held: tuple[Stage, Held], name: str) -> None:
    raw, code, error, pointer = BAD_JSON[name]
    refused(send(held, raw), 400, code, error, pointer)


@pytest.mark.parametrize("name", WRONG_SHAPE)
def test_other_documents_than_objects(held: tuple[Stage, Held], name: str) -> None:
    refused(send(held, WRONG_SHAPE[name]), 400, "validation_failed", "wrong_type")


@pytest.mark.parametrize("depth", range(1, 11))
def test_null_at_every_depth(held: tuple[Stage, Held], depth: int) -> None:
    value: Any = None
    for _ in range(depth - 1):
        value = {"k": [value]}
    raw = json.dumps({**PATCH, "metadata": value}).encode()
    refused(send(held, raw), 400, "validation_failed", "null_not_allowed", "/metadata" + "/k/0" * (depth - 1))
    raw = json.dumps({"base_version": 1, "ops": [{"op": "add", "path": "/headline", "value": value}]}).encode()
    answer = send(held, raw)
    assert (answer.status, answer.body["code"]) in [(400, "validation_failed"), (409, "version_conflict")]


def test_no_body_unknown_members_and_deep_ones(held: tuple[Stage, Held]) -> None:
    refused(send(held, None), 400, "validation_failed", "required")
    refused(
        send(held, json.dumps({**PATCH, "colour": "blue"}).encode()),
        400,
        "validation_failed",
        "unknown_field",
        "/colour",
    )
    deep = json.dumps(PATCH).encode()[:-1] + b', "colour": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    refused(send(held, deep), 400, "invalid_json", "too_deep", "/colour" + "/0" * 63)


@pytest.mark.parametrize("media", [media for media in MEDIA_TYPES if media])
def test_media_types(held: tuple[Stage, Held], media: str) -> None:
    answer = send(held, b'{"a": null}', Content_Type=media)
    if MEDIA_TYPES[media]:
        refused(answer, 400, "validation_failed")
    else:
        refused(answer, 415, "unsupported_media_type")


def test_compressed_and_large_ones(held: tuple[Stage, Held]) -> None:
    refused(send(held, gzip.compress(b"0" * 10**6), Content_Encoding="gzip"), 415, "unsupported_media_type")
    limit = held[0].live.settings.integer("api.body_max_bytes")
    at_the_limit = b'{"a": "' + b"x" * (limit - 9) + b'"}'
    refused(send(held, at_the_limit + b" "), 413, "body_too_large")
    answer = send(held, at_the_limit)
    assert (answer.status, answer.body["code"]) in [(400, "validation_failed"), (413, "patch_too_large")]
