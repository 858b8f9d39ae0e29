"""What goes into an operation and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec


class Caller(NamedTuple):
    """Who asks: the principal's id and, for a token of our own, the id of its row (so that revoking it reaches).

    ``system`` is the server itself (``SYSTEM``), for operations that nobody asked for; no request ever has it.
    """

    principal: str
    token: str | None = None
    system: bool = False

    def document(self) -> dict[str, str | bool]:
        """The caller as the SQL functions take it."""
        if self.system:
            return {"system": True}
        if self.token is None:
            return {"principal": self.principal}
        return {"principal": self.principal, "token": self.token}


SYSTEM = Caller("system", system=True)
"""The server itself. It may do what ``livebox.system_operation`` lists and nothing else; nobody else may do that."""


class Answer(NamedTuple):
    """The outcome of one operation, refusals included.

    ``code`` is ok | created | accepted | no_content or a problem code; ``body`` is finished JSON (UTF-8) that is
    passed on as it is; ``version`` makes the ETag; ``resource_kind`` and ``resource_id`` name what was made;
    ``cursor`` is the unsealed key of the last row where a next page exists; ``effects`` are facts for metrics.
    """

    code: str
    body: bytes | None = None
    version: int | None = None
    resource_kind: str | None = None
    resource_id: str | None = None
    cursor: dict[str, Any] | None = None
    effects: list[dict[str, Any]] = []  # noqa: RUF012 - never mutated; a tuple would not be JSON's list


SUCCESS = frozenset({"ok", "created", "accepted", "no_content"})
"""The codes that say the operation did what was asked."""


def read_answer(row: Sequence[Any]) -> Answer:
    """An answer from a row of the columns code, body, version, resource_kind, resource_id, cursor, effects."""
    code, body, version, kind, identity, cursor, effects = row
    return Answer(
        code.decode(),
        body,
        version,
        None if kind is None else kind.decode(),
        None if identity is None else identity.decode(),
        None if cursor is None else msgspec.json.decode(cursor),
        [] if effects is None else msgspec.json.decode(effects),
    )
