"""One session with PostgreSQL on aiopg: opened with our settings, opened again when it was lost.

What aiopg needs to be handled for:

- ``statement_timeout`` comes out of it as ``asyncio.CancelledError``; here it is ``StatementTimeout``.
- Cancelling a task that waits for a statement closes the connection while the backend goes on. So statements are only
  awaited by tasks that nobody cancels (the lane, the readers, the writer); callers wait on futures of theirs.
- It never looks whether an idle connection still lives. A lost one shows at the next statement as ``ConnectionLost``.
- After a connection was refused it leaves the closed descriptor with the loop. uvloop finds it again under the number
  that the next socket gets, and raises an error that says nothing of the database.
- On uvloop it may never hear that a session ended: see ``wire.py``.
- It watches one descriptor per connection, but libpq takes another for each further address that it tries. So each
  address of a host, and each of several hosts, is a connection of its own here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Sequence
from typing import Any, Final

import psycopg2
import psycopg2.extensions
import psycopg2.extras

from .errors import DatabaseError, DatabaseUnavailable, StatementTimeout, UnsuitableServer, lost
from .wire import Wire

OLDEST_SERVER: Final = 150000
STATEMENT_TIMEOUT: Final = 10.0
CONNECT_TIMEOUT: Final = 5.0

_GRACE: Final = 5.0  # seconds past the server's own timeout after which a silent connection is given up
_FIRST_DELAY: Final = 0.05
_LAST_DELAY: Final = 1.0
_READ_ONLY: Final = "25006"
_KEEPALIVE: Final = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_SETTINGS: Final = {
    "search_path": "livebox, pg_catalog",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
    "timezone": "UTC",
    "jit": "off",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "datestyle": "ISO, YMD",
}
_OPEN: Final = """
SELECT pg_backend_pid(),
       (SELECT extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()),
       current_setting('server_version_num')::bigint,
       current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on',
       CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END,
       (SELECT count(set_config(s.key, s.value, false)) FROM json_each_text(%s::json) AS s)
"""
_BURY: Final = """
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
 WHERE pid = %s AND extract(epoch FROM backend_start)::text = %s
"""
_DISCONNECT_CHECK: Final = "SELECT set_config('client_connection_check_interval', '2s', false)"


class ConnectionLost(DatabaseUnavailable):
    """The session ended under a statement: whether it was done is not known."""


class Connection:
    """One session, one statement at a time, each its own transaction. Values come as int, bool or bytes (for text).

    ``name`` ends up in ``application_name``. ``statement_timeout`` in seconds. ``read_only`` makes the database refuse
    every write.
    """

    def __init__(
        self, dsn: str, *, name: str, statement_timeout: float = STATEMENT_TIMEOUT, read_only: bool = False
    ) -> None:
        self._dsn = _with_keepalive(dsn)
        self._statement_timeout = statement_timeout
        self._read_only = read_only
        self._settings = _SETTINGS | {
            "application_name": f"livebox {name}",
            "statement_timeout": f"{statement_timeout * 1000:.0f}ms",
            "default_transaction_read_only": "on" if read_only else "off",
        }
        self._connection: Any = None
        self._cursor: Any = None
        self._down = False
        self.backend: tuple[int, str] | None = None
        """Pid and start (seconds, as text) of the present or last server process: together they name it for ever."""

    @property
    def closed(self) -> bool:
        """Is there no session, or a session known to be lost?"""
        return self._connection is None or self._connection.closed

    @property
    def notifies(self) -> Any:
        """aiopg's queue of notifications of the present session."""
        return self._connection.notifies

    async def open(self) -> None:
        """Opens a session. Raises ``ConnectionLost``, or ``UnsuitableServer`` for a server that may lose commits."""
        self.close()
        refused = ConnectionLost("the database's host has no address")
        for place in await _places(self._dsn):
            try:
                await self._open(place)
            except ConnectionLost as error:
                refused = error
            else:
                return
        raise refused

    async def _open(self, dsn: str) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _forget_closed_descriptor()
                self._connection = await Wire(dsn)
            psycopg2.extensions.register_type(psycopg2.extensions.BYTES, self._connection.raw)
            self._cursor = await self._connection.cursor()
            await self._prepare()
        except (TimeoutError, OSError) as error:
            self.close()
            raise ConnectionLost("the database did not let us in") from error
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg2.Error):
                raise ConnectionLost("the database did not let us in") from error
            raise

    async def reopen(self, deadline: float) -> None:
        """Opens a session when there is none, trying until ``deadline`` (loop time) but at least once.

        While the database is known to be away one try must do: nobody waits long for what nobody expects.
        Raises ``DatabaseUnavailable``.
        """
        loop, delay = asyncio.get_running_loop(), _FIRST_DELAY
        while self.closed:
            try:
                await self.open()
            except ConnectionLost as error:
                pause = delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
                if self._down or loop.time() + pause > deadline:
                    self._down = True
                    raise DatabaseUnavailable("the database cannot be reached") from error
                await asyncio.sleep(pause)
                delay = min(2 * delay, _LAST_DELAY)
        self._down = False

    async def bury(self, backend: tuple[int, str], deadline: float) -> None:
        """Makes sure that the process of a lost session is gone, so that nothing it was doing can still commit.

        Raises ``ConnectionLost`` or, when that process outlives ``deadline``, ``DatabaseUnavailable``.
        """
        try:
            while await self.fetch(_BURY, backend):
                if asyncio.get_running_loop().time() > deadline:
                    raise DatabaseUnavailable("the old session does not end")
        except (psycopg2.Error, StatementTimeout) as error:
            raise DatabaseUnavailable("the old session cannot be ended") from error

    async def fetch(
        self, statement: str, values: Sequence[object] | None = None, *, allowed: float | None = None
    ) -> list[Any]:
        """Runs one statement and gives its rows. ``allowed``: seconds, when the statement sets a timeout of its own.

        Raises ``ConnectionLost``, ``StatementTimeout`` or what psycopg2 raised (then nothing was done).
        """
        if self.closed:
            raise ConnectionLost("the database session is gone")
        limit = _GRACE + (self._statement_timeout if allowed is None else allowed)
        silence = asyncio.get_running_loop().call_later(limit, self.close)
        try:
            await self._cursor.execute(statement, values)
            raw = self._cursor.raw
            return raw.fetchall() if raw.description else []
        except asyncio.CancelledError as error:
            if isinstance(error.__context__, psycopg2.extensions.QueryCanceledError):
                raise StatementTimeout("the statement took too long") from error.__context__
            self.close()
            raise
        except psycopg2.Error as error:
            demoted = error.pgcode == _READ_ONLY and not self._read_only  # we are on a standby now: look again
            if self.closed or lost(error) or demoted:
                self.close()
                raise ConnectionLost("the database session was lost") from error
            raise
        finally:
            silence.cancel()

    def close(self) -> None:
        """Ends the session, if there is one. A statement under way ends with ``ConnectionLost``."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(psycopg2.Error, OSError):
                connection.close()

    async def _prepare(self) -> None:
        settings = psycopg2.extras.Json(self._settings)
        rows = await self.fetch(_OPEN, (settings,))
        pid, started, version, fsync, full_page_writes, *_ = rows[0]
        check_server(version, fsync=fsync, full_page_writes=full_page_writes)
        self.backend = (pid, started.decode())
        with contextlib.suppress(psycopg2.Error):  # not every platform can look
            await self.fetch(_DISCONNECT_CHECK)


def check_server(version: int, *, fsync: bool, full_page_writes: bool) -> None:
    """Raises ``UnsuitableServer`` unless an acknowledged commit survives a crash of this server."""
    if version < OLDEST_SERVER:
        raise UnsuitableServer(f"PostgreSQL {version // 10000} is too old: {OLDEST_SERVER // 10000} is needed")
    if not fsync:
        raise UnsuitableServer("the server runs with fsync = off: it may lose what it acknowledged")
    if not full_page_writes:
        raise UnsuitableServer("the server runs with full_page_writes = off: a crash may corrupt its data")


async def _places(dsn: str) -> list[str]:
    """A connection string for each address that ``dsn`` stands for, in the order in which libpq would try them."""
    given = psycopg2.extensions.parse_dsn(dsn)
    hosts = given.get("host", "").split(",")
    ports = given.get("port", "").split(",")
    if given.get("hostaddr") or len(ports) not in (1, len(hosts)):
        return [dsn]
    places = []
    for index, host in enumerate(hosts):
        port = ports[index if len(ports) > 1 else 0]
        here = {"host": host, "port": port} if len(hosts) > 1 else {}
        if not host or host.startswith(("/", "@")):
            places.append(str(psycopg2.extensions.make_dsn(dsn, **here)))
            continue
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = dict.fromkeys(info[4][0] for info in found)
            places += [str(psycopg2.extensions.make_dsn(dsn, **here, hostaddr=address)) for address in addresses]
    return places


def _forget_closed_descriptor() -> None:
    """Makes the loop forget the descriptor that the next socket gets: the lowest free one, so nothing else has it."""
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    loop = asyncio.get_running_loop()
    loop.remove_writer(free)
    loop.remove_reader(free)


def _with_keepalive(dsn: str) -> str:
    """The connection string, noticing dead peers unless it says how itself."""
    try:
        given = psycopg2.extensions.parse_dsn(dsn)
    except psycopg2.ProgrammingError as error:
        raise DatabaseError("the database's connection string cannot be read") from error
    return str(psycopg2.extensions.make_dsn(dsn, **{k: v for k, v in _KEEPALIVE.items() if k not in given}))
