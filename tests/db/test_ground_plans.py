"""Lists of the ground among 10^5 rows of each kind: in the order of an index, without a sort, without reading a table.

Each list runs on a session that prints its plans; the server's own counters say how many rows of which table were read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

import pytest

from db.embedded import Server
from tests.fixtures.database import connect, fresh_database

pytestmark = pytest.mark.long

MANY: Final = 100_000
PAGE: Final = 50
SEEN: Final = 40
"""Spaces of which Alex sees the channel: the first ones; Sam sees the one channel that has most threads."""
SCAN_MAX: Final = 20_000
LISTED: Final = ("spaces", "channels", "threads", "messages", "events", "audit_log")
SORT: Final = re.compile(r"\{(SORT|INCREMENTALSORT)\b")

FILL: Final = """
SET session_replication_role = replica;
INSERT INTO livebox.principals (kind, handle, display_name, role) VALUES ('person', 'owner', 'Owner', 'owner');
INSERT INTO livebox.principals (kind, handle, display_name)
SELECT 'person', h, h FROM unnest(ARRAY['alex', 'sam']) AS h UNION ALL
SELECT 'person', 'p' || n, 'P' FROM generate_series(1, 2000) AS n;
INSERT INTO livebox.groups (name) SELECT 'g' || n FROM generate_series(1, 500) AS n;
INSERT INTO livebox.group_members (principal_id, group_id)
SELECT p.id, g.id FROM (SELECT id, row_number() OVER () AS n FROM livebox.principals) p
  JOIN (SELECT id, row_number() OVER () AS n FROM livebox.groups) g ON g.n IN (p.n %% 500 + 1, p.n %% 499 + 1);
INSERT INTO livebox.spaces (name) SELECT 's' FROM generate_series(1, %(many)s);
INSERT INTO livebox.channels (space_id, name) SELECT id, 'c' FROM livebox.spaces;
INSERT INTO livebox.channels (kind) SELECT 'dm' FROM generate_series(1, 1000);
INSERT INTO livebox.channel_members (channel_id, principal_id)
SELECT c.id, p.id FROM livebox.channels c, (SELECT id FROM livebox.principals ORDER BY id LIMIT 4 OFFSET 9) p WHERE c.kind = 'dm';
INSERT INTO livebox.threads (channel_id, is_main) SELECT id, true FROM livebox.channels;
INSERT INTO livebox.threads (channel_id) SELECT (SELECT id FROM livebox.channels ORDER BY id LIMIT 1) FROM generate_series(1, %(many)s);
INSERT INTO livebox.grants (principal_id, space_id, level)
SELECT (SELECT id FROM livebox.principals WHERE handle = 'alex'), s.id, 'manage'
  FROM (SELECT id FROM livebox.spaces ORDER BY id LIMIT %(seen)s) s;
INSERT INTO livebox.grants (principal_id, channel_id, level)
SELECT p.id, (SELECT id FROM livebox.channels ORDER BY id LIMIT 1), 'read' FROM livebox.principals p WHERE p.handle = 'sam';
INSERT INTO livebox.grants (group_id, channel_id, level)
SELECT g.id, c.id, 'read' FROM livebox.groups g, (SELECT id FROM livebox.channels ORDER BY id OFFSET 50000 LIMIT 4) c
 WHERE NOT EXISTS (SELECT FROM livebox.group_members m JOIN livebox.principals p ON p.id = m.principal_id
                    WHERE m.group_id = g.id AND p.handle IN ('alex', 'sam'));
INSERT INTO livebox.messages (thread_id, author_id, origin, body, thread_seq)
SELECT t.id, (SELECT id FROM livebox.principals WHERE handle = 'alex'), 'human', 'hello', n
  FROM (SELECT id FROM livebox.threads ORDER BY id LIMIT 1) t, generate_series(1, %(many)s) AS n;
INSERT INTO livebox.events (seq, type, channel_id, thread_id, thread_seq, resource_kind, resource_id, receive_action, payload)
SELECT n, 'message.created', c.id, t.id, n, 'message', m.id::text, 'message.read', jsonb_build_object('message', jsonb_build_object('id', m.id))
  FROM (SELECT id FROM livebox.channels ORDER BY id LIMIT 1) c, (SELECT id FROM livebox.threads ORDER BY id LIMIT 1) t,
       (SELECT id, row_number() OVER (ORDER BY id) AS n FROM livebox.messages) m;
INSERT INTO livebox.audit_log (principal_id, action, reason, resource_kind, channel_id)
SELECT (SELECT id FROM livebox.principals WHERE handle = 'sam'), 'agent.invoke', 'no_trigger_right', 'agent', id FROM livebox.channels;
INSERT INTO livebox.principals (kind, handle, display_name, billing_mode, tool_class)
VALUES ('agent', 'lotse', 'Lotse', 'organization', 'standard');
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by, billing_mode_expected,
                          invocation_jti, queued_at)
SELECT livebox.new_id(), t.id, a.id, 'queued', p.created_at, 'message', p.id, 'organization', gen_random_uuid(), p.created_at
  FROM livebox.threads t, livebox.principals a, livebox.principals p WHERE NOT t.is_main AND a.handle = 'lotse' AND p.handle = 'alex'
 LIMIT 20000;
SET session_replication_role = origin;
VACUUM ANALYZE;
"""


class Read(NamedTuple):
    """What a list answered and what that took: rows by table, rows read by scans of whole tables, sorts planned."""

    items: list[Any]
    rows: dict[str, int]
    scanned: int
    sorts: int


class Archive:
    """A database with very much in it, and a fresh session for each question."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        with closing(connect(dsn)) as connection, connection.cursor() as cursor:
            for statement in (FILL % {"many": MANY, "seen": SEEN}).split(";\n"):
                if statement.strip():
                    cursor.execute(statement)
            cursor.execute("SELECT handle, id::text FROM livebox.principals WHERE handle IN ('owner', 'alex', 'sam')")
            self.people: dict[str, str] = dict(cursor.fetchall())
            cursor.execute("SELECT space_id::text, id::text FROM livebox.channels ORDER BY id LIMIT 1")
            self.space, self.channel = cursor.fetchone()
            cursor.execute("SELECT id::text FROM livebox.threads ORDER BY id LIMIT 1")
            (self.thread,) = cursor.fetchone()

    def read(self, function: str, who: str, **args: Any) -> Read:
        """Runs a list on a session that plans everything anew and prints it."""
        with closing(connect(self._dsn)) as connection, connection.cursor() as cursor:
            connection.notices = notices = []
            cursor.execute("SET jit = off; SET debug_print_plan = on; SET client_min_messages = log")
            cursor.execute("BEGIN")
            before = self._counts(cursor)
            caller = json.dumps({"principal": self.people[who]})
            cursor.execute(
                f"SELECT code, body::jsonb FROM livebox.{function}(%s, %s)",
                (caller, json.dumps({"limit": PAGE} | args)),
            )
            code, body = cursor.fetchone()
            after = self._counts(cursor)
        assert code == "ok", (code, body)
        assert any("PLANNEDSTMT" in notice for notice in notices), "plans were printed"
        rows = {table: after[table][0] - before[table][0] for table in LISTED}
        scanned = sum(after[table][1] - before[table][1] for table in LISTED)
        return Read(body.get("items", body), rows, scanned, sum(len(SORT.findall(notice)) for notice in notices))

    @staticmethod
    def _counts(cursor: Any) -> dict[str, tuple[int, int]]:
        cursor.execute(
            "SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), coalesce(seq_tup_read, 0)"
            " FROM pg_stat_xact_user_tables WHERE schemaname = 'livebox'"
        )
        return {name: (read, scanned) for name, read, scanned in cursor.fetchall()}


@pytest.fixture(scope="module")
def archive(server: Server, template: str) -> Iterator[Archive]:
    with fresh_database(server, template) as dsn:
        yield Archive(dsn)


# Who looks: rows that they see at once (a page and one more, each looked at a few times), or rows to be passed over,
# of which a page examines only so many.
NEAR: Final = 8 * PAGE
FAR: Final = SCAN_MAX + NEAR
LISTS: Final[dict[str, tuple[str, str, str, dict[str, Any], int, int]]] = {
    # list: table, function, who, args, items, most rows read
    "spaces, all seen": ("spaces", "list_spaces", "owner", {}, PAGE, NEAR),
    "spaces, few seen": ("spaces", "list_spaces", "alex", {}, SEEN, FAR),
    "channels, all seen": ("channels", "list_channels", "owner", {}, PAGE, NEAR),
    "channels, few seen": ("channels", "list_channels", "alex", {}, SEEN, 2 * FAR),
    "channels of a space": ("channels", "list_channels", "alex", {"space_id": "space"}, 1, NEAR),
    "threads, all seen": ("threads", "list_threads", "owner", {}, PAGE, NEAR),
    "threads, newest seen": ("threads", "list_threads", "sam", {}, PAGE, NEAR),
    "threads of a channel": ("threads", "list_threads", "sam", {"channel_id": "channel"}, PAGE, NEAR),
    "messages, newest": ("messages", "list_thread_messages", "sam", {"thread_id": "thread"}, PAGE, NEAR),
    "messages, oldest": (
        "messages",
        "list_thread_messages",
        "sam",
        {"thread_id": "thread", "order": "asc"},
        PAGE,
        NEAR,
    ),
    "messages, further on": (
        "messages",
        "list_thread_messages",
        "sam",
        {"thread_id": "thread", "cursor": {"thread_seq": MANY // 2}},
        PAGE,
        NEAR,
    ),
    "events from the beginning": ("events", "list_events", "sam", {}, PAGE, NEAR),
    "events further on": ("events", "list_events", "sam", {"after": MANY // 2}, PAGE, NEAR),
    "the newest events": ("events", "list_events", "sam", {"after": MANY - 10}, 10, NEAR),
    "audit entries, all seen": ("audit_log", "list_audit_entries", "owner", {}, PAGE, 40 * PAGE),
    "audit entries, few seen": ("audit_log", "list_audit_entries", "alex", {}, 0, FAR),
    "audit entries of a channel": ("audit_log", "list_audit_entries", "alex", {"channel_id": "channel"}, 1, NEAR),
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_reads_what_it_shows(archive: Archive, case: str) -> None:
    table, function, who, args, items, most = LISTS[case]
    named = {
        key: getattr(archive, value) if isinstance(value, str) and value == key[:-3] else value
        for key, value in args.items()
    }
    read = archive.read(function, who, **named)
    assert len(read.items) == items
    assert read.rows[table] <= most
    assert (read.scanned, read.sorts) == (0, 0)


@pytest.mark.parametrize("who", ["owner", "sam"])
def test_the_snapshot_reads_what_it_shows(archive: Archive, who: str) -> None:
    limits = {f"snapshot.{name}_max": PAGE for name in ("channels", "threads", "messages", "active_runs")}
    read = archive.read("get_snapshot", who, limits=limits)
    assert len(read.items["threads"]) == len(read.items["messages"]) == PAGE
    assert max(read.rows[table] for table in ("messages", "events", "audit_log")) <= NEAR
    assert (read.scanned, read.sorts) == (0, 0)


def test_whoever_looks_for_sorts_and_scans_finds_them(archive: Archive) -> None:
    """The measure can fail."""
    with closing(connect(archive._dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION livebox.t_slow(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$"
            " DECLARE v uuid; BEGIN SELECT s.id INTO v FROM livebox.spaces s ORDER BY s.created_at LIMIT 1;"
            " RETURN livebox.page('', NULL); END $$"
        )
    read = archive.read("t_slow", "owner")
    assert (read.scanned, read.sorts) == (MANY, 1)
