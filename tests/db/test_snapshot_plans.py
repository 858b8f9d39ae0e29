"""Lists of units of work read what they show, however much there is: counted by the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from db.embedded import Server
from tests.db.run_rows import Rows
from tests.fixtures.database import connect, fresh_database

pytestmark = pytest.mark.long

ENDED: Final = 30_000
ACTIVE: Final = 2_000
REGISTERED: Final = 4_000
UNITS: Final = 30_000
PAGE: Final = 50
LOOKED: Final = 4 * (PAGE + 1) + 110
"""A key, the row and the decision for each, a part of the next hundred keys that was read ahead."""
TABLES: Final = ("runs", "agent_snapshots", "threads")

_FILL: Final = """
SET session_replication_role = replica;
INSERT INTO livebox.threads (id, channel_id) SELECT livebox.new_id(), %(channel)s FROM generate_series(1, %(active)s);
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by,
                          billing_mode_expected, invocation_jti, queued_at, started_at, finished_at, document)
SELECT livebox.new_id(), %(thread)s, %(agent)s, 'completed', at, 'message', %(person)s, 'organization', gen_random_uuid(),
       at, at, at, '{"jobs": {"a": {"name": "x", "state": "running"}}}'
  FROM (SELECT timestamptz '2026-01-01Z' + n * interval '1 s' AS at FROM generate_series(1, %(ended)s) AS n) AS times;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by,
                          billing_mode_expected, invocation_jti, queued_at)
SELECT livebox.new_id(), t.id, %(agent)s, 'queued', timestamptz '2026-03-01Z', 'message', %(person)s, 'organization',
       gen_random_uuid(), timestamptz '2026-01-01Z' + row_number() OVER () * interval '29 s'
  FROM livebox.threads t WHERE t.id <> %(thread)s;
INSERT INTO livebox.runs (id, agent_id, state, state_changed_at, trigger_kind, billing_mode_expected, queued_at, started_at,
                          finished_at, registered_at, registered_by, agents, parent_run_id)
SELECT gen_random_uuid(), %(agent)s, 'completed', at, 'registration', 'organization', at, at, at, at, %(person)s,
       ARRAY[%(agent)s::uuid], CASE WHEN n %% 2 = 0 THEN %(root)s::uuid END
  FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '13 s' AS at FROM generate_series(1, %(registered)s) AS n) AS times;
INSERT INTO livebox.agent_snapshots (owner_id, snapshot_id, source, parent, ended, durable, created_at, updated_at)
SELECT %(agent)s, 'unit/' || n, source, parent, ended,
       jsonb_strip_nulls(jsonb_build_object('source', source, 'parent', parent, 'state', CASE WHEN ended THEN 'terminal' ELSE 'running' END,
           'terminal', CASE WHEN ended THEN '{"outcome": "completed"}'::jsonb END)), at, at
  FROM (SELECT n, n %% 20 <> 0 AS ended, CASE n %% 10 WHEN 0 THEN 'fleet' ELSE 'workflow' END AS source,
               CASE WHEN n %% 15 = 0 THEN %(root)s WHEN n %% 3 = 0 THEN 'unit/' || n / 3 END AS parent,
               timestamptz '2026-01-01Z' + n * interval '1 s' AS at FROM generate_series(1, %(units)s) AS n) AS made;
SET session_replication_role = origin;
ANALYZE;
"""


@pytest.fixture(scope="module")
def rows(server: Server, template: str) -> Iterator[Rows]:
    """A database with very many units of every owner; all of them are seen by an owner of the instance."""
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as connection:
        rows = Rows(connection)
        rows.owner = rows.insert("principals", kind="person", handle="o", display_name="O", role="owner")["id"]  # type: ignore[attr-defined]
        rows.root = rows.registered()  # type: ignore[attr-defined]
        names = {"channel": rows.channel, "thread": rows.thread(), "agent": rows.agent, "person": rows.person}
        counts = {"active": ACTIVE, "ended": ENDED, "registered": REGISTERED, "units": UNITS, "root": rows.root}  # type: ignore[attr-defined]
        with connection.cursor() as cursor:
            cursor.execute(_FILL, {**names, **counts})
        yield rows


def read(rows: Rows, operation: str, principal: str, **args: Any) -> tuple[dict[str, Any], int, int]:
    """The answer's body, how many rows were read of what is large, and the sequential scans of it."""
    counts = (
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS read, sum(seq_scan) AS scans"
        " FROM pg_stat_xact_user_tables WHERE schemaname = 'livebox' AND relname = ANY (%s)"
    )
    given = {"limit": PAGE, "limits": {"registered.tree_max": 1000}, **args}
    rows.run_sql("BEGIN")
    (before,) = rows.run_sql(counts, list(TABLES))
    statement = f"SELECT * FROM livebox.{operation}(%s::jsonb, %s::jsonb)"
    (answer,) = rows.run_sql(statement, json.dumps({"principal": principal}), json.dumps(given))
    (after,) = rows.run_sql(counts, list(TABLES))
    rows.run_sql("ROLLBACK")
    assert answer["code"] == "ok"
    return json.loads(answer["body"]), int(after["read"] - before["read"]), int(after["scans"] - before["scans"])


@pytest.mark.parametrize("at", ["", "2026-01-01T04:00:00.000000Z"])
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"active": True},
        {"active": False},
        {"source": "fleet"},
        {"source": "fleet", "active": True},
        {"source": "task"},
        {"source": "workflow"},
        {"source": "core_job"},
        {"source": "core_job", "active": False},
        {"parent": "root"},
    ],
)
def test_units(rows: Rows, at: str, args: dict[str, Any]) -> None:
    if "parent" in args:
        args = {"parent": rows.root}  # type: ignore[attr-defined]
    place = {"place": {"at": at, "id": "ffffffff-ffff-ffff-ffff-ffffffffffff"}} if at else {}
    body, looked, scans = read(rows, "list_agent_run_snapshots", rows.owner, **args, **place)  # type: ignore[attr-defined]
    assert len(body["items"]) == PAGE + 1
    assert scans == 0
    # What a filter leaves out is looked at too: what is active or registered may lie before it.
    assert looked <= (20 if "source" in args else 3) * LOOKED


def test_what_is_hidden_costs_what_is_examined(rows: Rows) -> None:
    stranger = rows.principal("person")
    body, looked, scans = read(rows, "list_agent_run_snapshots", stranger)
    assert (body["items"], body["scanned"], scans) == ([], body["scan_max"], 0)
    assert looked <= 5 * body["scan_max"]


def test_the_tree_under_a_run(rows: Rows) -> None:
    body, looked, scans = read(rows, "list_run_snapshots", rows.owner, run_id=rows.root)  # type: ignore[attr-defined]
    assert len(body["items"]) == PAGE + 1
    assert scans == 0
    assert looked <= 10 * 1000
