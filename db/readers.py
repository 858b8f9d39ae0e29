"""Reads: a few sessions, one statement a call with its rights check in it, nothing remembered between calls."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .answer import Answer, Caller, read_answer
from .connection import STATEMENT_TIMEOUT
from .sessions import Sessions

PATIENCE: Final = 5.0
"""Seconds a call waits for a session (all busy, or lost) before it gives up."""

_COLUMNS: Final = "SELECT code, body, version, resource_kind, resource_id, cursor::text, effects::text FROM livebox."
_statements: dict[tuple[str, int], str] = {}


class Readers:
    """``size`` sessions that the database lets only read. See ``Sessions`` for the line in front of them."""

    def __init__(
        self,
        dsn: str,
        *,
        size: int = 4,
        queue_max: int = 4096,
        patience: float = PATIENCE,
        statement_timeout: float = STATEMENT_TIMEOUT,
    ) -> None:
        self._sessions = Sessions(
            dsn,
            "reader",
            size=size,
            queue_max=queue_max,
            patience=patience,
            read_only=True,
            statement_timeout=statement_timeout,
        )

    async def start(self) -> None:
        """Opens the sessions. Raises ``DatabaseUnavailable`` or ``UnsuitableServer``."""
        await self._sessions.start()

    async def stop(self) -> None:
        """Ends the sessions; calls still waiting get ``DatabaseUnavailable``."""
        await self._sessions.stop()

    async def call(self, function: str, caller: Caller | None, args: dict[str, Any]) -> Answer:
        """Calls ``livebox.<function>(caller, args)`` and gives its answer; refusals are answers.

        ``function`` is a name of ours, never of a client. Without a caller: ``livebox.<function>(args)``.
        Raises ``DatabaseUnavailable``, ``Overloaded``, ``StatementTimeout`` or ``InternalError``.
        """
        given = msgspec.json.encode(args).decode()
        if caller is None:
            rows = await self._sessions.fetch("", _statement(function, 1), (given,))
        else:
            who = msgspec.json.encode(caller.document()).decode()
            rows = await self._sessions.fetch(caller.principal, _statement(function, 2), (who, given))
        return read_answer(rows[0])

    async def rows(self, statement: str, *values: object) -> list[Any]:
        """Runs a statement of ours that is no operation. Text comes as bytes; cast all but numbers to text."""
        return await self._sessions.fetch("", statement, values)

    async def ping(self) -> None:
        """Returns when the database answers; raises like ``call``."""
        await self._sessions.fetch("", "SELECT 1", ())


def _statement(function: str, count: int) -> str:
    text = _statements.get((function, count))
    if text is None:
        if not function.isidentifier():
            raise ValueError(f"{function!r} is no function name")
        text = f"{_COLUMNS}{function}({', '.join(['%s::jsonb'] * count)})"
        _statements[function, count] = text
    return text
