"""What can go wrong between this process and the database, in the words the edge answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg2


class DatabaseError(Exception):
    """Base of all that the database layer raises; ``problem`` is the problem code the edge answers with."""

    problem: str = "internal_error"


class DatabaseUnavailable(DatabaseError):
    """No answer from the database within the time a caller may wait; whether a write happened is not known."""

    problem = "unavailable"


class Overloaded(DatabaseError):
    """A bounded queue is full or a lock could not be had in time; nothing was written."""

    problem = "overloaded"


class StatementTimeout(DatabaseError):
    """The statement ran longer than ``statement_timeout`` and was rolled back; nothing was written."""

    problem = "timeout"


class InternalError(DatabaseError):
    """A programming error: the database raised what no caller can cause; nothing was written.

    ``sqlstate`` names it in logs. The message of the database stays on ``__cause__`` and never reaches a client.
    """

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class UnsuitableServer(DatabaseUnavailable):
    """The server cannot keep the promises made on top of it (too old, or it may lose acknowledged commits)."""


class MigrationError(DatabaseError):
    """The schema in the database and the migration files do not fit together; the message names the file."""


SQLSTATES: Final[Mapping[str, str]] = {
    "LB001": "internal_error",  # append_only
    "LB002": "internal_error",  # write_once
    "LB003": "internal_error",  # version_not_risen
    "LB004": "internal_error",  # floor_fell
    "LB005": "internal_error",  # unknown_action
    "LB006": "internal_error",  # scope_missing
    "LB007": "last_owner",  # last_owner
    "LB008": "internal_error",  # dm_closed
    "LB009": "internal_error",  # dm_members
    "LB100": "internal_error",  # run_not_new
    "LB101": "invalid_state_transition",  # run_transition
    "LB102": "internal_error",  # run_version
    "LB103": "run_ended",  # run_final
    "LB104": "internal_error",  # run_write_once
    "LB105": "internal_error",  # run_time
    "LB106": "internal_error",  # run_step_final
    "LB107": "internal_error",  # run_step_write_once
    "LB108": "internal_error",  # run_followup_final
    "LB109": "internal_error",  # trigger_reason
    "LB110": "internal_error",  # run_spend_place
    "LB111": "internal_error",  # run_report_backwards
    "LB120": "internal_error",  # run_lost
    "LB121": "internal_error",  # run_reason
    "LB122": "internal_error",  # run_denial
    "LB130": "snapshot_terminal",  # snapshot_terminal
    "LB131": "internal_error",  # snapshot_write_once
}
"""SQLSTATE raised by a guard of the schema -> problem code of the contract.

A guard is the last line: operations refuse in words of their own before one fires. So most of them say that
something is broken (``internal_error``); those a race can reach map to the refusal the caller should see.
"""

_LOST_CLASSES = ("08",)
_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
_AGAIN_STATES = frozenset({"40001", "40P01", "55P03"})
_FULL_CLASS = "53"


def lost(error: BaseException) -> bool:
    """Did the connection (and with it knowledge of the outcome) go away with this error?"""
    if not isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError | psycopg2.DatabaseError):
        return False
    state = error.pgcode
    if state is not None:
        return state in _LOST_STATES or state[:2] in _LOST_CLASSES
    # The bare class is what psycopg2 raises when it cannot tell more than that the server is gone.
    return isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (
        type(error) is psycopg2.DatabaseError
    )


def timed_out(error: BaseException) -> bool:
    """Was the statement cancelled by ``statement_timeout`` (or by ``pg_cancel_backend``)?"""
    return isinstance(error, psycopg2.extensions.QueryCanceledError)


def again(error: BaseException) -> bool:
    """Rolled back by contention alone: the same statement may pass when it is sent again."""
    return isinstance(error, psycopg2.Error) and error.pgcode in _AGAIN_STATES


def translate(error: BaseException) -> DatabaseError:
    """The error of the driver as one of ours. Never carries SQL, names or values of the database in its text."""
    if isinstance(error, DatabaseError):
        return error
    if timed_out(error):
        return StatementTimeout("the statement took too long")
    if lost(error):
        return DatabaseUnavailable("the database did not answer")
    if again(error):
        return Overloaded("the database is busy")
    state = error.pgcode if isinstance(error, psycopg2.Error) else None
    if state is not None and state[:2] == _FULL_CLASS:
        return DatabaseUnavailable("the database is out of resources")
    return InternalError(f"the database refused a statement ({state or type(error).__name__})", state)
