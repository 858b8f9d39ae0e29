"""The database that is measured: an embedded server on disk with the product's settings, the test world, and rows.

The n-th of everything has an id that ends in n, so that pgbench can name a run without asking for it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg2
import uvloop

from db import Database, instance
from db.embedded import Server
from db.migrate import migrate
from livebox.auth import new_token, token_hash
from livebox.world import OWNER, World, load

FIRST: Final = 100_000_000_000
"""The first n: from here on each has twelve digits, as the last group of a UUID."""
ROOM: Final = "Support/Escalation"
ASKER: Final = "alex"
AGENT: Final = "lotse"
CLAIM: Final = "00000000-0006-7000-8000-000000000000"
LIMITS: Final = {"event.body_max_bytes": 4096}

# Rows are made without triggers and foreign keys: they are consistent by construction.
_QUEUED: Final = """
SET LOCAL session_replication_role = replica;
INSERT INTO livebox.threads (id, channel_id, title, created_by, last_thread_seq)
SELECT ('00000000-0001-7000-8000-' || n)::uuid, %(channel)s, 'Bench', %(asker)s, 2
  FROM generate_series(%(first)s, %(last)s) AS n;
INSERT INTO livebox.messages (id, thread_id, author_id, origin, body, trigger_state, trigger_state_at, thread_seq)
SELECT ('00000000-0002-7000-8000-' || n)::uuid, ('00000000-0001-7000-8000-' || n)::uuid, %(asker)s, 'human',
       'Please look at the folder and say what is in it.', 'queued', livebox.clock(), 1
  FROM generate_series(%(first)s, %(last)s) AS n;
INSERT INTO livebox.messages (id, thread_id, author_id, origin, kind, body, silent, run_id, thread_seq)
SELECT ('00000000-0003-7000-8000-' || n)::uuid, ('00000000-0001-7000-8000-' || n)::uuid, %(agent)s, 'agent', 'run', '',
       true, ('00000000-0004-7000-8000-' || n)::uuid, 2
  FROM generate_series(%(first)s, %(last)s) AS n;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, state_changed_by, trigger_kind,
                          triggering_message_id, triggered_by, billing_mode_expected, invocation_jti, queued_at,
                          claimed_at, claim_id)
SELECT ('00000000-0004-7000-8000-' || n)::uuid, ('00000000-0001-7000-8000-' || n)::uuid, %(agent)s, 'queued',
       clock.at, %(asker)s, 'message', ('00000000-0002-7000-8000-' || n)::uuid, %(asker)s, 'organization',
       ('00000000-0005-7000-8000-' || n)::uuid, clock.at, clock.at, %(claim)s
  FROM generate_series(%(first)s, %(last)s) AS n, (SELECT livebox.clock() AS at) AS clock;
"""
_START: Final = """
SELECT count(*) FILTER (WHERE p.code = 'ok')
  FROM generate_series(%(first)s, %(last)s) AS n,
       LATERAL livebox.perform('start_run', %(who)s, replace(%(args)s, 'NNN', n::text)::jsonb) AS p
"""
_TABLES: Final = "livebox.threads, livebox.messages, livebox.runs, livebox.events, livebox.lane_batches"


class Stage:
    """One database of the measured server, with the test world in it."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.dsn = server.dsn(name)
        self.name = name
        self.world = World()
        self._next = FIRST

    def prepare(self) -> None:
        """Make the schema and load the world."""
        migrate(self.dsn)
        owner = instance.create_owner(self.dsn, OWNER, OWNER.capitalize())
        assert owner is not None
        self.world = uvloop.run(_loaded(self.dsn, owner))

    def copy(self, name: str) -> Stage:
        """A database like this one under another name; nobody may be connected to this one."""
        with closing(psycopg2.connect(self.server.dsn("postgres"))) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self.name}"')
        copied = Stage(self.server, name)
        copied.world, copied._next = self.world, self._next
        return copied

    def token(self, handle: str) -> str:
        """A fresh local token of a principal."""
        token = new_token()
        assert instance.issue_token(self.dsn, handle, token_hash(token), 86400) is not None
        return token

    def queued(self, count: int) -> int:
        """Make so many claimed runs, each in a thread of its own; the n of the first."""
        first, self._next = self._next, self._next + count
        who = {"channel": self.world.channels[ROOM], "asker": self.id(ASKER), "agent": self.id(AGENT), "claim": CLAIM}
        self.run(_QUEUED, who | {"first": first, "last": first + count - 1})
        self.settle()
        return first

    def running(self, count: int) -> int:
        """Make so many runs that their agent has started; the n of the first."""
        first = self.queued(count)
        values = {
            "who": json.dumps({"principal": self.id(AGENT)}),
            "args": json.dumps(start_args("NNN")),
            "first": first,
            "last": first + count - 1,
        }
        ((started,),) = self.run(_START, values)
        if started != count:
            raise RuntimeError(f"{started} of {count} runs were started")
        return first

    def settle(self) -> None:
        """Leave nothing to do in the background that the next measurement would pay for."""
        with closing(psycopg2.connect(self.dsn)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f"VACUUM (ANALYZE) {_TABLES}")
            cursor.execute("CHECKPOINT")

    def started(self, first: int, count: int) -> int:
        """How many of those runs have left the queue."""
        named = {"first": run_id(first), "last": run_id(first + count - 1)}
        rows = self.run(
            "SELECT count(*) FROM livebox.runs WHERE id BETWEEN %(first)s AND %(last)s AND state <> 'queued'", named
        )
        return int(rows[0][0])

    def id(self, handle: str) -> str:
        """The id of a principal."""
        return self.world.principals[handle]

    def run(self, statements: str, values: dict[str, Any] | None = None) -> list[Any]:
        """Runs statements in one transaction and gives the rows of the last."""
        with closing(psycopg2.connect(self.dsn)) as opened, opened as connection, connection.cursor() as cursor:
            cursor.execute(statements, values)
            return cursor.fetchall() if cursor.description else []


def run_id(n: int | str) -> str:
    """The id of the n-th run."""
    return f"00000000-0004-7000-8000-{n}"


def start_args(n: int | str) -> dict[str, Any]:
    """What start_run takes for the n-th run; ``:n`` makes it a pgbench script."""
    invocation = {"run_id": run_id(n), "jti": f"00000000-0005-7000-8000-{n}", "claim_id": CLAIM}
    return {"run_id": run_id(n), "invocation": invocation, "body": {}, "limits": LIMITS}


def literal(value: Any) -> str:
    """A value as an SQL text literal with JSON in it."""
    return "'" + json.dumps(value).replace("'", "''") + "'"


@contextmanager
def embedded() -> Iterator[Server]:
    """A server with the product's settings, on disk: where a commit costs what it costs."""
    folder = Path(tempfile.mkdtemp(prefix="livebox-bench-"))
    server = Server(folder / "data")
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _loaded(dsn: str, owner: str) -> World:
    database = Database(dsn)
    await database.start()
    try:
        return await load(database, owner)
    finally:
        await database.stop()
