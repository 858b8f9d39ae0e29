"""Many runs at once, by plain rows."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from tests.fixtures.database import connect

# Threads with a message and a queued run each, as messages open them.
_FILL: Final = """
CREATE TEMPORARY TABLE new AS
SELECT livebox.new_id() AS thread, livebox.new_id() AS message, livebox.new_id() AS run, livebox.clock() AS at,
       (SELECT c.id FROM livebox.channels c JOIN livebox.spaces s ON s.id = c.space_id
         WHERE (s.name, c.name) = ('Support', 'General')) AS channel,
       (SELECT id FROM livebox.principals WHERE handle = %(person)s) AS person,
       (SELECT id FROM livebox.principals WHERE handle = 'lotse') AS agent
  FROM generate_series(1, %(count)s);
INSERT INTO livebox.threads (id, channel_id, title, created_by, last_thread_seq)
SELECT thread, channel, 'Weekly report', person, 1 FROM new;
INSERT INTO livebox.messages (id, thread_id, author_id, origin, kind, body, thread_seq, trigger_state, trigger_state_at)
SELECT message, thread, person, 'human', 'text', 'hello', 1, 'received', livebox.clock() FROM new;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggering_message_id,
                          triggered_by, billing_mode_expected, invocation_jti, queued_at)
SELECT run, thread, agent, 'queued', at, 'message', message, person, 'organization',
       gen_random_uuid(), at FROM new;
DROP TABLE new;
"""


def fill(dsn: str, count: int, person: str = "alex") -> None:
    """So many queued runs of one person for Lotse in Support/General, each in a thread of its own."""
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(_FILL, {"count": count, "person": person})
