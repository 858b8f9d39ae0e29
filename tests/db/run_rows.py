"""Rows for tests that speak to the database as psql would: no function of ours between them and its rules."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import psycopg2
import pytest

ACTIVE: Final = ("queued", "running", "waiting_input")
ENDED: Final = ("completed", "failed", "cancelled")
STATES: Final = (*ACTIVE, *ENDED)
PATHS: Final = {
    "queued": (),
    "running": ("running",),
    "waiting_input": ("running", "waiting_input"),
    "completed": ("running", "completed"),
    "failed": ("running", "failed"),
    "cancelled": ("running", "cancelled"),
}
QUEUED_AT: Final = "2026-01-01T00:00:00Z"
REASONS: Final = {"failed": "runtime_error", "cancelled": "user_cancelled"}


class Refused(Exception):
    """The database refused: `sqlstate`, and the constraint where one is named."""

    def __init__(self, error: psycopg2.Error) -> None:
        super().__init__(str(error))
        self.sqlstate = error.pgcode
        self.constraint = error.diag.constraint_name

    @property
    def rule(self) -> str | None:
        """The name of the rule: that of a constraint, else our own SQLSTATE."""
        return self.constraint or self.sqlstate


def refusal(action: Callable[[], object]) -> str | None:
    """The rule that refused the action; fails the test when none does."""
    with pytest.raises(Refused) as refused:
        action()
    return refused.value.rule


class Rows:
    """Makes rows by plain INSERT and UPDATE."""

    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()
        self.person = self.principal("person")
        self.agent = self.principal("agent")
        self.space = self.insert("spaces", name="Support")["id"]
        self.channel = self.insert("channels", space_id=self.space, name="General")["id"]

    def run_sql(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Runs a statement; raises Refused."""
        try:
            self._cursor.execute(statement, values or None)
        except psycopg2.Error as error:
            raise Refused(error) from error
        if self._cursor.description is None:
            return []
        names = [column.name for column in self._cursor.description]
        return [dict(zip(names, row, strict=True)) for row in self._cursor.fetchall()]

    def insert(self, table: str, **columns: object) -> dict[str, Any]:
        """Inserts a row and gives it back. Values of type Sql are put in as they are."""
        names = ", ".join(columns)
        marks, values = _marks(columns)
        return self.run_sql(f"INSERT INTO livebox.{table} ({names}) VALUES ({', '.join(marks)}) RETURNING *", *values)[
            0
        ]

    def update(self, table: str, key: object, **columns: object) -> dict[str, Any]:
        """Updates the row with that id and gives it back."""
        marks, values = _marks(columns)
        sets = ", ".join(f"{name} = {mark}" for name, mark in zip(columns, marks, strict=True))
        return self.run_sql(f"UPDATE livebox.{table} SET {sets} WHERE id = %s RETURNING *", *values, key)[0]

    def row(self, table: str, key: object) -> str:
        """The whole row as text, to compare before and after."""
        return str(self.run_sql(f"SELECT t::text AS row FROM livebox.{table} t WHERE id = %s", key)[0]["row"])

    def principal(self, kind: str) -> str:
        """A new principal's id."""
        policy = {"billing_mode": "organization", "tool_class": "standard"} if kind == "agent" else {}
        handle = f"{kind}-{uuid.uuid4().hex}"
        return str(self.insert("principals", kind=kind, handle=handle, display_name=handle, **policy)["id"])

    def thread(self) -> str:
        """A new thread's id."""
        return str(self.insert("threads", channel_id=self.channel)["id"])

    def message(self, thread: str | None = None, **columns: object) -> str:
        """A new message's id."""
        thread = thread or self.thread()
        number = self.run_sql("SELECT livebox.next_thread_seq(%s) AS n", thread)[0]["n"]
        given = {"author_id": self.person, "origin": "human", "body": "hello", **columns}
        return str(self.insert("messages", thread_id=thread, thread_seq=number, **given)["id"])

    def run(self, state: str = "queued", **columns: object) -> str:
        """A new run's id, brought to the state by the shortest path that starts it."""
        given = {"thread_id": self.thread(), "triggered_by": self.person, **new_run(self.agent), **columns}
        run = str(self.insert("runs", **given)["id"])
        for step in PATHS[state]:
            self.transition(run, step)
        return run

    def registered(self, **columns: object) -> str:
        """A new registered run's id."""
        return str(self.insert("runs", **registration(self.agent, self.person), **columns)["id"])

    def transition(self, run: str, state: str, **columns: object) -> dict[str, Any]:
        """Names the state and sets all that a transition to it needs."""
        changes: dict[str, object] = {
            "state": state,
            "state_reason": REASONS.get(state),
            "state_changed_at": Sql("livebox.clock()"),
            "version": Sql("version + 1"),
            "version_reserved": Sql("version_reserved + 1"),
            "question": None,
            "finished_at": Sql("livebox.clock()") if state in ENDED else None,
        }
        if state == "running":
            changes["started_at"] = Sql("coalesce(started_at, livebox.clock())")
        return self.update("runs", run, **(changes | columns))


class Sql(str):
    """A value that is an expression."""

    __slots__ = ()


def new_run(agent: str) -> dict[str, object]:
    """The columns that every new run in a thread needs, beside the thread and the person."""
    return {
        "id": Sql("livebox.new_id()"),
        "agent_id": agent,
        "state": "queued",
        "state_changed_at": QUEUED_AT,
        "trigger_kind": "message",
        "billing_mode_expected": "organization",
        "invocation_jti": Sql("gen_random_uuid()"),
        "queued_at": QUEUED_AT,
    }


def registration(agent: str, by: str) -> dict[str, object]:
    """The columns that every new registered run needs."""
    columns = new_run(agent) | {"trigger_kind": "registration", "registered_at": Sql("livebox.clock()")}
    columns.pop("invocation_jti")
    return columns | {"registered_by": by, "agents": Sql(f"ARRAY['{agent}'::uuid]")}


def _marks(columns: dict[str, object]) -> tuple[list[str], list[object]]:
    marks = [str(value) if isinstance(value, Sql) else "%s" for value in columns.values()]
    return marks, [value for value in columns.values() if not isinstance(value, Sql)]
