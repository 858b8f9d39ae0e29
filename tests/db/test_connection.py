"""A session: our settings, and servers that may lose what they acknowledged are refused."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import uvloop
from psycopg2.extensions import make_dsn, parse_dsn

from db import Database, DatabaseUnavailable, UnsuitableServer
from db.connection import Connection, check_server
from db.embedded import Server
from db.errors import DatabaseError


@pytest.fixture
async def session(empty_dsn: str) -> AsyncIterator[Connection]:
    """An open session on an empty database."""
    connection = Connection(empty_dsn, name="test", read_only=True)
    await connection.open()
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("statement_timeout", "10s"),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("client_connection_check_interval", "2s"),
        ("TimeZone", "UTC"),
        ("jit", "off"),
        ("search_path", "livebox, pg_catalog"),
        ("application_name", "livebox test"),
        ("default_transaction_read_only", "on"),
        ("synchronous_commit", "on"),
        ("standard_conforming_strings", "on"),
    ],
)
async def test_every_session_has_our_settings(session: Connection, name: str, value: str) -> None:
    assert await session.fetch("SELECT current_setting(%s)", (name,)) == [(value.encode(),)]


async def test_a_database_that_commits_in_advance_is_told_not_to(empty_dsn: str) -> None:
    connection = Connection(empty_dsn, name="test")
    await connection.open()
    await connection.fetch(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$"
    )
    await connection.open()
    assert await connection.fetch("SHOW synchronous_commit") == [(b"on",)]
    connection.close()


async def test_text_comes_as_bytes_and_numbers_as_numbers(session: Connection) -> None:
    assert await session.fetch("SELECT 1::bigint, 'é'::text, true, NULL, '{}'::jsonb::text") == [
        (1, "é".encode(), True, None, b"{}")
    ]


@pytest.mark.parametrize(
    ("version", "fsync", "full_page_writes", "says"),
    [(140012, True, True, "too old"), (150000, False, True, "fsync"), (180000, True, False, "full_page_writes")],
)
def test_servers_that_cannot_keep_promises(version: int, fsync: bool, full_page_writes: bool, says: str) -> None:
    with pytest.raises(UnsuitableServer, match=says):
        check_server(version, fsync=fsync, full_page_writes=full_page_writes)
    check_server(150000, fsync=True, full_page_writes=True)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_the_process_does_not_start_on_one(own_server: Server, setting: str) -> None:
    await Connection(own_server.dsn(), name="test").open()
    own_server.halt()
    careless = Server(own_server.folder, bin_path=own_server.bin_path, settings={setting: "off"})
    careless.start()
    database = Database(careless.dsn())
    with pytest.raises(UnsuitableServer, match=setting):
        await database.start()
    careless.stop()


async def test_a_database_that_is_not_there(empty_dsn: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        await Database(empty_dsn.replace("dbname=", "dbname=no_such_"), lane_patience=0.1).start()


def test_a_refused_connection_leaves_nothing_behind() -> None:
    """uvloop would meet the closed descriptor of one attempt again in the next."""

    async def attempts(port: int) -> None:
        connection = Connection(f"host=127.0.0.1 port={port} dbname=none", name="test")
        for _ in range(10):
            with pytest.raises(DatabaseUnavailable):
                await connection.open()

    with socket.socket() as nobody:  # has the port and does not listen
        nobody.bind(("127.0.0.1", 0))
        uvloop.run(attempts(nobody.getsockname()[1]))


async def test_a_database_at_the_second_of_two_hosts(empty_dsn: str) -> None:
    """What a name with two addresses is too, when only one of them is listened on."""
    given = parse_dsn(empty_dsn)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hosts = {"host": f"127.0.0.1,{given['host']}", "port": f"{nobody.getsockname()[1]},{given.get('port', 5432)}"}
        connection = Connection(make_dsn(empty_dsn, **hosts), name="test")
        await connection.open()
        assert await connection.fetch("SELECT 1") == [(1,)]
        connection.close()


def test_a_connection_string_that_is_none_does_not_show_up_in_the_error() -> None:
    with pytest.raises(DatabaseError) as caught:
        Connection("postgresql://user:secret@[", name="test")
    assert "secret" not in str(caught.value)
