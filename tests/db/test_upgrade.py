"""An older schema with rows of every kind in it takes each later migration, and all of them stay readable."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from db.migrate import MIGRATIONS, migrate, read_migrations
from tests.db.run_rows import STATES, Rows, Sql
from tests.fixtures.database import connect

ODD = "\U0001f378 a\u0301 \u202dright\u202c \\u0000 '; -- %s\n\t\u2028end"
NUMBER_OF_MIGRATIONS = len(read_migrations(MIGRATIONS))


def older(folder: Path, count: int) -> Path:
    """A folder with the first `count` migrations."""
    folder.mkdir()
    for path in sorted(MIGRATIONS.glob("*.sql"))[:count]:
        shutil.copy(path, folder)
    return folder


def fill(rows: Rows, with_runs: bool) -> dict[str, int]:
    """Two rows of every kind that the schema has by then; gives how many each table holds."""
    rows.run_sql("UPDATE livebox.principals SET display_name = %s, version = version + 1", ODD)
    rows.insert("groups", name=ODD)
    thread = rows.thread()
    for number in (1, 2):
        text = {"author_id": rows.person, "origin": "human", "body": ODD}
        rows.insert("messages", thread_id=thread, thread_seq=number, **text)
    if with_runs:
        for state in STATES:
            run = rows.run(state, model=ODD[:20])
            rows.insert("messages", thread_id=thread, thread_seq=10 + STATES.index(state), author_id=rows.agent,
                        origin="agent", kind="run", body="", silent=True, run_id=run)  # fmt: skip
        rows.registered(task=ODD)
    tables = [row["tablename"] for row in rows.run_sql("SELECT tablename FROM pg_tables WHERE schemaname = 'livebox'")]
    return {table: rows.run_sql(f"SELECT count(*) AS n FROM livebox.{table}")[0]["n"] for table in tables}


@pytest.mark.parametrize("count", range(1, NUMBER_OF_MIGRATIONS))
def test_a_filled_older_schema_is_brought_up_to_date(empty_dsn: str, tmp_path: Path, count: int) -> None:
    migrate(empty_dsn, older(tmp_path / "older", count), None)
    with closing(connect(empty_dsn)) as connection:
        before = fill(Rows(connection), with_runs=count > 1)
    migrate(empty_dsn)
    with closing(connect(empty_dsn)) as connection, connection.cursor() as cursor:
        for table, rows in before.items():
            if table not in ("schema_migrations", "schema_functions", "sqlstates"):
                cursor.execute(f"SELECT count(*) FROM livebox.{table}")
                assert cursor.fetchone() == (rows,), table
        cursor.execute("SELECT livebox.message_json(m)::text FROM livebox.messages m ORDER BY m.thread_seq")
        messages = [json.loads(text) for (text,) in cursor.fetchall()]
        assert [message["body"] for message in messages[:2]] == [ODD, ODD]
        cursor.execute("SELECT livebox.run_json(r)::text, livebox.run_summary_json(r)::text FROM livebox.runs r")
        documents = [json.loads(text) for row in cursor.fetchall() for text in row]
        assert len(documents) == (2 * (len(STATES) + 1) if count > 1 else 0)
        assert "null" not in json.dumps([messages, documents]).replace('"null"', "")


def test_answers_that_an_older_schema_holds_still_stand(empty_dsn: str, tmp_path: Path) -> None:
    """Also one that was taken while its run waited; none of a round before, and none of a run at work."""
    migrate(empty_dsn, older(tmp_path / "older", 5), None)
    with closing(connect(empty_dsn)) as connection:
        rows = Rows(connection)
        answered = {state: rows.run("running") for state in ("waiting_input", "running")}
        heard = [followup(rows, run, 1, "delivered") for run in answered.values()]
        rows.transition(answered["waiting_input"], "waiting_input")
        taken, waits = [
            followup(rows, answered["waiting_input"], position, state)
            for position, state in ((2, "delivered"), (3, "pending"))
        ]
        heard.append(followup(rows, answered["running"], 2, "pending", answers=False))
    migrate(empty_dsn)
    with closing(connect(empty_dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT f.message_id, f.answers_since >= r.state_changed_at AND f.answers_since <= f.at, f.answers_since = f.at"
            "  FROM livebox.run_followups f JOIN livebox.runs r ON r.id = f.run_id"
        )
        found = {message: flags for message, *flags in cursor.fetchall()}
    assert found == {taken: [True, False], waits: [True, True], **{message: [None, None] for message in heard}}


def followup(rows: Rows, run: str, position: int, state: str, *, answers: bool = True) -> str:
    """A follow-up as the fifth migration had it: the id of its message."""
    text = {"author_id": rows.person, "origin": "human", "body": ODD, "thread_id": rows.thread(), "thread_seq": 1}
    message = rows.insert("messages", **text)["id"]
    rows.insert("run_followups", run_id=run, message_id=message, position=position, state=state,
                at=Sql("livebox.clock()"), answers=answers)  # fmt: skip
    return str(message)
