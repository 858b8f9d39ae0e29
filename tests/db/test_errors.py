"""SQL, Python and the contract speak of the same errors."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.errors
import pytest

from db.errors import (
    SQLSTATES,
    DatabaseUnavailable,
    InternalError,
    Overloaded,
    StatementTimeout,
    again,
    lost,
    timed_out,
    translate,
)
from db.migrate import FUNCTIONS, MIGRATIONS

CODE = re.compile(r"'(LB\d{3})'")


def in_sql() -> set[str]:
    """Every SQLSTATE of ours that a SQL file names."""
    return {
        code
        for folder in (MIGRATIONS, FUNCTIONS)
        for path in folder.glob("*.sql")
        for code in CODE.findall(path.read_text())
    }


def test_sql_and_python_name_the_same_states(module_dsn: str) -> None:
    assert in_sql() == set(SQLSTATES)


def test_the_table_of_the_schema_says_what_python_says(module_dsn: str) -> None:
    with psycopg2.connect(module_dsn) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sqlstate, problem FROM livebox.sqlstates")
        assert dict(cursor.fetchall()) == dict(SQLSTATES)


def test_every_problem_is_one_of_the_contract() -> None:
    problems = pytest.importorskip("generated.problems").PROBLEMS
    named = set(SQLSTATES.values()) | {
        kind.problem for kind in (DatabaseUnavailable, Overloaded, StatementTimeout, InternalError)
    }
    assert named <= set(problems)


def raised(dsn: str, statement: str) -> psycopg2.Error:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        with pytest.raises(psycopg2.Error) as caught:
            cursor.execute(statement)
        return caught.value


@pytest.mark.parametrize(
    ("statement", "kind", "judged"),
    [
        ("SET statement_timeout = 1; SELECT pg_sleep(10)", StatementTimeout, timed_out),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '55P03'; END $$", Overloaded, again),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$", Overloaded, again),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '57P01'; END $$", DatabaseUnavailable, lost),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '53100'; END $$", DatabaseUnavailable, None),
        ("SELECT secret FROM nowhere", InternalError, None),
        ("SELECT pg_terminate_backend(pg_backend_pid())", DatabaseUnavailable, lost),
    ],
)
def test_what_the_driver_raises_becomes_one_of_ours(module_dsn: str, statement: str, kind: type, judged: Any) -> None:
    error = raised(module_dsn, statement)
    ours = translate(error)
    assert type(ours) is kind
    assert translate(ours) is ours
    assert [judge for judge in (timed_out, again, lost) if judge(error)] == ([judged] if judged else [])
    assert not re.search("secret|nowhere|SELECT|DO", str(ours))


def test_a_lost_connection_without_a_state_is_known() -> None:
    assert lost(psycopg2.OperationalError("server closed the connection unexpectedly"))
    assert lost(psycopg2.InterfaceError("connection already closed"))
    assert lost(psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"))
    assert not lost(psycopg2.errors.UniqueViolation("x"))
    assert not lost(ValueError("x"))


def test_files_are_where_this_test_looks() -> None:
    assert Path(MIGRATIONS / "0001_ground.sql").exists()
    assert "LB101" in in_sql()
