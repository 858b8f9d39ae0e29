"""Cursors: good where they were made, and nowhere else."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livebox.cursors import CursorInvalid, Cursors
from tests.edge.raw import exchange, request
from tests.edge.samples import LISTS, SAMPLES
from tests.fixtures.server import Client, Clients, Got, Live, client_session, live_server
from tests.fixtures.world import WorldCopy

KEY = bytes(range(32))
WHERE: tuple[str, str, dict[str, Any]] = ("listSpaces", "01933b7e-0000-7000-8000-000000000001", {"state": "running"})
POSITION = {"id": "01933b7e-0000-7000-8000-000000000061", "at": "2026-11-02T09:30:00.123456Z", "n": 2**53 - 1}


def test_a_cursor_opens_to_what_was_sealed_whatever_the_page_size() -> None:
    sealed = Cursors(KEY).seal(POSITION, *WHERE)
    operation, principal, filters = WHERE
    assert Cursors(KEY).open(sealed, operation, principal, {"limit": 7, **filters, "cursor": sealed}) == POSITION


def test_a_cursor_shows_nothing_and_never_looks_the_same() -> None:
    sealed = [Cursors(KEY).seal(POSITION, *WHERE) for _ in range(50)]
    assert len(set(sealed)) == 50
    for cursor in sealed:
        raw = base64.urlsafe_b64decode(cursor + "==")
        assert b"01933b7e" not in raw
        assert cursor.isascii()
        assert len(cursor) <= 1024


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("listChannels", WHERE[1], WHERE[2]),
        (WHERE[0], "01933b7e-0000-7000-8000-000000000002", WHERE[2]),
        (WHERE[0], WHERE[1], {}),
        (WHERE[0], WHERE[1], {"state": "queued"}),
        (WHERE[0], WHERE[1], {"state": "running", "agent_id": "x"}),
        (WHERE[0] + WHERE[1], "", WHERE[2]),
    ],
)
def test_a_cursor_opens_only_where_it_was_made(elsewhere: tuple[str, str, dict[str, Any]]) -> None:
    sealed = Cursors(KEY).seal(POSITION, *WHERE)
    with pytest.raises(CursorInvalid):
        Cursors(KEY).open(sealed, *elsewhere)


def test_another_key_opens_nothing() -> None:
    with pytest.raises(CursorInvalid):
        Cursors(os.urandom(32)).open(Cursors(KEY).seal(POSITION, *WHERE), *WHERE)


def test_every_change_of_one_character_is_seen() -> None:
    sealed = Cursors(KEY).seal(POSITION, *WHERE)
    for place in range(len(sealed)):
        for other in "A_-z0":
            if sealed[place] != other:
                with pytest.raises(CursorInvalid):
                    Cursors(KEY).open(sealed[:place] + other + sealed[place + 1 :], *WHERE)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_nothing_else_is_a_cursor(text: str) -> None:
    with pytest.raises(CursorInvalid):
        Cursors(KEY).open(text, *WHERE)


@pytest.mark.parametrize("shape", ["{}=", "{}==", " {}", "{}\n", "{}A", "{}{}", "{}."])
def test_a_cursor_has_one_spelling(shape: str) -> None:
    sealed = Cursors(KEY).seal(POSITION, *WHERE)
    with pytest.raises(CursorInvalid):
        Cursors(KEY).open(shape.replace("{}", sealed), *WHERE)


# Over the wire.

TAMPERED = (
    "AAAA",
    "x",
    "-",
    "____",
    "A" * 1024,
    "A" * 1025,
    "A" * 5000,
    "%00",
    "a%00b",
    "%2B",
    "+",
    "a%20b",
    "..",
    "ä",
    "",
)


def _assert_invalid(got: Got) -> None:
    assert (got.status, got.code) == (400, "cursor_invalid")
    assert [error["parameter"] for error in got.json["errors"]] == ["cursor"]


@pytest.mark.parametrize("operation", LISTS, ids=lambda operation: operation.id)
async def test_no_list_takes_a_cursor_that_it_did_not_make(clients: Clients, operation: Any) -> None:
    sample = SAMPLES[operation.id]
    for text in TAMPERED:
        encoded = text if text.isascii() else "%C3%A4"
        _assert_invalid(await sample.send(clients["owner"], clients.live, path=f"{sample.path}?cursor={encoded}"))


def test_a_cursor_of_a_megabyte_is_refused(live: Live) -> None:
    headers = f"Authorization: Bearer {live.tokens['owner']}"
    assert exchange(live, request("GET", "/v1/spaces?cursor=" + "A" * 1_000_000, headers)).status == 400


async def test_the_cursor_of_another_list_filter_or_person_is_refused(clients: Clients) -> None:
    owner = clients["owner"]
    support = clients.world.spaces["Support"]
    cursor = (await owner.get("/v1/channels?limit=1")).json["next_cursor"]
    assert (await owner.get(f"/v1/channels?limit=2&cursor={cursor}")).status == 200
    _assert_invalid(await owner.get(f"/v1/spaces?cursor={cursor}"))
    _assert_invalid(await owner.get(f"/v1/channels?cursor={cursor}&space_id={support}"))
    _assert_invalid(await clients["alex"].get(f"/v1/channels?cursor={cursor}"))
    _assert_invalid(await owner.get(f"/v1/channels?cursor={cursor[:-1]}"))
    _assert_invalid(await owner.get(f"/v1/channels?cursor={cursor[:20]}"))
    _assert_invalid(await owner.get(f"/v1/channels?cursor={cursor}A"))
    filtered = (await owner.get(f"/v1/channels?limit=1&space_id={support}")).json["next_cursor"]
    assert (await owner.get(f"/v1/channels?space_id={support}&cursor={filtered}")).status == 200
    _assert_invalid(await owner.get(f"/v1/channels?cursor={filtered}"))


async def test_a_path_is_part_of_what_a_cursor_is_bound_to(clients: Clients) -> None:
    threads = clients.world.threads
    for number in range(3):
        body = {"body": "Good morning", "client_msg_id": f"0193a000-0000-4000-8000-0000000000f{number}"}
        path = f"/v1/threads/{threads['Engineering/General']}/messages"
        assert (await clients["owner"].post(path, body)).status == 201
    cursor = (await clients["owner"].get(f"{path}?limit=1")).json["next_cursor"]
    assert (await clients["owner"].get(f"{path}?limit=1&cursor={cursor}")).status == 200
    _assert_invalid(await clients["owner"].get(f"/v1/threads/{threads['Support/General']}/messages?cursor={cursor}"))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
async def test_pages_of_every_size_give_each_item_once_and_end(clients: Clients, size: int) -> None:
    whole = [item["id"] for item in (await clients["owner"].get("/v1/channels?limit=1000")).json["items"]]
    assert len(whole) == 5
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = (await clients["owner"].get(f"/v1/channels?limit={size}{cursor}")).json
        seen += [item["id"] for item in page["items"]]
        if "next_cursor" not in page:
            break
        assert len(page["items"]) == size
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == whole


async def test_a_cursor_survives_a_restart_and_not_the_loss_of_its_key(world_copy: WorldCopy, tmp_path: Path) -> None:
    async def get(live: Live, path: str) -> Got:
        async with client_session() as session:
            return await Client(session, live.url, live.tokens["owner"]).get(path)

    with live_server(world_copy, tmp_path) as live:
        cursor = (await get(live, "/v1/spaces?limit=1")).json["next_cursor"]
        second = (await get(live, f"/v1/spaces?limit=1&cursor={cursor}")).json["items"]
    with live_server(world_copy, tmp_path) as live:
        assert (await get(live, f"/v1/spaces?limit=1&cursor={cursor}")).json["items"] == second
    (tmp_path / "keys" / "cursor.key").unlink()
    with live_server(world_copy, tmp_path) as live:
        _assert_invalid(await get(live, f"/v1/spaces?limit=1&cursor={cursor}"))
