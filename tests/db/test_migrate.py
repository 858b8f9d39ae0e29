"""Migrations: once each, all or nothing, whoever starts at the same time, on whatever is there."""

from __future__ import annotations

import multiprocessing
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from db.errors import MigrationError
from db.migrate import FUNCTIONS, MIGRATIONS, Plan, checksum, migrate, pending, read_migrations
from tests.fixtures.database import connect

FIRST = "CREATE TABLE livebox.things (id bigint PRIMARY KEY, note text NOT NULL);"
SECOND = "ALTER TABLE livebox.things ADD COLUMN weight bigint NOT NULL DEFAULT 1;"
FUNCTION = "CREATE OR REPLACE FUNCTION livebox.weight() RETURNS bigint LANGUAGE sql AS 'SELECT {}::bigint';"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of one migration and a folder of one function."""
    migrations, functions = tmp_path / "migrations", tmp_path / "functions"
    migrations.mkdir()
    functions.mkdir()
    (migrations / "0001_things.sql").write_text(FIRST)
    (functions / "weight.sql").write_text(FUNCTION.format(1))
    return migrations, functions


def ask(dsn: str, statement: str) -> list[Any]:
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def test_applies_what_is_missing_and_nothing_twice(empty_dsn: str, files: tuple[Path, Path]) -> None:
    first = Plan(("0001_things.sql",), ("weight.sql",))
    assert pending(empty_dsn, *files) == first
    assert migrate(empty_dsn, *files) == first
    assert pending(empty_dsn, *files) == migrate(empty_dsn, *files) == Plan((), ())
    ask(empty_dsn, "INSERT INTO livebox.things VALUES (1, 'kept')")
    (files[0] / "0002_weight.sql").write_text(SECOND)
    (files[1] / "weight.sql").write_text(FUNCTION.format(2))
    assert migrate(empty_dsn, *files) == Plan(("0002_weight.sql",), ("weight.sql",))
    assert ask(empty_dsn, "SELECT id, note, weight, livebox.weight() FROM livebox.things") == [(1, "kept", 1, 2)]


def test_a_changed_migration_is_refused_by_name(empty_dsn: str, files: tuple[Path, Path]) -> None:
    migrate(empty_dsn, *files)
    (files[0] / "0001_things.sql").write_text(FIRST + "-- harmless")
    (files[1] / "weight.sql").write_text(FUNCTION.format(2))
    with pytest.raises(MigrationError, match=r"0001_things\.sql: was changed"):
        migrate(empty_dsn, *files)
    assert ask(empty_dsn, "SELECT livebox.weight()") == [(1,)]


def test_a_newer_schema_is_refused_by_name(empty_dsn: str, files: tuple[Path, Path]) -> None:
    newer = files[0] / "0002_weight.sql"
    newer.write_text(SECOND)
    migrate(empty_dsn, *files)
    newer.unlink()
    for act in (migrate, pending):
        with pytest.raises(MigrationError, match=r"0002_weight\.sql: .*newer"):
            act(empty_dsn, *files)


def test_a_failure_leaves_the_schema_as_it_was(empty_dsn: str, files: tuple[Path, Path]) -> None:
    migrate(empty_dsn, *files)
    (files[0] / "0002_weight.sql").write_text(SECOND)
    (files[0] / "0003_broken.sql").write_text("SELECT nothing FROM nowhere;")
    with pytest.raises(MigrationError, match=r"0003_broken\.sql"):
        migrate(empty_dsn, *files)
    assert ask(empty_dsn, "SELECT number FROM livebox.schema_migrations") == [(1,)]
    assert ask(empty_dsn, "SELECT count(*) FROM pg_attribute WHERE attname = 'weight'") == [(0,)]


@pytest.mark.parametrize("name", ["2_x.sql", "0003_hole.sql", "0001_double.sql", "0002-x.sql"])
def test_files_that_cannot_be_ordered_are_refused(files: tuple[Path, Path], name: str) -> None:
    (files[0] / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=r"\.sql"):
        read_migrations(files[0])


def test_the_checksum_follows_every_file(files: tuple[Path, Path]) -> None:
    before = checksum(*files)
    assert checksum(*files) == before
    (files[1] / "weight.sql").write_text(FUNCTION.format(2))
    assert checksum(*files) != before


def test_an_unreachable_database_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(MigrationError, match="cannot be reached"):
        migrate(f"host={tmp_path} dbname=x")


def older(folder: Path, upto: int) -> Path:
    """The migrations as they were when there were only so many."""
    folder.mkdir()
    for script in read_migrations(MIGRATIONS)[:upto]:
        shutil.copy(MIGRATIONS / script.name, folder)
    return folder


def fill(dsn: str) -> None:
    """Rows that people of the first version may have left."""
    ask(
        dsn,
        """
        WITH person AS (
            INSERT INTO livebox.principals (kind, handle, display_name)
            SELECT 'person', 'ada' || n, E'Ada \\u202E "\\\\ ' || n FROM generate_series(1, 50) AS n RETURNING id
        ), space AS (
            INSERT INTO livebox.spaces (name) VALUES ('lab') RETURNING id
        ), channel AS (
            INSERT INTO livebox.channels (space_id, name) SELECT id, 'general' FROM space RETURNING id
        ), thread AS (
            INSERT INTO livebox.threads (channel_id, is_main) SELECT id, true FROM channel RETURNING id
        )
        INSERT INTO livebox.messages (thread_id, author_id, origin, body, thread_seq)
        SELECT thread.id, person.id, 'human', repeat('word ', 100), row_number() OVER () FROM thread, person
        """,
    )


COUNTS = "SELECT (SELECT count(*) FROM livebox.principals), (SELECT count(*) FROM livebox.messages)"


def _start(dsn: str, barrier: Any, outcomes: Any) -> None:
    barrier.wait()
    try:
        outcomes.put(len(migrate(dsn).migrations))
    except Exception as error:
        outcomes.put(repr(error))


def start_together(dsn: str, count: int = 5) -> list[Any]:
    """What so many processes say that migrate the same database at the same moment."""
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(count), context.Queue()
    processes = [context.Process(target=_start, args=(dsn, barrier, outcomes)) for _ in range(count)]
    for process in processes:
        process.start()
    said = [outcomes.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return said


@pytest.mark.parametrize("upto", sorted({0, 1, len(read_migrations(MIGRATIONS)) - 1}))
def test_five_at_once_on_an_empty_or_an_older_schema_with_rows(empty_dsn: str, tmp_path: Path, upto: int) -> None:
    if upto:
        migrate(empty_dsn, older(tmp_path / "older", upto), None)
        fill(empty_dsn)
        before = ask(empty_dsn, COUNTS)
    total = len(read_migrations(MIGRATIONS)) - upto
    assert sorted(start_together(empty_dsn)) == [0, 0, 0, 0, total]
    assert start_together(empty_dsn) == [0, 0, 0, 0, 0]
    assert pending(empty_dsn) == Plan((), ())
    if upto:
        assert ask(empty_dsn, COUNTS) == before == [(50, 50)]


def test_every_function_file_makes_the_function_it_is_named_after(module_dsn: str) -> None:
    made = {
        name for (name,) in ask(module_dsn, "SELECT proname FROM pg_proc WHERE pronamespace = 'livebox'::regnamespace")
    }
    assert {path.stem for path in FUNCTIONS.glob("*.sql")} - made == set()


def test_all_functions_survive_a_check_of_their_bodies(module_dsn: str) -> None:
    """They are created without one, because they name each other in every order."""
    with closing(connect(module_dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SET check_function_bodies = on; SET search_path = livebox, pg_catalog")
        for path in sorted(FUNCTIONS.glob("*.sql")):
            cursor.execute(path.read_text())
