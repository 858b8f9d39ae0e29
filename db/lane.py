"""The write lane: every operation that appends events or raises a run's version goes through one session, in batches.

A batch is one statement and one commit, under the lock of the log. While it is out, the next operations gather; so the
more there is to do, the more shares each commit. Operations of one batch are answered together.

What can become of a batch:

- it commits: each caller gets its answer (refusals included), effects are handed on once;
- it fails by contention (locks, deadlock): it is run again, for a while, then its callers get ``Overloaded``;
- it fails otherwise: its operations run one by one, so that only the one at fault gets the error;
- the connection is lost: once the old backend is gone, the record of the batch in ``lane_batches`` tells whether it
  committed. If so its callers get the answers from there; if not it is run again;
- the database stays away: callers get ``DatabaseUnavailable``, and what they asked for happened once or never.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import psycopg2

from .answer import SYSTEM, Answer, Caller, read_answer
from .connection import STATEMENT_TIMEOUT, Connection, ConnectionLost
from .errors import (
    SQLSTATES,
    DatabaseError,
    DatabaseUnavailable,
    InternalError,
    Overloaded,
    StatementTimeout,
    again,
    translate,
)
from .queue import FULL, FairQueue

BATCH_MAX: Final = 64
QUEUE_MAX: Final = 4096
PATIENCE: Final = 10.0
"""Seconds an operation may wait for a database or a lock that is not there."""

_SECONDS_PER_OPERATION: Final = 0.5  # what each further operation adds to the time its batch may take
_CONTENTION_TRIES: Final = 3
_PAUSE: Final = 0.02  # seconds by which each further loss of the session delays the next try
_LAST_PAUSE: Final = 1.0
_FRESH: Final = 1.0  # seconds for which a commit proves that the lane works
_AWAY: Final = "the database cannot be reached"
_COLUMNS: Final = "log_seq, code, body, version, resource_kind, resource_id, cursor::text, effects::text"
_EXECUTE: Final = f"SELECT {_COLUMNS} FROM livebox.execute(%s::uuid, %s::jsonb) ORDER BY position"  # noqa: S608 - constants
_SETTLE: Final = f"SELECT {_COLUMNS} FROM livebox.settle(%s::uuid) ORDER BY position"  # noqa: S608 - constants

_log = logging.getLogger("livebox.db.lane")
_encode = msgspec.json.Encoder().encode


class Operation:
    """One submitted operation on its way: its text, who waits for it and since when."""

    __slots__ = ("name", "outcome", "since", "text")

    def __init__(self, name: str, text: bytes, outcome: asyncio.Future[Answer], since: float) -> None:
        self.name = name
        self.text = text
        self.outcome = outcome
        self.since = since


class Lane:
    """Accepts operations from any number of tasks and commits them in order.

    ``batch_max``: operations in one commit; ``queue_max``: operations waiting at most; ``patience``: seconds;
    ``statement_timeout``: seconds for one operation, to which each further one of a batch adds.
    ``on_batch(size, waits)`` is told of each commit, with the seconds each of its operations waited; ``on_commit(seq)``
    wakes who follows the log (``None``: nothing was appended); ``on_effects(effects)`` gets what is to be counted, once
    per commit even when the caller went away. They come with the answer too: whoever has ``on_effects`` counts there.
    """

    def __init__(
        self,
        dsn: str,
        *,
        batch_max: int = BATCH_MAX,
        queue_max: int = QUEUE_MAX,
        patience: float = PATIENCE,
        statement_timeout: float = STATEMENT_TIMEOUT,
        on_batch: Callable[[int, list[float]], None] | None = None,
        on_commit: Callable[[int | None], None] | None = None,
        on_effects: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> None:
        self._connection = Connection(dsn, name="lane", statement_timeout=statement_timeout)
        self._statement_timeout = statement_timeout
        self._queue_max = queue_max
        self._queue: FairQueue[Operation] = FairQueue(queue_max)
        self._batch_max = batch_max
        self._patience = patience
        self.on_batch = on_batch
        self.on_commit = on_commit
        self.on_effects = on_effects
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.log_seq = 0
        """The newest event that this lane has appended; what an answered operation wrote is not above it."""
        self._committed = -math.inf
        self._hopeless = False
        self._probe: asyncio.Task[Answer] | None = None
        self._prefix = uuid.uuid4().hex[:20]
        self._count = 0

    async def start(self) -> None:
        """Opens the session. Raises ``DatabaseUnavailable`` or ``UnsuitableServer``."""
        await self._connection.reopen(asyncio.get_running_loop().time() + self._patience)
        self._stopping, self._queue = False, FairQueue(self._queue_max)
        self._task = asyncio.create_task(self._run(), name="db lane")

    async def stop(self) -> None:
        """Commits what was accepted, then ends the session. New operations get ``DatabaseUnavailable``."""
        self._stopping = True
        task, self._task = self._task, None
        if task is not None:
            self._queue.close()
            await asyncio.shield(task)
        self._connection.close()

    async def submit(self, operation: str, caller: Caller, args: dict[str, Any]) -> Answer:
        """Runs ``livebox.<operation>(caller, args)`` durably and gives its answer; refusals are answers.

        A caller that is cancelled before its batch left is forgotten; afterwards its operation is done all the same.
        Raises ``Overloaded``, ``StatementTimeout`` or ``InternalError`` (nothing was written), or
        ``DatabaseUnavailable`` (it happened once or never).
        """
        if self._task is None or self._stopping:
            raise DatabaseUnavailable("the write lane is not running")
        text = _encode({"op": operation, "caller": caller.document(), "args": args})
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Answer] = loop.create_future()
        displaced = self._queue.put(caller.principal, Operation(operation, text, outcome, loop.time()))
        if displaced is not None:
            _fail([displaced], Overloaded(FULL))
        return await outcome

    async def check(self) -> None:
        """Returns when the lane commits what it is given; raises like ``submit``, or waits as long as that would.

        What it committed just now proves it while its session is there; otherwise an operation that changes nothing
        does, one for all who ask.
        """
        if self._task is None or self._stopping:
            raise DatabaseUnavailable("the write lane is not running")
        fresh = asyncio.get_running_loop().time() - self._committed < _FRESH
        if fresh and not self._connection.closed:
            return
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self.submit("check_lane", SYSTEM, {}), name="db lane check")
            self._probe.add_done_callback(lambda probe: probe.cancelled() or probe.exception())  # seen, if nobody waits
        await asyncio.shield(self._probe)

    async def _run(self) -> None:
        while not (self._stopping and not self._queue):
            await self._queue.wait()
            batch = self._gather()
            if not batch:
                continue
            try:
                await self._commit(batch)
            except asyncio.CancelledError:
                _fail(batch, DatabaseUnavailable("the write lane was stopped"))
                raise
            except Exception as error:  # whatever it is, the lane goes on
                _log.exception("the write lane failed")
                _fail(batch, InternalError(f"the write lane failed ({type(error).__name__})"))
            await asyncio.sleep(0)  # who was just answered may have more: let it share the next commit

    def _gather(self) -> list[Operation]:
        """The next batch. What waited too long is refused: it was not begun, and its caller has given up by now."""
        batch: list[Operation] = []
        oldest = asyncio.get_running_loop().time() - self._patience
        while self._queue and len(batch) < self._batch_max:
            operation = self._queue.take()
            if operation.outcome.done():  # its caller went away before anything was sent
                continue
            if operation.since < oldest:
                away = self._connection.closed
                _fail([operation], DatabaseUnavailable(_AWAY) if away else Overloaded("waited too long in the line"))
                continue
            batch.append(operation)
        return batch

    async def _commit(self, batch: list[Operation]) -> None:
        """Answers every operation of the batch, one way or the other."""
        now = asyncio.get_running_loop().time()
        waits = [now - operation.since for operation in batch]
        try:
            rows = await self._attempt(batch)
        except DatabaseUnavailable as error:
            _fail(batch, error)
        except (DatabaseError, psycopg2.Error) as error:
            if len(batch) == 1:
                _refuse(batch[0], error)
            elif isinstance(error, Overloaded):
                _fail(batch, error)
            else:
                await self._commit_each(batch)
        else:
            self._answer(batch, rows, waits)

    async def _commit_each(self, batch: list[Operation]) -> None:
        """One by one. One that is slow keeps no other from it, many do: nobody waits for the time of all of them."""
        deadline = asyncio.get_running_loop().time() + self._statement_timeout + self._patience
        for operation in batch:
            if asyncio.get_running_loop().time() > deadline:
                _fail([operation], Overloaded("waited too long for others of its batch"))
            else:
                await self._commit([operation])

    async def _attempt(self, batch: list[Operation]) -> list[Any]:
        """Runs the batch until it is known to be committed and gives its rows, or raises; then it is not committed.

        Only ``DatabaseUnavailable`` leaves open whether it is.
        """
        deadline = asyncio.get_running_loop().time() + self._patience
        name, tries, losses = self._next_name(), 0, 0
        allowed = self._statement_timeout + _SECONDS_PER_OPERATION * (len(batch) - 1)
        statement = _EXECUTE if len(batch) == 1 else f"SET LOCAL statement_timeout = {allowed * 1000:.0f}; {_EXECUTE}"
        text = f"[{b','.join(operation.text for operation in batch).decode()}]"
        while True:
            await self._connection.reopen(deadline)
            try:
                rows = await self._connection.fetch(statement, (name, text), allowed=allowed)
                return rows or await self._settle(name, deadline, committed=True)
            except ConnectionLost as error:
                rows = await self._settle(name, deadline)
                if rows:
                    return rows
                await self._lost(error, losses, deadline)
                losses += 1
            except psycopg2.Error as error:
                tries += 1
                if not self._may_try_again(error, tries, deadline):
                    raise

    def _may_try_again(self, error: psycopg2.Error, tries: int, deadline: float) -> bool:
        if not again(error):
            return False
        if "lock_log" in (error.diag.context or ""):  # another process holds the log: it is nobody's fault here
            if asyncio.get_running_loop().time() > deadline:
                raise Overloaded("the log is locked") from error
            return True
        return tries < _CONTENTION_TRIES

    async def _settle(self, name: str, deadline: float, *, committed: bool = False) -> list[Any]:
        """The answers of a batch whose commit was not heard; none when it did not commit and never will.

        ``committed``: it did, and only its answers are missing, because they are too long to be sent under the lock.
        """
        backend, losses = None if committed else self._connection.backend, 0
        while True:
            await self._connection.reopen(deadline)
            try:
                if backend is not None:
                    await self._connection.bury(backend, deadline)
                rows = await self._connection.fetch(_SETTLE, (name,))
                if committed and not rows:
                    raise DatabaseUnavailable("the record of a batch is gone")
                return rows
            except ConnectionLost as error:
                await self._lost(error, losses, deadline)
                losses += 1
            except (psycopg2.Error, StatementTimeout) as error:
                raise DatabaseUnavailable("what became of a batch cannot be read") from error

    async def _lost(self, error: ConnectionLost, losses: int, deadline: float) -> None:
        """Returns when a session lost so many times before is to be tried again: at once at first, and never too late.

        While no session is known to last one try must do: nobody waits long for what nobody expects.
        """
        pause = min(losses * _PAUSE, _LAST_PAUSE)
        if self._hopeless or asyncio.get_running_loop().time() + pause > deadline:
            self._hopeless = True
            raise DatabaseUnavailable("no session lasts long enough") from error
        if losses:
            await asyncio.sleep(pause)

    def _answer(self, batch: list[Operation], rows: list[Any], waits: list[float]) -> None:
        self._committed, self._hopeless = asyncio.get_running_loop().time(), False
        self.log_seq = max(self.log_seq, rows[0][0] or 0)
        effects: list[dict[str, Any]] = []
        for operation, row in zip(batch, rows, strict=True):
            answer = read_answer(row[1:])
            effects += answer.effects
            if not operation.outcome.done():
                operation.outcome.set_result(answer)
        if effects:
            _tell(self.on_effects, effects)
        _tell(self.on_batch, len(batch), waits)
        _tell(self.on_commit, rows[0][0])

    def _next_name(self) -> str:
        """A batch id of this lane: unique, and rising so that the index of the records grows at one end."""
        self._count += 1
        return f"{self._prefix}{self._count:012x}"


def _tell(hook: Callable[..., None] | None, *values: object) -> None:
    """Calls a hook; what it does wrong is logged and harms no write."""
    if hook is not None:
        try:
            hook(*values)
        except Exception:
            _log.exception("a hook of the write lane failed")


def _refuse(operation: Operation, error: Exception) -> None:
    """One operation failed alone: a guard that stands for a refusal answers as one, all else is an error."""
    state = error.pgcode if isinstance(error, psycopg2.Error) else None
    problem = SQLSTATES.get(state or "", "internal_error")
    if problem != "internal_error":
        if not operation.outcome.done():
            operation.outcome.set_result(Answer(problem))
        return
    translated = translate(error)
    if translated is not error:
        translated.__cause__ = error
    _log.error("operation %s failed: %s", operation.name, translated)
    _fail([operation], translated)


def _fail(batch: Sequence[Operation], error: Exception) -> None:
    for operation in batch:
        if not operation.outcome.done():
            operation.outcome.set_exception(copy.copy(error))  # each is raised, and gets a traceback, on its own
