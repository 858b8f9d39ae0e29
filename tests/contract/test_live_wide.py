"""Counters beyond 2^31, sessions in other time zones, and requests that try to set what is not theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generated.operations import OPERATIONS
from livebox.service import openapi_document
from livebox.world import OWNER
from tests.fixtures.listings import LISTINGS, id_of, rows
from tests.fixtures.scenarios import SCENARIOS
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import fresh, walk
from tests.fixtures.world import WorldCopy

EDGE = 2**31 - 2
FAR = 2**53 - 1000


@pytest.fixture
def own(own_live: Live) -> Iterator[Stage]:
    """A world of this test's own."""
    stage = Stage(own_live)
    yield stage
    stage.close()


def advance(stage: Stage, to: int) -> None:
    """Bring every sequence and every count that clients see to `to`."""
    for (name,) in stage.sql("SELECT sequencename FROM pg_sequences WHERE schemaname = 'livebox'"):
        stage.sql("SELECT setval(format('livebox.%%I', %s::text)::regclass, %s)", name, to)
    for table in ("messages", "channels", "principals", "spaces", "groups", "grants"):
        stage.sql(f"UPDATE livebox.{table} SET version = %s", to)
    stage.sql("UPDATE livebox.threads SET version = %s, last_thread_seq = %s", to, to)
    stage.sql("UPDATE livebox.runs SET version = %s, version_reserved = %s, step_count = %s", to, to, to)


@pytest.mark.parametrize("edge", [EDGE, FAR])
def test_counts_go_on(own: Stage, edge: int) -> None:
    """Past 2^31, and to the end of what JSON carries exactly; the client looks that no number is beyond it."""
    held = own.running()
    thread_id = held.run["thread_id"]
    message = own.message(thread_id, "alex", "And today?")
    advance(own, edge)

    wire, agent = own.as_("alex"), own.as_("lotse")
    version = wire.call("getMessage", message_id=message["id"]).ok()["version"]
    edited = wire.call("editMessage", {"body": "And tomorrow?"}, message_id=message["id"])
    assert edited.ok()["version"] == version + 1 > edge
    assert edited.headers["etag"] == f'"{version + 1}"'
    same = {"headers": {"If-Match": edited.headers["etag"]}, "message_id": message["id"]}
    wire.call("editMessage", {"body": "And then?"}, **same).ok()
    wire.call("editMessage", {"body": "No"}, **same).refused(412, "version_mismatch")

    said = [own.message(thread_id, "alex", f"Message {number}") for number in range(2)]
    assert edge < said[0]["thread_seq"] < said[1]["thread_seq"]
    page = wire.call("listThreadMessages", query={"limit": 1}, thread_id=thread_id).ok()
    assert page["items"][0]["id"] == said[1]["id"]
    query = {"limit": 1, "cursor": page["next_cursor"]}
    page = wire.call("listThreadMessages", query=query, thread_id=thread_id).ok()
    assert page["items"][0]["id"] == said[0]["id"]

    step = own.step(held)
    assert step["ordinal"] > edge
    run = wire.call("getRun", run_id=held.id).ok()
    assert run["step_count"] == step["ordinal"]
    assert run["version"] > edge
    wire.call("cancelRun", run_id=held.id).ok()
    ended = agent.call("finishRun", {"state": "completed"}, headers=held.headers, run_id=held.id).ok()
    assert ended["version"] > run["version"]

    log = wire.call("listEvents", query={"after": 0, "limit": 200}).ok()["items"]
    seqs = [event["seq"] for event in log]
    assert seqs == sorted(set(seqs))
    assert seqs[0] < 1000 < edge < seqs[-1]
    snapshot = wire.call("getSnapshot").ok()
    assert snapshot["seq"] >= seqs[-1] > edge
    wire.call("updateChannel", {"name": "X"}, channel_id=own.world.channels[ROOM]).refused(403, "forbidden")
    changed = own.as_(OWNER).call("updateChannel", {"name": "X"}, channel_id=own.world.channels[ROOM]).ok()
    assert changed["version"] == edge + 1


def test_the_time_zone_of_the_session_changes_nothing(world_copy: WorldCopy, tmp_path: Path) -> None:
    """The same answers, byte for byte, and cursors that go on, under another TimeZone and DateStyle."""
    asks = ("getRun", "listRunSteps", "getMessage", "listThreadMessages", "listThreads", "listActiveRuns", "listEvents")
    with live_server(world_copy, tmp_path) as live:
        stage = Stage(live)
        built = {name: SCENARIOS[name][0](stage) for name in asks}
        listings = {name: build(stage).ask for name, build in LISTINGS.items()}
        before = {name: ask.at(stage.as_(ask.by)).raw for name, ask in built.items()}
        whole = {name: rows(stage.as_(ask.by), ask, 100) for name, ask in listings.items()}
        started = {
            name: ask.at(stage.as_(ask.by), query={**ask.query, "limit": 3}).ok()["next_cursor"]
            for name, ask in listings.items()
        }
        name = stage.sql("SELECT current_database()")[0][0]
        for setting in ("TimeZone = 'Asia/Kathmandu'", "DateStyle = 'German'", "IntervalStyle = 'sql_standard'"):
            stage.sql(f"ALTER DATABASE {name} SET {setting}")
        stage.close()
    with live_server(world_copy, tmp_path) as live:
        stage = Stage(live)
        assert stage.sql("SHOW TimeZone") == [("Asia/Kathmandu",)]
        for name, ask in built.items():
            assert ask.at(stage.as_(ask.by)).raw == before[name], name
        for name, ask in listings.items():
            page = ask.at(stage.as_(ask.by), query={**ask.query, "cursor": started[name]}).ok()
            assert [id_of(row) for row in page["items"]] == whole[name][3:], name
        run = stage.finished().run
        times = [value for pointer, value in walk(run) if pointer.endswith("_at")]
        assert len(times) > 3
        assert all(time.endswith("Z") and time[10] == "T" for time in times)
        assert run["queued_at"] <= run["started_at"] <= run["finished_at"]
        stage.close()


# What a request may not set

FORBIDDEN: dict[str, Any] = {
    "id": "01933b7e-0000-7000-8000-000000000031",
    "version": 99,
    "state": "completed",
    "created_at": "2026-11-02T09:30:00Z",
    "created_by": "01933b7e-0000-7000-8000-000000000001",
    "author_id": "01933b7e-0000-7000-8000-000000000001",
    "origin": "system",
    "thread_seq": 1,
    "trigger_state": "done",
    "is_main": True,
    "run_id": fresh(),
    "triggered_by": fresh(),
    "ordinal": 1,
    "step_count": 5,
    "__proto__": {},
    "constructor": "x",
    "ID": "x",
}
SCHEMAS: dict[str, Any] = json.loads(openapi_document())["components"]["schemas"]
WITH_BODY = [operation.id for operation in OPERATIONS.values() if operation.has_body]


@pytest.mark.parametrize("operation", WITH_BODY)
def test_a_good_member_beside_a_forbidden_one_is_not_applied(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    wire = stage.as_(ask.by)
    schema = SCHEMAS[f"{operation[0].upper()}{operation[1:]}Request"]
    schema = SCHEMAS[schema["oneOf"][0]["$ref"].rpartition("/")[2]] if "oneOf" in schema else schema
    last = stage.sql("SELECT max(seq), (SELECT sum(version) FROM livebox.runs) FROM livebox.events")
    for name, value in FORBIDDEN.items():
        if name in schema.get("properties", {}):
            continue
        code = "field_write_once" if name in schema.get("x-write-once", ()) else "unknown_field"
        body = {**(ask.body or {}), name: value}
        answer = ask.at(wire, body=body).refused(400, "validation_failed")
        assert (code, f"/{name}") in answer.errors(), name
    assert stage.sql("SELECT max(seq), (SELECT sum(version) FROM livebox.runs) FROM livebox.events") == last
    ask.at(wire).ok()
