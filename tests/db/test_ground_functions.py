"""Ids, times, texts and the log's own functions."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.db.run_rows import Rows


@pytest.fixture
def rows(sql: Any) -> Rows:
    return Rows(sql)


def value(rows: Rows, expression: str, *values: object) -> Any:
    """The value of an expression."""
    return rows.run_sql(f"SELECT {expression} AS value", *values)[0]["value"]


def test_ids_are_uuids_of_version_seven_and_rise_with_time(rows: Rows) -> None:
    found = [
        uuid.UUID(row["id"])
        for row in rows.run_sql("SELECT livebox.new_id()::text AS id FROM generate_series(1, 2000)")
    ]
    assert {(one.version, one.variant) for one in found} == {(7, uuid.RFC_4122)}
    assert len(set(found)) == len(found)
    stamps = [one.int >> 64 for one in found]
    assert stamps == sorted(stamps)
    clock = value(rows, "extract(epoch FROM livebox.clock()) * 1000")
    assert abs((found[-1].int >> 80) - float(clock)) < 60_000


def test_ids_follow_the_clock(rows: Rows) -> None:
    rows.run_sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql"
        " AS $$SELECT '2030-01-02T03:04:05.678901Z'::timestamptz$$"
    )
    one = uuid.UUID(value(rows, "livebox.new_id()::text"))
    assert one.int >> 80 == 1893553445678
    assert (one.int >> 64) & 0xFFF == 901 * 4096 // 1000


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_times_leave_in_utc_whatever_the_session_has(rows: Rows, zone: str) -> None:
    rows.run_sql("SELECT set_config('TimeZone', %s, false)", zone)
    assert value(rows, "livebox.utc('2026-11-02T15:00:00.123456+05:30')") == "2026-11-02T09:30:00.123456Z"


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("null", True),
        ("{}", False),
        ('"null"', False),
        ('{"null": "null"}', False),
        ('{"a": null}', True),
        ("[[[[null]]]]", True),
        ('{"a": {"b": [{"c": [1, {"d": null}]}]}}', True),
        ('{"a": {"b": [{"c": [1, {"d": false}]}]}}', False),
    ],
)
def test_a_null_is_found_at_any_depth(rows: Rows, document: str, found: bool) -> None:
    assert value(rows, "livebox.has_json_null(%s)", document) is found
    assert value(rows, "livebox.has_json_null(%s)", '{"x": ' * 30 + document + "}" * 30) is found


@pytest.mark.parametrize("text", ["", "plain", "äöü", "日本語", "🍸🍸🍸", "a🍸b日c"])
def test_texts_are_cut_between_characters(rows: Rows, text: str) -> None:
    raw = text.encode()
    for size in range(len(raw) + 2):
        assert value(rows, "livebox.cut_text(%s, %s)", text, size) == raw[:size].decode(errors="ignore")


def test_retention_removes_a_prefix_and_raises_the_floor(rows: Rows) -> None:
    insert = (
        "INSERT INTO livebox.events (type, resource_kind, resource_id, receive_action, payload, at)"
        " VALUES ('space.created', 'space', 'x', 'space.read', '{}', livebox.clock() - make_interval(hours => %s)) RETURNING seq"
    )
    seqs = [rows.run_sql(insert, hours)[0]["seq"] for hours in (9, 8, 7, 1, 6, 0)]

    def state() -> tuple[list[int], int, int]:
        kept = [row["seq"] for row in rows.run_sql("SELECT seq FROM livebox.events ORDER BY seq")]
        return kept, value(rows, "(SELECT floor FROM livebox.log_state)"), value(rows, "livebox.last_seq()")

    assert value(rows, "livebox.expire_events(%s, 2)", 5 * 3600) == 2
    assert state() == (seqs[2:], seqs[1], seqs[-1])
    assert value(rows, "livebox.expire_events(%s, 100)", 5 * 3600) == 1, "an old one behind a young one stays"
    assert state() == (seqs[3:], seqs[2], seqs[-1])
    assert value(rows, "livebox.expire_events(%s, 100)", 5 * 3600) == 0
    assert value(rows, "livebox.expire_events(0, 100)") == 3
    assert state() == ([], seqs[-1], seqs[-1]), "an empty log still knows how far it came"

    caller = f'{{"principal": "{rows.person}"}}'
    for after, code in {
        0: "cursor_expired",
        seqs[-1] - 1: "cursor_expired",
        seqs[-1]: "ok",
        seqs[-1] + 1: "cursor_invalid",
    }.items():
        assert value(rows, "(livebox.list_events(%s, %s)).code", caller, f'{{"after": {after}}}') == code


def test_expired_keys_go_and_others_stay(rows: Rows) -> None:
    for key, hours in {"old": 25, "young": 1}.items():
        rows.run_sql(
            "INSERT INTO livebox.idempotency_keys VALUES (%s, 'x', %s, 'x', 'created', 'x', 'x', livebox.clock() - make_interval(hours => %s))",
            rows.person,
            key,
            hours,
        )
    assert value(rows, "livebox.prune_idempotency_keys(%s, 100)", 24 * 3600) == 1
    assert value(rows, "(SELECT key FROM livebox.idempotency_keys)") == "young"


def test_long_bodies_are_cut_in_events_and_the_snapshot_only(rows: Rows) -> None:
    rows.run_sql(
        "INSERT INTO livebox.grants (principal_id, space_id, level) VALUES (%s, %s, 'trigger')", rows.person, rows.space
    )
    caller, text = f'{{"principal": "{rows.person}"}}', "日" * 100
    limits = '{"event.body_max_bytes": 64}'
    made = value(
        rows,
        "(livebox.create_message(%s, jsonb_build_object('thread_id', %s, 'request_hash', 'x', 'limits', %s::jsonb,"
        " 'body', jsonb_build_object('body', %s, 'client_msg_id', 'x')))).body::jsonb",
        caller,
        rows.thread(),
        limits,
        text,
    )
    assert made["body"] == text
    shown = value(rows, "(livebox.list_events(%s, '{}')).body::jsonb", caller)["items"][-1]["payload"]["message"]
    assert (shown["body"], shown["truncated"]) == ("日" * 21, True)
    (head,) = value(rows, "(livebox.get_snapshot(%s, %s)).body::jsonb", caller, f'{{"limits": {limits}}}')["messages"]
    assert head == shown
    whole = value(
        rows, "(livebox.get_message(%s, jsonb_build_object('message_id', %s))).body::jsonb", caller, made["id"]
    )
    assert whole == made
