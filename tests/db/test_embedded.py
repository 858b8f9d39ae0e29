"""The embedded server: shared by processes, ended by the last, and none the worse for a kill -9 of anybody."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from db.embedded import EmbeddedError, Server
from tests.fixtures.database import connect
from tests.fixtures.waiting import eventually

USER = """
import sys
import uuid
from pathlib import Path
from db.embedded import Server
server = Server(Path(sys.argv[1]))
server.start()
print(server.postmaster(), flush=True)
sys.stdin.readline()
"""


def use(folder: Path) -> subprocess.Popen[str]:
    """A process that uses a data folder until it is told to end or is killed."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", USER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def postmaster_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else "no word"
    return int(line)


@pytest.fixture
def folder(session_folder: Path) -> Iterator[Path]:
    """A data folder that is not there yet."""
    folder = session_folder / f"own {uuid.uuid4().hex}"
    yield folder
    Server(folder).halt("immediate") if folder.exists() else None


def marked(server: Server, *, write: bool = False) -> bool:
    with closing(connect(server.dsn())) as connection, connection.cursor() as cursor:
        if write:
            cursor.execute("CREATE TABLE mark (n bigint)")
        cursor.execute("SELECT to_regclass('mark') IS NOT NULL")
        return bool(cursor.fetchone()[0])


def test_processes_share_a_server_and_the_last_one_ends_it(folder: Path) -> None:
    processes = [use(folder) for _ in range(3)]  # all at once, on a folder that is not there
    pids = {postmaster_of(process) for process in processes}
    assert len(pids) == 1
    server = Server(folder)
    for process in processes:
        assert server.postmaster() in pids
        _, said = process.communicate("end\n", timeout=60)
        assert (process.returncode, said) == (0, ""), "no warning and no noise"
    assert server.postmaster() is None


async def test_a_server_whose_process_was_killed_is_adopted(folder: Path) -> None:
    process = use(folder)
    pid = postmaster_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server = Server(folder)
    assert server.postmaster() == pid
    server.start()
    assert server.postmaster() == pid
    marked(server, write=True)
    server.stop()
    assert server.postmaster() is None, "the handle of the dead process does not keep it"
    server.start()
    assert marked(server)
    server.stop()


@pytest.mark.parametrize("mode", ["fast", "immediate", "crash"])
def test_it_comes_back_after_every_end(folder: Path, mode: str) -> None:
    server = Server(folder)
    server.start()
    marked(server, write=True)
    for _ in range(2):
        server.restart(mode)
        assert marked(server)
    server.stop()


async def test_a_killed_postmaster_leaves_no_session_that_writes_beside_the_next_one(folder: Path) -> None:
    server = Server(folder)
    server.start()
    with closing(psycopg2.connect(server.dsn())) as session:
        old = server.postmaster()
        assert old is not None
        os.kill(old, signal.SIGKILL)
        await eventually(lambda: server.postmaster() is None, "its end")
        server.start()
        with pytest.raises(psycopg2.OperationalError), session.cursor() as cursor:
            cursor.execute("SELECT 1")
    assert server.postmaster() not in (None, old)
    server.stop()


def test_a_pid_file_that_names_another_process_is_no_server(folder: Path) -> None:
    server = Server(folder)
    server.start()
    content = (server.data / "postmaster.pid").read_text().splitlines()
    server.crash()
    content[0] = str(os.getpid())
    (server.data / "postmaster.pid").write_text("\n".join(content) + "\n")
    assert server.postmaster() is None
    server.start()
    assert server.postmaster() not in (None, os.getpid())
    server.stop()


@pytest.mark.parametrize("name", ["d" * 200, "a, 'b' é"], ids=["long", "odd"])
def test_any_path_will_do(folder: Path, name: str) -> None:
    server = Server(folder / name)
    server.start()
    assert len(os.fsencode(server.socket_folder() / ".s.PGSQL.5432")) <= 107
    assert marked(server, write=True)
    if server.socket_folder() != server.data:
        assert stat.S_IMODE(server.socket_folder().stat().st_mode) == 0o700
    server.stop()
    assert server.socket_folder() == server.data or not server.socket_folder().exists()


def test_nobody_else_gets_at_the_data_or_the_socket(folder: Path) -> None:
    server = Server(folder)
    server.start()
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    with closing(connect(server.dsn())) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("",)
    server.stop()


def test_settings_are_those_of_this_start(folder: Path) -> None:
    for value in ("40", "50"):
        server = Server(folder, settings={"max_connections": value})
        server.start()
        with closing(connect(server.dsn())) as connection, connection.cursor() as cursor:
            for name, expected in (("max_connections", value), ("fsync", "on"), ("timezone", "UTC")):
                cursor.execute(f"SHOW {name}")
                assert cursor.fetchone() == (expected,)
        server.stop()


def test_a_folder_with_something_else_in_it_is_left_alone(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres" / "thesis.txt").write_text("years of work")
    with pytest.raises(EmbeddedError, match="no PostgreSQL cluster"):
        Server(folder).start()
    assert (folder / "postgres" / "thesis.txt").read_text() == "years of work"


def test_what_the_server_says_when_it_cannot_start_is_in_the_error(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        Server(folder, settings={"no_such_setting": "1"}).start()
    Server(folder).start()
    Server(folder).halt()
