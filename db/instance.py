"""What whoever runs an instance does from its command line: its first owner, and local tokens.

These calls are not operations: they ask nobody for rights, because whoever reaches the database has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import psycopg2

from .errors import translate


class IssuedToken(NamedTuple):
    """A kept token: its row, whose it is, and its end (RFC 3339, UTC)."""

    token_id: str
    principal_id: str
    expires_at: str


class ListedToken(NamedTuple):
    """A kept token as a list shows it. ``state`` is active | expired | revoked | disabled (its principal is)."""

    token_id: str
    handle: str
    created_at: str
    expires_at: str
    state: str


def create_owner(dsn: str, handle: str, display_name: str) -> str | None:
    """The id of the active owner of that handle, made when the handle is free; None when it is somebody else's."""
    with _cursor(dsn) as cursor:
        cursor.execute("SELECT livebox.create_owner(%s, %s)::text", (handle, display_name))
        owner: str | None = cursor.fetchone()[0]
    return owner


def issue_token(dsn: str, handle: str, token_hash: str, seconds: float) -> IssuedToken | None:
    """Keeps a token by its SHA-256 (hex) for so many seconds; None when there is no active principal of that handle."""
    with _cursor(dsn) as cursor:
        cursor.execute("SELECT * FROM livebox.issue_token(%s, %s, %s)", (handle, token_hash, seconds))
        row = cursor.fetchone()
    return IssuedToken(*row) if row else None


def list_tokens(dsn: str, handle: str | None = None) -> list[ListedToken]:
    """The tokens of one principal, or of all, oldest first."""
    with _cursor(dsn) as cursor:
        cursor.execute("SELECT * FROM livebox.list_tokens(%s)", (handle,))
        return [ListedToken(*row) for row in cursor.fetchall()]


def revoke_token(dsn: str, token_id: str) -> bool:
    """Ends a token from the next request on; False when there is none of that id (a UUID)."""
    with _cursor(dsn) as cursor:
        cursor.execute("SELECT livebox.revoke_token(%s::uuid)", (token_id,))
        return bool(cursor.fetchone()[0])


@contextmanager
def _cursor(dsn: str) -> Iterator[Any]:
    """A cursor in one transaction. Raises the errors of ``db.errors``."""
    try:
        opened = psycopg2.connect(dsn, application_name="livebox command", connect_timeout=10)
        with closing(opened), opened as connection, connection.cursor() as cursor:
            yield cursor
    except psycopg2.Error as error:
        raise translate(error) from error
