"""A sweep over 10^5 active runs reads what is due, by an index each, and nothing else."""

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

ACTIVE: Final = 100_000
DUE: Final = 30  # of each kind
CHUNK: Final = 10
LIMITS: Final = {
    "run.delivery_timeout": 300,
    "run.cancel_timeout": 30,
    "run.interrupt_grace": 30,
    "run.stall_after": 300,
    "run.stale_after": 120,
    "registered.stale_after": 600,
    "service.gap": 30,
    "event.body_max_bytes": 4096,
}
CAUSES: Final = ("undelivered", "unanswered", "uncancelled", "silent", "abandoned", "unmoved", "moving")
TABLES: Final = ("runs", "run_followups")

# Of every kind: very many that are not due, whatever is usual about them, and a few that are. `n` tells them apart.
_FILL: Final = """
SET session_replication_role = replica;
CREATE TEMP TABLE made AS
SELECT n, livebox.new_id() AS thread, livebox.new_id() AS run, livebox.new_id() AS message,
       (ARRAY['queued', 'running', 'running', 'running', 'waiting_input'])[1 + n %% 5] AS state, n / 5 < %(due)s AS due,
       (n / 5) %% 3 AS sort, livebox.clock() AS now
  FROM generate_series(0, %(active)s - 1) AS n;
INSERT INTO livebox.threads (id, channel_id) SELECT thread, %(channel)s FROM made;
INSERT INTO livebox.messages (id, thread_id, author_id, thread_seq, origin, body)
SELECT message, thread, %(person)s, 1, 'human', 'x' FROM made WHERE state <> 'queued';
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by, billing_mode_expected,
                          invocation_jti, queued_at, started_at, last_heartbeat_at, last_progress_at, stalled_since,
                          cancel_requested_at, cancel_requested_by, cancel_deadline)
SELECT run, thread, %(agent)s, state, at, 'message', %(person)s, 'organization', gen_random_uuid(), at,
       CASE WHEN state <> 'queued' THEN at END, CASE WHEN state = 'running' THEN heard END,
       CASE WHEN state = 'running' THEN moved END, CASE WHEN state = 'running' AND n %% 5 = 3 THEN now - interval '500 s' END,
       CASE WHEN state = 'running' AND n %% 5 = 1 THEN at END, CASE WHEN state = 'running' AND n %% 5 = 1 THEN %(person)s::uuid END,
       CASE WHEN state = 'running' AND n %% 5 = 1 THEN CASE WHEN due THEN now - interval '1 s' ELSE now + interval '1 h' END END
  FROM (SELECT *, CASE WHEN state = 'queued' AND NOT due THEN now - n * interval '1 ms' ELSE now - interval '1 day' END AS at,
               CASE WHEN due AND n %% 5 = 2 THEN now - interval '1 h' ELSE now END AS heard,
               CASE n %% 5 WHEN 3 THEN CASE WHEN due THEN now ELSE now - interval '500 s' END
                           ELSE CASE WHEN due AND n %% 5 = 1 THEN now - interval '1 h' ELSE now END END AS moved
          FROM made) AS made;
UPDATE livebox.runs SET last_progress_at = now - interval '1 h' FROM made WHERE run = id AND due AND n %% 5 = 2;
INSERT INTO livebox.run_followups (run_id, message_id, position, state, at, answers_since)
SELECT run, message, 1, CASE WHEN sort = 1 THEN 'delivered' ELSE 'pending' END, at, CASE WHEN state = 'waiting_input' THEN at END
  FROM (SELECT *, CASE WHEN due OR state = 'running' THEN now - interval '1 h' ELSE now END AS at FROM made) AS made
 WHERE state <> 'queued';
INSERT INTO livebox.runs (id, agent_id, state, state_changed_at, trigger_kind, billing_mode_expected, queued_at, started_at,
                          last_progress_at, registered_at, registered_by, agents)
SELECT livebox.new_id(), %(agent)s, 'running', at, 'registration', 'organization', at, at,
       CASE WHEN n < %(due)s THEN now - interval '1 h' ELSE now END, at, %(person)s, ARRAY[%(agent)s::uuid]
  FROM (SELECT n, livebox.clock() AS now, livebox.clock() - interval '1 day' AS at FROM generate_series(0, %(active)s / 5) AS n) AS made;
UPDATE livebox.service SET available_since = livebox.clock() - interval '1 day', touched_at = livebox.clock() + interval '1 day';
SET session_replication_role = origin;
ANALYZE;
"""


@pytest.fixture(scope="module")
def rows(server: Server, template: str) -> Iterator[Rows]:
    """A database with very many active runs, hardly any of them due."""
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as connection:
        rows = Rows(connection)
        names = {"channel": rows.channel, "agent": rows.agent, "person": rows.person, "due": DUE, "active": ACTIVE}
        with connection.cursor() as cursor:
            cursor.execute(_FILL, names)
        yield rows


def counted(rows: Rows, statement: str, *values: object) -> tuple[list[dict[str, Any]], int, int]:
    """What a statement gives, how many rows it read of runs and follow-ups, and the sequential scans of them."""
    counts = (
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS read, sum(seq_scan) AS scans "
        "FROM pg_stat_xact_user_tables WHERE schemaname = 'livebox' AND relname = ANY (%s)"
    )
    rows.run_sql("BEGIN")
    (before,) = rows.run_sql(counts, list(TABLES))
    found = rows.run_sql(statement, *values)
    (after,) = rows.run_sql(counts, list(TABLES))
    rows.run_sql("ROLLBACK")
    return found, int(after["read"] - before["read"]), int(after["scans"] - before["scans"])


@pytest.mark.parametrize("cause", CAUSES)
def test_looking_for_what_is_due(rows: Rows, cause: str) -> None:
    look = "SELECT due_from::text, run_id::text FROM livebox.reap_due(%s, %s::timestamptz, %s::uuid, %s::jsonb, %s)"
    after, found = ("-infinity", "00000000-0000-0000-0000-000000000000"), []
    while True:
        page, read, scans = counted(rows, look, cause, *after, json.dumps(LIMITS), CHUNK)
        assert scans == 0
        assert read <= CHUNK + 1
        found += page
        if len(page) < CHUNK:
            break
        after = (page[-1]["due_from"], page[-1]["run_id"])
    assert len({row["run_id"] for row in found}) == len(found) == (2 * DUE if cause == "unmoved" else DUE)


@pytest.mark.parametrize("cause", CAUSES)
def test_judging_one(rows: Rows, cause: str) -> None:
    look = "SELECT run_id::text FROM livebox.reap_due(%s, '-infinity', livebox.new_id(), %s::jsonb, 1)"
    ((run,),) = [row.values() for row in rows.run_sql(look, cause, json.dumps(LIMITS))]
    args = json.dumps({"run_id": run, "limits": LIMITS})
    judge = "SELECT (livebox.reap_run('{\"system\": true}', %s::jsonb)).*"
    (answer,), read, scans = counted(rows, judge, args)
    assert answer["code"] == "ok"
    assert scans == 0
    assert read <= 40


def test_an_answer_that_was_taken_is_due_too(rows: Rows) -> None:
    look = (
        "SELECT f.state FROM livebox.reap_due('unanswered', '-infinity', livebox.new_id(), %s::jsonb, 100) d"
        "  JOIN livebox.run_followups f ON f.run_id = d.run_id"
    )
    assert {row["state"] for row in rows.run_sql(look, json.dumps(LIMITS))} == {"pending", "delivered"}


def test_answers_are_heard_by_an_index(rows: Rows) -> None:
    (run,) = rows.run_sql("SELECT run_id::text FROM livebox.run_followups WHERE answers_since IS NOT NULL LIMIT 1")
    resume = "UPDATE livebox.run_followups SET answers_since = NULL WHERE run_id = %s AND answers_since IS NOT NULL"
    _, read, scans = counted(rows, resume, run["run_id"])
    assert (scans, read <= 2) == (0, True)


def test_signs_of_life_of_very_many_runs(rows: Rows) -> None:
    runs = rows.run_sql("SELECT id::text FROM livebox.runs WHERE state = 'running' ORDER BY id LIMIT 1000")
    given = json.dumps([{"run_id": row["id"], "age": 1} for row in runs])
    found, read, scans = counted(rows, "SELECT livebox.save_signs_of_life(%s::jsonb)", given)
    assert len(found) == 1000
    assert scans == 0
    assert read <= 4 * len(runs)
