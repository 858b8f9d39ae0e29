"""Brings a database to the schema this code expects: forward only, each migration once, all or nothing.

A migration is ``NNNN_name.sql`` and is never changed after a release: its checksum is locked in
``livebox.schema_migrations``. A function is one file in ``functions/`` and is created again whenever its text changed.
Everything one call does is one transaction under an advisory lock, so any number of servers may start together and a
failure leaves the old schema as it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg2
import psycopg2.extensions

from .errors import MigrationError

MIGRATIONS: Final = Path(__file__).parent / "migrations"
FUNCTIONS: Final = Path(__file__).parent / "functions"

_LOCK: Final = 0x6C697665_626F7801  # "livebox" and 1: only migrations take it
_LOCK_WAIT: Final = "120s"
_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")

_BOOTSTRAP: Final = """
CREATE SCHEMA IF NOT EXISTS livebox;
COMMENT ON SCHEMA livebox IS 'Everything Livebox keeps and does.';
CREATE TABLE IF NOT EXISTS livebox.schema_migrations (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE livebox.schema_migrations IS 'The migrations that were applied, with the checksum of their text.';
CREATE TABLE IF NOT EXISTS livebox.schema_functions (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE livebox.schema_functions IS 'The function files as they were last loaded, by checksum.';
"""


class Script(NamedTuple):
    """One SQL file: its number (0 for functions), file name, text and sha256."""

    number: int
    name: str
    text: str
    checksum: str


class Plan(NamedTuple):
    """What is to be done, or was done: migrations and function files by name, in order."""

    migrations: tuple[str, ...]
    functions: tuple[str, ...]


def migrate(dsn: str, migrations: Path = MIGRATIONS, functions: Path | None = FUNCTIONS) -> Plan:
    """Applies what is missing and returns it. Raises ``MigrationError``; then nothing was changed."""
    steps, routines = read_migrations(migrations), read_functions(functions)
    with _connected(dsn) as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        cursor.execute("SET LOCAL client_min_messages = warning")
        cursor.execute("SELECT to_regclass('livebox.schema_functions') IS NULL")
        if cursor.fetchone() == (True,):
            cursor.execute(_BOOTSTRAP)
        pending, changed = _pending(cursor, steps), _changed(cursor, routines)
        cursor.execute("SET LOCAL search_path = livebox, pg_catalog")
        for step in pending:
            _run(cursor, step)
            cursor.execute(
                "INSERT INTO livebox.schema_migrations (number, name, checksum) VALUES (%s, %s, %s)",
                (step.number, step.name, step.checksum),
            )
        cursor.execute("SET LOCAL check_function_bodies = off")
        for routine in changed:
            _run(cursor, routine)
            cursor.execute(
                "INSERT INTO livebox.schema_functions (name, checksum) VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, created_at = clock_timestamp()",
                (routine.name, routine.checksum),
            )
        _forget(cursor, routines)
    return _plan(pending, changed)


def pending(dsn: str, migrations: Path = MIGRATIONS, functions: Path | None = FUNCTIONS) -> Plan:
    """What ``migrate`` would do, without doing it. Raises ``MigrationError`` where ``migrate`` would."""
    steps, routines = read_migrations(migrations), read_functions(functions)
    with _connected(dsn) as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute("SELECT to_regclass('livebox.schema_migrations') IS NULL")
        if cursor.fetchone() == (True,):
            return _plan(steps, routines)
        return _plan(_pending(cursor, steps), _changed(cursor, routines))


def read_migrations(folder: Path) -> list[Script]:
    """The migrations of a folder in order. Raises ``MigrationError`` for a wrong name, a hole or a double number."""
    scripts = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name}: a migration is named like 0001_ground.sql")
        scripts.append(_script(path, int(match[1])))
    for expected, script in enumerate(scripts, start=1):
        if script.number != expected:
            raise MigrationError(f"{script.name}: number {expected:04} was expected here")
    return scripts


def read_functions(folder: Path | None) -> list[Script]:
    """The function files of a folder by name; none without a folder."""
    return [] if folder is None else [_script(path, 0) for path in sorted(folder.glob("*.sql"))]


def checksum(migrations: Path = MIGRATIONS, functions: Path | None = FUNCTIONS) -> str:
    """One checksum over all files: equal exactly when ``migrate`` would build the same schema."""
    digest = hashlib.sha256(_BOOTSTRAP.encode())
    for script in (*read_migrations(migrations), *read_functions(functions)):
        digest.update(f"{script.name}\0{script.checksum}\0".encode())
    return digest.hexdigest()


@contextmanager
def _connected(dsn: str) -> Iterator[Any]:
    """A cursor in one transaction that commits when the block ends well."""
    try:
        connection = psycopg2.connect(dsn, application_name="livebox migrate", connect_timeout=10)
    except psycopg2.OperationalError as error:
        raise MigrationError(f"the database cannot be reached: {error}".strip()) from error
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield cursor
    finally:
        connection.close()


def _pending(cursor: Any, steps: list[Script]) -> list[Script]:
    cursor.execute("SELECT number, name, checksum FROM livebox.schema_migrations ORDER BY number")
    known = {step.number: step for step in steps}
    applied = cursor.fetchall()
    for number, name, locked in applied:
        step = known.get(number)
        if step is None:
            raise MigrationError(f"{name}: the database has a newer schema than this version knows")
        if step.name != name:
            raise MigrationError(f"{step.name}: was applied under the name {name}")
        if step.checksum != locked:
            raise MigrationError(f"{step.name}: was changed after it was applied; write a new migration instead")
    done = {number for number, _, _ in applied}
    return [step for step in steps if step.number not in done]


def _changed(cursor: Any, routines: list[Script]) -> list[Script]:
    cursor.execute("SELECT name, checksum FROM livebox.schema_functions")
    loaded = dict(cursor.fetchall())
    return [routine for routine in routines if loaded.get(routine.name) != routine.checksum]


def _forget(cursor: Any, routines: list[Script]) -> None:
    """A file that went away leaves its function in place (older processes may call it), but not its checksum."""
    cursor.execute(
        "DELETE FROM livebox.schema_functions WHERE NOT name = ANY(%s)", ([routine.name for routine in routines],)
    )


def _run(cursor: Any, script: Script) -> None:
    try:
        cursor.execute(script.text)
    except psycopg2.Error as error:
        raise MigrationError(f"{script.name}: {error}".strip()) from error


def _script(path: Path, number: int) -> Script:
    data = path.read_bytes().replace(b"\r\n", b"\n")
    return Script(number, path.name, data.decode(), hashlib.sha256(data).hexdigest())


def _plan(migrations: list[Script], functions: list[Script]) -> Plan:
    return Plan(tuple(script.name for script in migrations), tuple(script.name for script in functions))
