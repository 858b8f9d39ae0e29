"""What the catalogue of a migrated database says: comments everywhere, wide numbers, no room for JSON null."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.database import connect

ROOT = Path(__file__).resolve().parents[2]

UNCOMMENTED = """
WITH objects(kind, name, comment) AS (
    SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE relkind::text END,
           c.oid::regclass::text, obj_description(c.oid, 'pg_class')
      FROM pg_class c WHERE c.relnamespace = 'livebox'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
    UNION ALL
    SELECT 'index', i.indexrelid::regclass::text, obj_description(i.indexrelid, 'pg_class')
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relnamespace = 'livebox'::regnamespace
       AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.conindid = i.indexrelid)
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, obj_description(p.oid, 'pg_proc')
      FROM pg_proc p WHERE p.pronamespace = 'livebox'::regnamespace
    UNION ALL
    SELECT 'type', t.oid::regtype::text, obj_description(t.oid, 'pg_type')
      FROM pg_type t WHERE t.typnamespace = 'livebox'::regnamespace AND t.typcategory <> 'A'
       AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c')
    UNION ALL
    SELECT 'trigger', format('%s on %s', t.tgname, t.tgrelid::regclass), obj_description(t.oid, 'pg_trigger')
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'livebox'::regnamespace AND NOT t.tgisinternal
    UNION ALL
    SELECT 'schema', nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'livebox'
)
SELECT kind || ' ' || name FROM objects WHERE coalesce(comment, '') = '' ORDER BY 1
"""

NARROW = """
SELECT format('%s.%s %s', a.attrelid::regclass, a.attname, a.atttypid::regtype)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'livebox'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
   AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype, 'real'::regtype, 'json'::regtype,
                      'timestamp'::regtype, 'varchar'::regtype, 'char'::regtype)
 ORDER BY 1
"""

OPEN_TO_NULL = """
SELECT format('%s.%s', a.attrelid::regclass, a.attname)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'livebox'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
   AND a.atttypid = 'jsonb'::regtype
   AND NOT EXISTS (SELECT FROM pg_constraint x
                    WHERE x.conrelid = a.attrelid AND x.contype = 'c' AND a.attnum = ANY (x.conkey)
                      AND pg_get_constraintdef(x.oid) ~ ('NOT (livebox\\.)?has_json_null\\("?' || a.attname))
 ORDER BY 1
"""


@pytest.fixture(scope="module")
def catalog(module_dsn: str) -> Any:
    with closing(connect(module_dsn)) as connection, connection.cursor() as cursor:
        yield cursor


def listed(catalog: Any, statement: str) -> list[str]:
    catalog.execute(statement)
    return [name for (name,) in catalog.fetchall()]


def test_every_object_has_a_comment(catalog: Any) -> None:
    assert listed(catalog, UNCOMMENTED) == []


def test_the_check_for_comments_sees_every_kind(catalog: Any) -> None:
    catalog.execute("BEGIN")
    catalog.execute(
        "CREATE TABLE livebox.bare (id bigint, name text); CREATE INDEX bare_name ON livebox.bare (name);"
        "CREATE SEQUENCE livebox.bare_seq; CREATE TYPE livebox.bare_type AS (x text);"
        "CREATE VIEW livebox.bare_view AS SELECT 1 AS x; CREATE TRIGGER bare_trigger BEFORE UPDATE ON livebox.bare"
        " FOR EACH ROW EXECUTE FUNCTION livebox.guard_append_only();"
        "CREATE FUNCTION livebox.bare_function() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"
    )
    found = listed(catalog, UNCOMMENTED)
    catalog.execute("ROLLBACK")
    assert [name.split()[0] for name in found] == ["function", "index", "sequence", "table", "trigger", "type", "view"]


def test_what_counts_is_wide(catalog: Any) -> None:
    assert listed(catalog, NARROW) == []


def test_no_json_column_takes_a_null(catalog: Any) -> None:
    assert listed(catalog, OPEN_TO_NULL) == []
    catalog.execute("BEGIN")
    catalog.execute("CREATE TABLE livebox.bare (kept jsonb, loose jsonb, CHECK (NOT livebox.has_json_null(kept)))")
    found = listed(catalog, OPEN_TO_NULL)
    catalog.execute("ROLLBACK")
    assert found == ["livebox.bare.loose"]


def test_functions_are_the_files(catalog: Any) -> None:
    files = {path.stem for path in (ROOT / "db" / "functions").glob("*.sql")}
    migrations = "\n".join(path.read_text() for path in (ROOT / "db" / "migrations").glob("*.sql"))
    functions = listed(catalog, "SELECT proname FROM pg_proc WHERE pronamespace = 'livebox'::regnamespace")
    assert sorted(files - set(functions)) == []
    assert [name for name in functions if name not in files and f"FUNCTION livebox.{name}(" not in migrations] == []
