"""Anchor and run refer to each other: within one transaction either may come first, and neither may be left alone."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

import psycopg2
import psycopg2.errors
import pytest

PLACE = """
WITH space AS (INSERT INTO livebox.spaces (name) VALUES ('s') RETURNING id),
     channel AS (INSERT INTO livebox.channels (space_id, name) SELECT id, 'c' FROM space RETURNING id),
     thread AS (INSERT INTO livebox.threads (channel_id, is_main) SELECT id, true FROM channel RETURNING id),
     ada AS (INSERT INTO livebox.principals (kind, handle, display_name) VALUES ('person', 'ada', 'Ada') RETURNING id),
     bot AS (INSERT INTO livebox.principals (kind, handle, display_name, billing_mode, tool_class)
             VALUES ('agent', 'bot', 'Bot', 'organization', 'standard') RETURNING id)
SELECT thread.id::text, ada.id::text, bot.id::text FROM thread, ada, bot
"""
RUN = """
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by,
                          billing_mode_expected, invocation_jti, queued_at)
SELECT %(run)s, %(thread)s, %(bot)s, 'queued', t, 'message', %(ada)s, 'organization', gen_random_uuid(), t
  FROM (SELECT livebox.clock() AS t) AS now
"""
ANCHOR = """
INSERT INTO livebox.messages (thread_id, author_id, origin, kind, body, silent, run_id, thread_seq)
VALUES (%(thread)s, %(bot)s, 'agent', 'run', '', true, %(run)s, 1)
"""


@pytest.mark.parametrize("order", [(RUN, ANCHOR), (ANCHOR, RUN)], ids=["run first", "anchor first"])
def test_either_order(database_dsn: str, order: tuple[str, str]) -> None:
    with closing(psycopg2.connect(database_dsn)) as connection, connection.cursor() as cursor:
        values = place(cursor)
        for statement in order:
            cursor.execute(statement, values)
        connection.commit()
        cursor.execute("SELECT run_id::text FROM livebox.messages")
        assert cursor.fetchall() == [(values["run"],)]


def test_an_anchor_without_its_run_does_not_commit(database_dsn: str) -> None:
    with closing(psycopg2.connect(database_dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(ANCHOR, place(cursor))
        with pytest.raises(psycopg2.errors.ForeignKeyViolation):
            connection.commit()


def place(cursor: Any) -> dict[str, str]:
    cursor.execute(PLACE)
    thread, ada, bot = cursor.fetchone()
    return {"thread": thread, "ada": ada, "bot": bot, "run": str(uuid.uuid4())}
