"""Ids and parameters as they stand in a URL: encoded, doubled, unknown, too long."""

from __future__ import annotations

import re

import pytest

from generated.operations import OPERATIONS, Operation
from tests.edge.samples import LISTS, SAMPLES
from tests.fixtures.server import Clients

OPAQUE = "{snapshot_id}"
"""Ids of any scheme: those are no UUIDs."""
WITH_ID = [operation for operation in OPERATIONS.values() if "{" in operation.path.replace(OPAQUE, "")]
SLOT = re.compile(r"(?<=/)[0-9a-f]{8}-[0-9a-f-]{27}")

# What stands in the place of an id -> the status; an id is a UUID in lower case and nothing else.
MALFORMED = (
    "%2F",
    "%252F",
    "%2e%2e",
    "..%2f..",
    "%20",
    "%00",
    "01933b7e-0000-7000-8000-000000000051%00",
    "01933b7e-0000-7000-8000-000000000051%20",
    "%2001933b7e-0000-7000-8000-000000000051",
    "01933b7e-0000-7000-8000-000000000051%0A",
    "01933B7E-0000-7000-8000-00000000005F",
    "01933b7e000070008000000000000051",
    "{01933b7e-0000-7000-8000-000000000051}",
    "urn:uuid:01933b7e-0000-7000-8000-000000000051",
    "01933b7e-0000-7000-8000-00000000005",
    "01933b7e-0000-7000-8000-00000000005g",
    "01933b7e+0000+7000+8000+000000000051",
    "01933b7e%2B0000-7000-8000-000000000051",
    "%FF%FE",
    "%ED%A0%80",
    "%zz",
    "%",
    "1",
    "-1",
    "null",
    "'%20OR%201=1--",
    "a" * 4000,
    "%D9%A1",
    "%E2%80%AE",
)


@pytest.mark.parametrize("operation", WITH_ID, ids=lambda operation: operation.id)
async def test_a_malformed_id_is_refused_by_its_name(clients: Clients, operation: Operation) -> None:
    sample = SAMPLES[operation.id]
    names = re.findall(r"\{(\w+)\}", operation.path)
    assert len(SLOT.findall(sample.path)) == len(names)
    for number, name in enumerate(names):
        start, end = list(SLOT.finditer(sample.path))[number].span()
        for text in MALFORMED:
            got = await sample.send(clients["owner"], clients.live, path=sample.path[:start] + text + sample.path[end:])
            assert (got.status, got.code) == (400, "validation_failed"), text
            assert [(error["code"], error["parameter"]) for error in got.json["errors"]] == [("malformed_id", name)], (
                text
            )


@pytest.mark.parametrize(
    "text", ["%20", "a%20b", "%00", "%0A", "%7F", "%C3%A4", "%FF", "%ED%A0%80", "%zz%20", "a" * 301]
)
async def test_an_id_of_any_scheme_is_visible_ascii(clients: Clients, text: str) -> None:
    for operation in OPERATIONS.values():
        if OPAQUE in operation.path:
            sample = SAMPLES[operation.id]
            path = operation.path.replace(OPAQUE, text)
            got = await sample.send(clients["owner"], clients.live, path=path)
            assert (got.status, got.code) == (400, "validation_failed"), text
            assert [error["parameter"] for error in got.json["errors"]] == ["snapshot_id"], text


@pytest.mark.parametrize("digits", ["upper", "lower"])
async def test_an_encoded_id_is_that_id(clients: Clients, digits: str) -> None:
    found = clients.world.principals["alex"]
    encoded = "".join(f"%{ord(character):02x}" for character in found)
    encoded = encoded.upper() if digits == "upper" else encoded
    plain = await clients["owner"].get(f"/v1/principals/{found}")
    got = await clients["owner"].get(f"/v1/principals/{encoded}")
    assert (got.status, got.body) == (200, plain.body)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.id)
async def test_unknown_and_repeated_parameters_are_refused(clients: Clients, operation: Operation) -> None:
    sample = SAMPLES[operation.id]
    for query in ("colour=blue", "colour", "=", "Limit=1", "limit%00=1", "%6cimits=1", "access_token=x"):
        got = await sample.send(clients["owner"], clients.live, path=f"{sample.path}?{query}")
        assert (got.status, got.code) == (400, "validation_failed"), query
        assert got.json["errors"][0]["code"] == "unknown_parameter", query
    got = await sample.send(clients["owner"], clients.live, path=f"{sample.path}?colour=1&colour=2")
    assert got.code == "validation_failed"


LIMITED = [operation for operation in LISTS if operation.id != "getSnapshot"]


@pytest.mark.parametrize("operation", LIMITED, ids=lambda operation: operation.id)
async def test_a_limit_is_a_plain_number_within_its_range(clients: Clients, operation: Operation) -> None:
    sample = SAMPLES[operation.id]
    for text in ("0", "-1", "1001", "1.0", "1e1", "%201", "+1", "01", "0x1", "", "ten", "%D9%A1", "9" * 400, "1%00"):
        got = await sample.send(clients["owner"], clients.live, path=f"{sample.path}?limit={text}")
        assert got.code == "validation_failed", text
        assert got.json["errors"][0]["parameter"] == "limit"
    for text in ("limit=1&limit=2", "limit=1&limit=1"):
        got = await sample.send(clients["owner"], clients.live, path=f"{sample.path}?{text}")
        assert got.json["errors"][0]["code"] == "repeated_parameter"
    assert (await sample.send(clients["owner"], clients.live, path=f"{sample.path}?limit=1")).code in ("", "not_found")
    # %6c is a spelling of l, and an empty query is no query
    assert (await sample.send(clients["owner"], clients.live, path=f"{sample.path}?%6cimit=1&")).code in (
        "",
        "not_found",
    )


async def test_a_fragment_in_a_target_is_no_part_of_the_path(clients: Clients) -> None:
    assert (await clients[None].get("/v1/health?")).status == 200


@pytest.mark.parametrize("key", ["", "ä", "a b", "x" * 256, "a\tb"])
async def test_an_idempotency_key_is_visible_ascii(clients: Clients, key: str) -> None:
    got = await clients["owner"].post("/v1/spaces", {"name": "Design"}, headers={"Idempotency-Key": key})
    assert got.code == "validation_failed"
    assert got.json["errors"][0]["parameter"] == "Idempotency-Key"
