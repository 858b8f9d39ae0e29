"""The command line: migrations, tokens and the test world, on a database of the test's own."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from db import instance
from db.embedded import Server
from livebox.auth import TOKEN_PREFIX, token_hash
from livebox.cli import main
from livebox.keys import KEYS

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `livebox` with these arguments in this process; only the variables of the test are set."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    runner = CliRunner()

    def invoke(*arguments: str) -> Result:
        return runner.invoke(main, arguments, catch_exceptions=False)

    return invoke


@pytest.fixture
def livebox(run: Run, database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run` on this test's migrated database."""
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    return run


def tables(sql: Any) -> dict[str, int]:
    """Rows of every table but those that loading is allowed to fill again."""
    with sql.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = 'livebox'::regnamespace AND relkind = 'r'")
        names = sorted(name for (name,) in cursor.fetchall() if name not in ("lane_batches", "service"))
        counts = {}
        for name in names:
            cursor.execute(f"SELECT count(*) FROM livebox.{name}")
            counts[name] = cursor.fetchone()[0]
    return counts


def test_help_names_every_command(run: Run) -> None:
    text = run("--help").output
    for name in ("config", "migrate", "serve", "token", "world"):
        assert re.search(rf"^  {name}\b", text, re.MULTILINE)
        assert run(name, "--help").exit_code == 0


def test_an_unknown_command_is_refused(run: Run) -> None:
    for name in ("nope", "_terminal", "__init__"):
        assert run(name).exit_code == 2


def test_config_shows_every_key_and_masks_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEBOX_METRICS_TOKEN", "sesame")
    monkeypatch.setenv("LIVEBOX_RUN_CLAIM_LEASE", "2m")
    output = run("config").output
    assert [line.split("\t")[0] for line in output.splitlines()] == list(KEYS)
    assert "sesame" not in output
    changed = run("config", "--changed").output.splitlines()
    assert changed == [
        "metrics.token\t********\t\tLIVEBOX_METRICS_TOKEN",
        "run.claim_lease\t120\ts\tLIVEBOX_RUN_CLAIM_LEASE",
    ]
    assert run("config", "http.port").output == "http.port\t8080\tcount\tLIVEBOX_HTTP_PORT\n"
    assert run("config", "no.key").exit_code == 2


def test_a_wrong_configuration_stops_every_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEBOX_HTTP_PORT", "70000")
    monkeypatch.setenv("LIVEBOX_HTTP_PROT", "1")
    for arguments in (("config",), ("migrate",), ("serve",), ("token", "list"), ("world",)):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "http.port (LIVEBOX_HTTP_PORT) is 70000, above its maximum 65535" in result.output
        assert "LIVEBOX_HTTP_PROT: there is no such variable; did you mean LIVEBOX_HTTP_PORT?" in result.output


def test_an_unreachable_database_is_told_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "host=127.0.0.1 port=1 password=sesame dbname=x connect_timeout=2")
    for arguments in (("migrate",), ("token", "list"), ("world",)):
        result = run(*arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert "Traceback" not in result.output
        assert "sesame" not in result.output


def test_what_needs_an_instance_makes_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    monkeypatch.setenv("LIVEBOX_DATA", str(data))
    for arguments in (
        *(("token", "issue", "alex"), ("token", "list"), ("token", "revoke", str(uuid.uuid4()))),
        ("world", "--id", "principal:alex"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: there is no instance in {data}; run `livebox serve` there")
        assert not data.exists()


def test_a_world_says_that_it_makes_an_instance(
    run: Run, session_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = session_folder / uuid.uuid4().hex[:4]
    monkeypatch.setenv("LIVEBOX_DATA", str(data))
    try:
        assert run("world").stderr == f"making a new instance in {data.resolve()}\n"
        assert run("world").stderr == ""
        assert run("world", "--id", "principal:alex").exit_code == 0
    finally:
        Server(data).halt("immediate")
        shutil.rmtree(data, ignore_errors=True)


def test_migrate_brings_an_empty_database_up_once(run: Run, empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_dsn)
    missing = run("migrate", "--check")
    assert missing.exit_code == 1
    assert missing.output.startswith("missing 0001_")
    done = run("migrate")
    assert done.exit_code == 0
    assert done.output.startswith("applied 0001_")
    for again in (run("migrate"), run("migrate", "--check")):
        assert (again.exit_code, again.output) == (0, "the schema is up to date\n")


def test_a_token_is_issued_listed_and_revoked(livebox: Run, database_dsn: str, sql: Any) -> None:
    instance.create_owner(database_dsn, "owner", "Owner")
    issued = livebox("token", "issue", "Owner", "--ttl", "1h")
    token = issued.stdout.strip()
    assert issued.exit_code == 0
    assert token.startswith(TOKEN_PREFIX)
    token_id = re.search(r"token ([0-9a-f-]{36}) of", issued.stderr)
    assert token_id is not None

    with sql.cursor() as cursor:
        cursor.execute("SELECT encode(hash, 'hex'), to_jsonb(t)::text FROM livebox.access_tokens t")
        ((kept, row),) = cursor.fetchall()
    assert kept == token_hash(token)
    assert token not in row

    (line,) = livebox("token", "list", "owner").output.splitlines()
    listed_id, handle, _, expires, state = line.split("\t")
    assert (listed_id, handle, state) == (token_id[1], "owner", "active")
    assert f"until {expires}" in issued.stderr
    assert livebox("token", "list", "nobody").output == ""

    for _ in range(2):
        assert livebox("token", "revoke", listed_id).output == "revoked\n"
        assert livebox("token", "list").output.splitlines()[0].endswith("\trevoked")


def test_tokens_of_nobody_are_refused(livebox: Run, sql: Any) -> None:
    missing = livebox("token", "issue", "nobody")
    assert missing.exit_code == 1
    assert missing.stdout == ""
    assert "no active principal" in missing.output
    assert "livebox world" in missing.output
    assert livebox("token", "revoke", str(uuid.uuid4())).exit_code == 1
    assert livebox("token", "revoke", "nonsense").exit_code == 2
    with sql.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM livebox.access_tokens")
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("ttl", ["soon", "10s", "5000d"])
def test_a_token_lives_within_bounds(livebox: Run, database_dsn: str, ttl: str) -> None:
    instance.create_owner(database_dsn, "owner", "Owner")
    result = livebox("token", "issue", "owner", "--ttl", ttl)
    assert result.exit_code == 2
    assert ttl in result.output
    assert "from 60s to 3650d" in " ".join(result.output.split())


def test_a_disabled_principal_gets_no_token(livebox: Run, sql: Any) -> None:
    with sql.cursor() as cursor:
        cursor.execute("INSERT INTO livebox.principals (kind, handle, display_name) VALUES ('person', 'x', 'X')")
        cursor.execute("UPDATE livebox.principals SET status = 'disabled', version = 2")
    assert livebox("token", "issue", "x").exit_code == 1


def test_an_owner_is_made_from_the_command_line(livebox: Run, sql: Any) -> None:
    made = livebox("owner", "robin", "--name", "Robin")
    assert made.exit_code == 0, made.output
    assert livebox("owner", "robin").output == made.output, "the same once more"
    with sql.cursor() as cursor:
        cursor.execute("SELECT id::text, handle, display_name, role FROM livebox.principals")
        assert cursor.fetchall() == [(made.stdout.strip(), "robin", "Robin", "owner")]
    assert livebox("token", "issue", "robin").exit_code == 0


def test_whom_no_owner_can_be_made_of(livebox: Run, sql: Any) -> None:
    with sql.cursor() as cursor:
        cursor.execute("INSERT INTO livebox.principals (kind, handle, display_name) VALUES ('person', 'sam', 'Sam')")
    refused = livebox("owner", "sam")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no active owner" in refused.output
    for arguments in (("two words",), ("",), ("robin", "--name", "a\u202eb")):
        assert livebox("owner", *arguments).exit_code == 2, arguments
    with sql.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM livebox.principals")
        assert cursor.fetchone() == (1,)


def test_the_first_owner_is_made_once_and_never_out_of_another(database_dsn: str, sql: Any) -> None:
    owner = instance.create_owner(database_dsn, "owner", "Owner")
    assert owner is not None
    assert instance.create_owner(database_dsn, "OWNER", "Somebody") == owner
    with sql.cursor() as cursor:
        cursor.execute("INSERT INTO livebox.principals (kind, handle, display_name) VALUES ('person', 'alex', 'Alex')")
    assert instance.create_owner(database_dsn, "alex", "Alex") is None


def test_the_world_loads_once(livebox: Run, sql: Any) -> None:
    first = livebox("world")
    assert first.exit_code == 0
    before = tables(sql)
    assert before["grants"] == 5
    assert before["principals"] == 7
    assert livebox("world").output == first.output
    assert tables(sql) == before


def test_the_world_is_read_by_other_programs(livebox: Run) -> None:
    rows = [line.split("\t") for line in livebox("world", "--tokens").output.splitlines()]
    ids = {(kind, name): identity for kind, name, identity in rows}
    assert ids["token", "alex"].startswith(TOKEN_PREFIX)
    assert livebox("world", "--id", "principal:alex").output.strip() == ids["principal", "alex"]
    assert livebox("world", "--id", "thread:Support/General").output.strip() == ids["thread", "Support/General"]
    assert livebox("world", "--id", "thread:Nowhere").exit_code == 2
