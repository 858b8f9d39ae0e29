"""A few sessions that serve one fair line of statements."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import psycopg2

from .connection import STATEMENT_TIMEOUT, Connection, ConnectionLost
from .errors import DatabaseError, DatabaseUnavailable, Overloaded, translate
from .queue import FULL, FairQueue


class _Call(NamedTuple):
    statement: str
    values: tuple[object, ...]
    deadline: float
    outcome: asyncio.Future[list[Any]]


class Sessions:
    """``size`` sessions; each statement goes to the next free one and is a transaction of its own.

    A statement whose session was lost is sent once more on a new one, so it must be repeatable: it reads, or it writes
    what is the same when it is written twice. Before a write is repeated the old backend is made sure to be gone.
    A caller that goes away frees its place in the line; a statement under way runs to its end.

    ``queue_max`` bounds the statements that wait; ``patience``: seconds one waits for a session; ``statement_timeout``:
    seconds one may run.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        *,
        size: int,
        queue_max: int,
        patience: float,
        read_only: bool,
        statement_timeout: float = STATEMENT_TIMEOUT,
    ) -> None:
        self._connections = [
            Connection(dsn, name=f"{name} {number}", read_only=read_only, statement_timeout=statement_timeout)
            for number in range(1, size + 1)
        ]
        self._name = name
        self._read_only = read_only
        self._patience = patience
        self._queue: FairQueue[_Call] = FairQueue(queue_max)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Opens the sessions. Raises ``DatabaseUnavailable`` or ``UnsuitableServer``."""
        deadline = asyncio.get_running_loop().time() + self._patience
        try:
            await asyncio.gather(*(connection.reopen(deadline) for connection in self._connections))
        except BaseException:
            await self.stop()
            raise
        self._tasks = [
            asyncio.create_task(self._serve(connection), name=f"db {self._name}") for connection in self._connections
        ]

    async def stop(self) -> None:
        """Ends the sessions; who still waits gets ``DatabaseUnavailable``."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections:
            connection.close()
        while self._queue:
            _fail(self._queue.take().outcome, DatabaseUnavailable("the sessions were ended"))

    async def fetch(self, key: str, statement: str, values: tuple[object, ...]) -> list[Any]:
        """Runs a statement in the line of ``key`` and gives its rows (text as bytes).

        Raises ``DatabaseUnavailable``, ``Overloaded``, ``StatementTimeout`` or ``InternalError``.
        """
        if not self._tasks:
            raise DatabaseUnavailable("the sessions are not open")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[list[Any]] = loop.create_future()
        displaced = self._queue.put(key, _Call(statement, values, loop.time() + self._patience, outcome))
        if displaced is not None:
            _fail(displaced.outcome, Overloaded(FULL))
        return await outcome

    async def _serve(self, connection: Connection) -> None:
        """Runs call after call on one session; only ``stop`` ends it."""
        while True:
            await self._queue.wait()
            call = self._queue.take()
            if call.outcome.done():  # its caller went away
                continue
            try:
                rows = await self._run(connection, call)
            except asyncio.CancelledError:
                _fail(call.outcome, DatabaseUnavailable("the sessions were ended"))
                raise
            except (DatabaseError, psycopg2.Error) as error:
                _fail(call.outcome, translate(error), error)
            except Exception as error:
                _fail(call.outcome, error)
            else:
                if not call.outcome.done():
                    call.outcome.set_result(rows)

    async def _run(self, connection: Connection, call: _Call) -> list[Any]:
        if not connection.closed and asyncio.get_running_loop().time() > call.deadline:
            raise Overloaded("no session was free in time")
        await connection.reopen(call.deadline)
        backend = connection.backend
        try:
            return await connection.fetch(call.statement, call.values or None)
        except ConnectionLost:
            await connection.reopen(call.deadline)
            if backend is not None and not self._read_only:
                await connection.bury(backend, call.deadline)
            return await connection.fetch(call.statement, call.values or None)


def _fail(outcome: asyncio.Future[Any], error: BaseException, cause: BaseException | None = None) -> None:
    if cause is not None and cause is not error:
        error.__cause__ = cause
    if not outcome.done():
        outcome.set_exception(error)
