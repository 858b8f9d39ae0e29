"""The SQL layer: migrations, functions and the Python that calls them. Imports nothing of ours."""

from .answer import SUCCESS, SYSTEM, Answer, Caller
from .database import Database
from .errors import (
    SQLSTATES,
    DatabaseError,
    DatabaseUnavailable,
    InternalError,
    MigrationError,
    Overloaded,
    StatementTimeout,
    UnsuitableServer,
)

__all__ = [
    "SQLSTATES",
    "SUCCESS",
    "SYSTEM",
    "Answer",
    "Caller",
    "Database",
    "DatabaseError",
    "DatabaseUnavailable",
    "InternalError",
    "MigrationError",
    "Overloaded",
    "StatementTimeout",
    "UnsuitableServer",
]
