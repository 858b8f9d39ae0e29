"""What the gateway asks of a database with 10^5 active runs and 10^5 events is found by an index each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from db.embedded import Server
from tests.db.run_rows import Rows
from tests.fixtures.database import connect, fresh_database

ACTIVE: Final = 100_000
OF_AGENT: Final = 500
LEFT: Final = 30
CHUNK: Final = 10
LIMITS: Final = {
    "run.claim_lease": 30,
    "run.holder_grace": 60,
    "run.interrupt_grace": 30,
    "service.gap": 30,
    "event.body_max_bytes": 4096,
}
TABLES: Final = ("runs", "run_followups", "events", "threads", "messages")

# Every agent has OF_AGENT runs: four running of five, one of them asked to stop (every hundredth), each with a follow-up.
# Of some the session closed: of LEFT long ago and nothing since, of every twentieth with a sign since.
_FILL: Final = """
SET session_replication_role = replica;
CREATE TEMP TABLE made AS
SELECT n, livebox.new_id() AS thread, livebox.new_id() AS run, livebox.new_id() AS message, gen_random_uuid() AS claim,
       (ARRAY['queued', 'running', 'running', 'running', 'running'])[1 + n %% 5] AS state, livebox.clock() AS now,
       md5('agent' || n / %(of_agent)s)::uuid AS agent
  FROM generate_series(0, %(active)s - 1) AS n;
INSERT INTO livebox.principals (id, kind, handle, display_name, billing_mode, tool_class)
SELECT DISTINCT agent, 'agent', agent::text, 'x', 'organization', 'standard' FROM made;
INSERT INTO livebox.threads (id, channel_id) SELECT thread, %(channel)s FROM made;
INSERT INTO livebox.messages (id, thread_id, author_id, thread_seq, origin, body)
SELECT message, thread, %(person)s, 1, 'human', 'x' FROM made;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by, billing_mode_expected,
                          invocation_jti, queued_at, started_at, claim_id, claimed_at, holder_seen_at, session_closed_at,
                          last_heartbeat_at, cancel_requested_at, cancel_requested_by, cancel_deadline)
SELECT run, thread, agent, state, now - interval '1 day', 'message', %(person)s, 'organization', gen_random_uuid(),
       now - interval '1 day', CASE WHEN state = 'running' THEN now - interval '1 day' END, claim, now - interval '1 day', now,
       CASE WHEN n %% 20 = 1 OR left_ THEN now - interval '1 h' END,
       CASE WHEN NOT left_ THEN now ELSE now - interval '2 h' END,
       CASE WHEN asked THEN now END, CASE WHEN asked THEN %(person)s::uuid END, CASE WHEN asked THEN now + interval '1 h' END
  FROM (SELECT *, n / 5 < %(left)s AND n %% 5 = 2 AS left_, n %% 100 = 3 AS asked FROM made) AS made;
INSERT INTO livebox.run_followups (run_id, message_id, position, state, at)
SELECT run, message, 1, 'pending', now FROM made WHERE state = 'running';
INSERT INTO livebox.events (seq, type, channel_id, thread_id, thread_seq, resource_kind, resource_id, receive_action, payload)
SELECT n + 1, 'message.created', %(channel)s, thread, 1, 'message', message::text, 'message.read', '{"message": {"body": "x"}}' FROM made;
SELECT setval('livebox.event_seq', %(active)s);
UPDATE livebox.service SET available_since = livebox.clock() - interval '1 day', touched_at = livebox.clock() + interval '1 day';
SET session_replication_role = origin;
ANALYZE;
"""


@pytest.fixture(scope="module")
def rows(server: Server, template: str) -> Iterator[Rows]:
    """A database with very many active runs of many agents."""
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as connection:
        rows = Rows(connection)
        names = {"channel": rows.channel, "person": rows.person, "of_agent": OF_AGENT, "active": ACTIVE, "left": LEFT}
        with connection.cursor() as cursor:
            cursor.execute(_FILL, names)
        yield rows


def counted(rows: Rows, statement: str, *values: object) -> tuple[list[dict[str, Any]], int, int]:
    """What a statement gives, how many rows it read of what is large, and the sequential scans of it."""
    counts = (
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS read, sum(seq_scan) AS scans"
        " FROM pg_stat_xact_user_tables WHERE schemaname = 'livebox' AND relname = ANY (%s)"
    )
    rows.run_sql("BEGIN")
    (before,) = rows.run_sql(counts, list(TABLES))
    found = rows.run_sql(statement, *values)
    (after,) = rows.run_sql(counts, list(TABLES))
    rows.run_sql("ROLLBACK")
    return found, int(after["read"] - before["read"]), int(after["scans"] - before["scans"])


def test_the_tail_reads_what_is_new(rows: Rows) -> None:
    found, read, scans = counted(rows, "SELECT seq FROM livebox.feed_events(%s, 200)", ACTIVE // 2)
    assert [row["seq"] for row in found] == list(range(ACTIVE // 2 + 1, ACTIVE // 2 + 201))
    assert scans == 0
    assert read <= 3 * 200 + 10
    found, read, scans = counted(rows, "SELECT seq FROM livebox.feed_events(%s, 200)", ACTIVE)
    assert [row["seq"] for row in found] == [None]
    assert (scans, read < 10) == (0, True)


def test_rights_are_read_without_the_log(rows: Rows) -> None:
    agents = rows.run_sql("SELECT id::text FROM livebox.principals WHERE kind = 'agent' LIMIT 200")
    given = "{" + ",".join(row["id"] for row in agents) + "}"
    found, _, scans = counted(rows, "SELECT * FROM livebox.rights_of(%s::uuid[], %s)", given, ACTIVE - 10)
    assert len(found) == 200
    assert scans == 0


def test_the_work_of_an_agent(rows: Rows) -> None:
    """However many runs there are: those that are asked for, and open requests to cancel."""
    (agent,) = rows.run_sql("SELECT DISTINCT agent_id::text AS id FROM livebox.runs ORDER BY 1 LIMIT 1")
    held = rows.run_sql(
        "SELECT id::text AS run_id, claim_id::text FROM livebox.runs WHERE agent_id = %s AND state = 'running' LIMIT 5",
        agent["id"],
    )
    args = {"agents": [agent["id"]], "room": {agent["id"]: 3}, "held": held, "limits": LIMITS}
    (found,), read, scans = counted(rows, "SELECT body FROM livebox.personal_work(%s::jsonb)", json.dumps(args))
    waiting = json.loads(found["body"])
    assert waiting["claimable"] == {agent["id"]: 3}
    assert len(waiting["cancels"]) == OF_AGENT // 100
    assert len(waiting["held"]) == len(waiting["followups"]) == 5
    assert scans == 0
    assert read <= 200


def test_looking_for_holders_that_left(rows: Rows) -> None:
    """Those that were heard of since are passed over by the index."""
    look = "SELECT due_from::text, run_id::text FROM livebox.reap_due('left', %s::timestamptz, %s::uuid, %s::jsonb, %s)"
    after, found = ("-infinity", "00000000-0000-0000-0000-000000000000"), []
    while True:
        page, read, scans = counted(rows, look, *after, json.dumps(LIMITS), CHUNK)
        assert scans == 0
        assert read <= CHUNK + 2
        found += page
        if len(page) < CHUNK:
            break
        after = (page[-1]["due_from"], page[-1]["run_id"])
    assert len({row["run_id"] for row in found}) == len(found) == LEFT


def test_the_presence_of_very_many_holders(rows: Rows) -> None:
    held = rows.run_sql(
        "SELECT id::text AS run_id, claim_id::text FROM livebox.runs WHERE state = 'running' LIMIT 1000"
    )
    given = json.dumps([{**row, "open": True} for row in held])
    found, read, scans = counted(rows, "SELECT livebox.save_presence(%s::jsonb)", given)
    assert len(found) == 1000
    assert scans == 0
    assert read <= 4 * len(held)
