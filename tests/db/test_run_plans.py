"""Reads of runs touch what they show, however much there is: counted by the server, statement by statement.

A sort or a sequential scan would have to read far more rows than a page holds, so the rows that were read prove both.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from db.embedded import Server
from tests.db.run_rows import Rows
from tests.fixtures.database import connect, fresh_database

pytestmark = pytest.mark.long

RUNS: Final = 100_000
ACTIVE: Final = 5_000
PAGE: Final = 50
SLACK: Final = 10  # rows that the planner itself looks at
TABLES: Final = ("runs", "run_steps", "threads", "messages", "channels", "grants")

_FILL: Final = """
SET session_replication_role = replica;
INSERT INTO livebox.threads (id, channel_id)
SELECT livebox.new_id(), %(channel)s FROM generate_series(1, %(active)s);
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by,
                          billing_mode_expected, invocation_jti, queued_at, started_at, finished_at)
SELECT livebox.new_id(), %(thread)s, %(agent)s, 'completed', at, 'message', %(person)s, 'organization', gen_random_uuid(),
       at, at, at
  FROM (SELECT timestamptz '2026-01-01Z' + n * interval '1 s' AS at FROM generate_series(1, %(ended)s) AS n) AS times;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by,
                          billing_mode_expected, invocation_jti, queued_at)
SELECT livebox.new_id(), t.id, %(agent)s, 'queued', timestamptz '2026-03-01Z', 'message', %(person)s, 'organization',
       gen_random_uuid(), timestamptz '2026-02-01Z' + row_number() OVER () * interval '1 s'
  FROM livebox.threads t WHERE t.id <> %(thread)s;
INSERT INTO livebox.run_steps (run_id, id, ordinal, kind, name, status, started_at, finished_at)
SELECT (SELECT id FROM livebox.runs WHERE finished_at IS NOT NULL ORDER BY queued_at LIMIT 1), gen_random_uuid(), n,
       'tool', 'read', 'completed', timestamptz '2026-01-01Z', timestamptz '2026-01-01Z'
  FROM generate_series(1, 20000) AS n;
SET session_replication_role = origin;
ANALYZE;
"""


class Counter:
    """Runs an operation in a transaction of its own and says how many rows it read from which table."""

    def __init__(self, rows: Rows, thread: str) -> None:
        self.rows, self.thread = rows, thread

    def read(self, operation: str, principal: str, **args: Any) -> tuple[dict[str, Any], dict[str, int], int]:
        """The answer, the rows read by table, and the sequential scans of large tables."""
        self.rows.run_sql("BEGIN")
        before = self._counts()
        (answer,) = self.rows.run_sql(
            f"SELECT * FROM livebox.{operation}(%s::jsonb, %s::jsonb)",
            json.dumps({"principal": principal}),
            json.dumps({"limit": PAGE, **args}),
        )
        after = self._counts()
        self.rows.run_sql("ROLLBACK")
        touched = {table: after[table][0] - before[table][0] for table in TABLES}
        scans = sum(after[table][1] - before[table][1] for table in ("runs", "run_steps", "threads"))
        return answer, touched, scans

    def _counts(self) -> dict[str, tuple[int, int]]:
        found = self.rows.run_sql(
            "SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) AS read, seq_scan "
            "FROM pg_stat_xact_user_tables WHERE schemaname = 'livebox'"
        )
        counts = {row["relname"]: (row["read"], row["seq_scan"]) for row in found}
        return {table: counts[table] for table in TABLES}


@pytest.fixture(scope="module")
def counter(server: Server, template: str) -> Iterator[Counter]:
    """A database with very many runs."""
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as connection:
        rows = Rows(connection)
        thread = rows.thread()
        rows.insert("grants", principal_id=rows.person, channel_id=rows.channel, level="manage")
        rows.update("channels", rows.channel, operator_agent_id=rows.agent, version=2)
        names = {"channel": rows.channel, "thread": thread, "agent": rows.agent, "person": rows.person}
        with connection.cursor() as cursor:
            cursor.execute(_FILL, {**names, "active": ACTIVE, "ended": RUNS})
        yield Counter(rows, thread)


def cursor_of(queued_at: str) -> dict[str, str]:
    return {"queued_at": queued_at, "id": str(uuid.uuid4())}


@pytest.mark.parametrize("place", [None, "2026-01-02T00:00:00Z"])
@pytest.mark.parametrize("state", [None, "completed"])
def test_runs_of_a_thread(counter: Counter, place: str | None, state: str | None) -> None:
    args: dict[str, Any] = {"thread_id": counter.thread}
    args |= {"cursor": cursor_of(place)} if place else {}
    args |= {"state": state} if state else {}
    answer, touched, scans = counter.read("list_thread_runs", counter.rows.person, **args)
    assert len(json.loads(answer["body"])["items"]) == PAGE
    assert touched["runs"] <= PAGE + 1 + SLACK
    assert scans == 0


@pytest.mark.parametrize("place", [None, "2026-02-01T00:30:00Z"])
@pytest.mark.parametrize("args", [{}, {"state": "queued"}])
def test_active_runs(counter: Counter, place: str | None, args: dict[str, str]) -> None:
    given: dict[str, Any] = {**args, **({"cursor": cursor_of(place)} if place else {})}
    answer, touched, scans = counter.read("list_active_runs", counter.rows.person, **given)
    assert len(json.loads(answer["body"])["items"]) == PAGE
    assert scans == 0
    assert touched["runs"] <= 4 * PAGE  # once for the list, once for each decision, and what the cursor read ahead
    assert touched["threads"] <= 4 * PAGE


@pytest.mark.parametrize("after", [0, 15_000])
def test_steps_of_a_run(counter: Counter, after: int) -> None:
    (run,) = counter.rows.run_sql("SELECT run_id FROM livebox.run_steps LIMIT 1")
    answer, touched, scans = counter.read(
        "list_run_steps", counter.rows.person, run_id=run["run_id"], cursor={"ordinal": after}
    )
    assert json.loads(answer["body"])["items"][0]["ordinal"] == after + 1
    assert touched["run_steps"] <= PAGE + 1 + SLACK
    assert scans == 0


def test_one_run(counter: Counter) -> None:
    (run,) = counter.rows.run_sql("SELECT id FROM livebox.runs WHERE finished_at IS NULL LIMIT 1")
    answer, touched, scans = counter.read("get_run", counter.rows.person, run_id=run["id"])
    assert answer["code"] == "ok"
    assert touched["runs"] <= 2 + SLACK
    assert scans == 0


def test_document_of_very_many_steps_shows_the_latest(counter: Counter) -> None:
    (run,) = counter.rows.run_sql("SELECT run_id FROM livebox.run_steps LIMIT 1")
    answer, touched, scans = counter.read("get_run", counter.rows.person, run_id=run["run_id"])
    steps = json.loads(answer["body"])["steps"].values()
    assert sorted(step["ordinal"] for step in steps) == list(range(19_001, 20_001))
    assert touched["run_steps"] <= 1000 + SLACK
    assert scans == 0


def test_claim(counter: Counter) -> None:
    limits = {"run.claim_lease": 60, "run.holder_grace": 60, "service.gap": 30, "invocation.ttl": 900}
    claim = {"claim_id": str(uuid.uuid4()), "limit": 5}
    answer, touched, scans = counter.read("claim_invocations", counter.rows.agent, body=claim, limits=limits)
    assert len(json.loads(answer["body"])["items"]) == 5
    assert scans == 0
    assert touched["runs"] <= 100  # what may be looked at, and each of the five a few times


@pytest.mark.parametrize("after", [0, 3])
def test_followups_of_a_run(counter: Counter, after: int) -> None:
    (run,) = counter.rows.run_sql("SELECT id FROM livebox.runs WHERE finished_at IS NULL LIMIT 1")
    answer, _, scans = counter.read(
        "list_run_followups", counter.rows.person, run_id=run["id"], cursor={"position": after}
    )
    assert (json.loads(answer["body"]), scans) == ({"items": []}, 0)
