"""The test world with a voice: says things, takes work and looks at what was written."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from db import Answer, Caller, Database
from generated.validators import checker, response_errors
from livebox.world import World
from tests.fixtures.database import Session

LIMITS: Final = {
    "event.body_max_bytes": 4096,
    "run.followups_max": 3,
    "run.claim_lease": 60,
    "run.holder_grace": 60,
    "run.renew_grace": 60,
    "service.gap": 30,
    "run.cancel_timeout": 30,
    "run.max_steps_persisted": 20,
    "run.step_detail_max_bytes": 1024,
    "invocation.ttl": 900,
    "snapshot.channels_max": 1000,
    "snapshot.threads_max": 1000,
    "snapshot.messages_max": 1000,
    "snapshot.active_runs_max": 1000,
}
TOKEN: Final = ("run_id", "jti", "claim_id", "expires_at")
STATUS: Final = {"ok": 200, "created": 201, "accepted": 202}
OPERATION: Final = {"beat_run": "heartbeatRun"}
WRITTEN: Final = (
    "messages",
    "threads",
    "runs",
    "run_steps",
    "run_followups",
    "events",
    "audit_log",
    "message_revisions",
)


@dataclass(frozen=True)
class Outcome:
    """What an operation answered, its body decoded."""

    answer: Answer
    body: Any = None

    @property
    def code(self) -> str:
        return self.answer.code

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What it did, but for which live documents have to be looked at again: see `raised`."""
        return [effect for effect in self.answer.effects if effect["kind"] not in ("run.raised", "run.live")]

    @property
    def raised(self) -> list[str]:
        """The runs that got a new version, state or token."""
        return [run_id for effect in self.answer.effects if effect["kind"] == "run.raised" for run_id in effect["runs"]]


@dataclass
class Work:
    """A run that an agent took: what its token says, and what came with it."""

    agent: str
    invocation: dict[str, Any]
    item: dict[str, Any]

    @property
    def run_id(self) -> str:
        return str(self.invocation["run_id"])


@dataclass
class Stage:
    """The world, its database, and short words for what people and agents do there."""

    db: Database
    dsn: str
    world: World
    _marks: dict[str, int] = field(default_factory=dict)
    _session: Session = field(init=False)

    def __post_init__(self) -> None:
        self._session = Session(self.dsn)

    def close(self) -> None:
        """End the connection of `sql`."""
        self._session.close()

    # --- operations -------------------------------------------------------------------------------------------------

    async def write(self, operation: str, who: str, db: Database | None = None, **args: Any) -> Outcome:
        """A writing operation as that principal."""
        return _outcome(
            operation, await (db or self.db).lane.submit(operation, self.caller(who), {"limits": LIMITS, **args})
        )

    async def read(self, operation: str, who: str, **args: Any) -> Outcome:
        """A reading operation as that principal."""
        args = {"limits": LIMITS, "limit": 50, **args}
        return _outcome(operation, await self.db.readers.call(operation, self.caller(who), args))

    def caller(self, who: str) -> Caller:
        return self.world.caller(who)

    def id(self, name: str) -> str:
        """The id of a principal by its handle."""
        return self.world.principals[name]

    async def post(
        self, who: str, thread: str, *mentions: str, body: str = "hello", db: Database | None = None
    ) -> Outcome:
        """createMessage. `thread` is an id, or the name of a channel for its main thread."""
        request = {"body": body, "client_msg_id": str(uuid.uuid4())}
        if mentions:
            request["mentions"] = [self.world.principals.get(name, name) for name in mentions]
        thread = self.world.threads.get(thread, thread)
        return await self.write("create_message", who, db, thread_id=thread, body=request)

    async def say(self, who: str, thread: str, *mentions: str, body: str = "hello") -> dict[str, Any]:
        """createMessage that must pass: the message."""
        outcome = await self.post(who, thread, *mentions, body=body)
        assert outcome.code == "created", outcome
        return dict(outcome.body)

    async def thread(self, who: str, channel: str) -> str:
        """A new thread in the channel."""
        outcome = await self.write(
            "create_thread", who, channel_id=self.world.channels[channel], body={"title": "A thread"}
        )
        assert outcome.code == "created", outcome
        return str(outcome.body["id"])

    async def claim(
        self, agent: str, claim_id: str | None = None, limit: int = 1, db: Database | None = None
    ) -> list[Work]:
        """claimInvocations: what the agent got."""
        outcome = await self.write(
            "claim_invocations", agent, db, body={"claim_id": claim_id or str(uuid.uuid4()), "limit": limit}
        )
        assert outcome.code == "ok", outcome
        made = [effect for effect in outcome.effects if effect["kind"] == "invocation"]
        items = outcome.body["items"]
        return [Work(agent, {key: effect[key] for key in TOKEN}, items[effect["position"]]) for effect in made]

    async def control(
        self,
        operation: str,
        work: Work,
        body: Mapping[str, Any] | None = None,
        db: Database | None = None,
        **args: Any,
    ) -> Outcome:
        """An operation of run control under the work's token."""
        if body is not None:
            args["body"] = dict(body)
        return await self.write(operation, work.agent, db, run_id=work.run_id, invocation=work.invocation, **args)

    async def start(self, work: Work, **body: Any) -> Outcome:
        return await self.control("start_run", work, body or None)

    async def finish(self, work: Work, state: str = "completed", **body: Any) -> Outcome:
        return await self.control("finish_run", work, {"state": state, **body})

    async def step(self, work: Work, step_id: str | None = None, **body: Any) -> Outcome:
        given = {"kind": "tool", "name": "read", **body}
        return await self.control("record_run_step", work, given, step_id=step_id or str(uuid.uuid4()))

    async def ask(self, work: Work, prompt: str = "Which week?", **body: Any) -> Outcome:
        return await self.control("await_run_input", work, {"prompt": prompt, **body})

    async def resume(self, work: Work, question_id: str | None = None) -> Outcome:
        return await self.control("resume_run", work, {"question_id": question_id} if question_id else None)

    async def ack(self, work: Work, message: str) -> Outcome:
        return await self.control("ack_followup", work, message_id=message)

    async def beat(self, work: Work, *, cancel_seen: bool = False) -> Outcome:
        """heartbeatRun, but for the sign of life that the server gathers."""
        if not cancel_seen:
            seen = await self.read("heartbeat_run", work.agent, run_id=work.run_id, invocation=work.invocation)
            if not any(effect.get("first_use") for effect in seen.effects):
                return seen
        return await self.control("beat_run", work, {"cancel_seen": True} if cancel_seen else {})

    async def renew(self, work: Work) -> Work:
        """renewInvocationToken that must pass: the work under its new token."""
        outcome = await self.control("renew_invocation_token", work)
        assert outcome.code == "ok", outcome
        (effect,) = outcome.effects
        return Work(work.agent, {key: effect[key] for key in TOKEN}, work.item)

    async def cancel(self, who: str, run: str, db: Database | None = None) -> Outcome:
        return await self.write("cancel_run", who, db, run_id=run)

    async def run(self, who: str, run: str) -> Outcome:
        return await self.read("get_run", who, run_id=run)

    # --- scenes -----------------------------------------------------------------------------------------------------

    async def queued(self, who: str = "alex", channel: str = "Support/General", agent: str = "lotse") -> dict[str, Any]:
        """A message in a thread of its own that opened a run: the message; `run` is the row."""
        thread = await self.thread("owner", channel)
        message = await self.say(who, thread, agent)
        assert message["trigger_state"] == "received", message
        return message

    async def working(
        self, who: str = "alex", channel: str = "Support/General", agent: str = "lotse"
    ) -> tuple[dict[str, Any], Work]:
        """A message and the started work that it opened."""
        message = await self.queued(who, channel, agent)
        (work,) = await self.claim(agent)
        assert (await self.start(work)).code == "ok"
        return message, work

    async def waiting(
        self, who: str = "alex", channel: str = "Support/General", agent: str = "lotse"
    ) -> tuple[dict[str, Any], Work]:
        """A message and the work that it opened, which waits for an answer."""
        message, work = await self.working(who, channel, agent)
        assert (await self.ask(work)).code == "ok"
        return message, work

    def wait(self, run: str) -> None:
        """Brings a running run to waiting_input by the rows' own rules alone."""
        self.sql(
            "UPDATE livebox.runs SET state = 'waiting_input', state_changed_at = livebox.clock(), "
            "version = version + 1, version_reserved = version_reserved + 1 WHERE id = %s",
            run,
        )

    def later(self, seconds: float) -> None:
        """Moves the database's clock on from the true time; the service was there all the while."""
        self.sql(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE "
            f"AS $$ SELECT clock_timestamp() + interval '{seconds} seconds' $$"
        )
        self.sql("UPDATE livebox.service SET touched_at = livebox.clock()")

    def disable(self, who: str) -> None:
        """Disables a principal by its row alone."""
        self.sql("UPDATE livebox.principals SET status = 'disabled', version = version + 1 WHERE id = %s", self.id(who))

    # --- what was written -------------------------------------------------------------------------------------------

    def sql(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Plain SQL on this database."""
        with self._session.cursor() as cursor:
            cursor.execute(statement, values or None)
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def runs(self, thread: str) -> list[dict[str, Any]]:
        """The runs of a thread, oldest first."""
        return self.sql("SELECT * FROM livebox.runs WHERE thread_id = %s ORDER BY queued_at, id", thread)

    def row(self, run: str) -> dict[str, Any]:
        """The row of a run."""
        return self.sql("SELECT * FROM livebox.runs WHERE id = %s", run)[0]

    def image(self, run: str) -> str:
        """All that is stored of a run, as text: equal only when nothing at all has changed."""
        (found,) = self.sql(
            "SELECT jsonb_build_array(to_jsonb(r), (SELECT jsonb_agg(to_jsonb(s) ORDER BY s.ordinal) FROM livebox.run_steps s"
            " WHERE s.run_id = r.id), (SELECT jsonb_agg(to_jsonb(f) ORDER BY f.position) FROM livebox.run_followups f"
            " WHERE f.run_id = r.id), (SELECT jsonb_agg(to_jsonb(m) ORDER BY m.thread_seq) FROM livebox.messages m"
            " WHERE m.thread_id = r.thread_id))::text AS image FROM livebox.runs r WHERE r.id = %s",
            run,
        )
        return str(found["image"])

    def followups(self, run: str) -> list[tuple[str, str]]:
        """The follow-ups of a run in order: message and state."""
        rows = self.sql("SELECT * FROM livebox.run_followups WHERE run_id = %s ORDER BY position", run)
        return [(row["message_id"], row["state"]) for row in rows]

    def message(self, message: str) -> dict[str, Any]:
        """The row of a message."""
        return self.sql("SELECT * FROM livebox.messages WHERE id = %s", message)[0]

    def audit(self) -> list[tuple[str, str, str]]:
        """Who was denied what and why, oldest first."""
        found = self.sql(
            "SELECT p.handle, a.action, a.reason FROM livebox.audit_log a "
            "JOIN livebox.principals p ON p.id = a.principal_id ORDER BY a.at, a.id"
        )
        return [(row["handle"], row["action"], row["reason"]) for row in found]

    def mark(self) -> None:
        """Remembers how much there is of everything."""
        self._marks = self._counts()

    def written(self) -> dict[str, int]:
        """How many rows came since the mark, by table; nothing for tables that got none."""
        now = self._counts()
        return {table: now[table] - self._marks[table] for table in WRITTEN if now[table] != self._marks[table]}

    def events(self) -> list[dict[str, Any]]:
        """The events since the mark."""
        return self.sql("SELECT * FROM livebox.events ORDER BY seq OFFSET %s", self._marks.get("events", 0))

    def event_types(self) -> list[str]:
        """The types of the events since the mark; a run's with its state, a message's with its trigger state."""
        return [_named(event) for event in self.events()]

    def _counts(self) -> dict[str, int]:
        union = " UNION ALL ".join(f"SELECT '{table}' AS name, count(*) AS n FROM livebox.{table}" for table in WRITTEN)
        return {row["name"]: row["n"] for row in self.sql(union)}


def _outcome(operation: str, answer: Answer) -> Outcome:
    """Decodes an answer; a body that breaks the contract fails the test, whichever test it is."""
    body = json.loads(answer.body) if answer.body else None
    if answer.code in STATUS:
        name = OPERATION.get(operation) or re.sub(r"_(\w)", lambda match: match[1].upper(), operation)
        assert response_errors(name, STATUS[answer.code], _as_sent(operation, body)) == [], operation
    elif body is not None:
        assert set(body) <= {"errors", "current", "detail"}, operation
        for error in body.get("errors", []):
            assert checker("/schemas/FieldError")(error) == []
        if "current" in body:
            assert checker("/schemas/RunPosition")(body["current"]) == []
    return Outcome(answer, body)


def _as_sent(operation: str, body: Any) -> Any:
    """A claim gets its tokens outside of the database."""
    if operation == "renew_invocation_token":
        return {**body, "token": "x"}
    if operation != "claim_invocations":
        return body
    return {**body, "items": [{**item, "token": "x"} for item in body["items"]]}


def _named(event: dict[str, Any]) -> str:
    payload = event["payload"]
    if event["type"] == "run.state_changed":
        return f"run.state_changed {payload['run']['state']}"
    if event["type"] == "message.updated":
        return f"message.updated {payload['message'].get('trigger_state')}"
    if event["type"] == "message.created":
        return f"message.created {payload['message']['kind']}"
    return str(event["type"])
