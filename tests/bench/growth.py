"""How the time of an operation grows with what is there: runs of its thread, events of the log."""

from __future__ import annotations

import json
import math
import statistics
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final

import psycopg2

from tests.bench.machine import session_seconds
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread
from tests.bench.stage import AGENT, ASKER, FIRST, LIMITS, ROOM, Stage, run_id

EXPONENT: Final = 0.05
THREAD: Final = "00000000-0007-7000-8000-000000000000"
_LIMITS: Final = LIMITS | {"run.followups_max": 20}
_PAGE: Final = 50

_THREAD: Final = """
SET LOCAL session_replication_role = replica;
INSERT INTO livebox.threads (id, channel_id, title, created_by, last_thread_seq)
SELECT %(thread)s, %(channel)s, 'Bench', %(asker)s, %(runs)s * 2 + %(events)s;
INSERT INTO livebox.messages (id, thread_id, author_id, origin, body, trigger_state, trigger_state_at, thread_seq, created_at)
SELECT ('00000000-0002-7000-8000-' || n)::uuid, %(thread)s, %(asker)s, 'human', 'Please look at the folder.', 'done', t.at,
       (n - %(first)s) * 2 + 1, t.at
  FROM generate_series(%(first)s, %(last)s) AS n, LATERAL (SELECT livebox.clock() - (%(last)s - n + 1) * interval '1 s' AS at) AS t;
INSERT INTO livebox.messages (id, thread_id, author_id, origin, kind, body, silent, run_id, thread_seq, created_at)
SELECT ('00000000-0003-7000-8000-' || n)::uuid, %(thread)s, %(agent)s, 'agent', 'run', '', true,
       ('00000000-0004-7000-8000-' || n)::uuid, (n - %(first)s) * 2 + 2, t.at
  FROM generate_series(%(first)s, %(last)s) AS n, LATERAL (SELECT livebox.clock() - (%(last)s - n + 1) * interval '1 s' AS at) AS t;
INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, state_changed_by, trigger_kind,
                          triggering_message_id, triggered_by, billing_mode_expected, invocation_jti, queued_at, started_at,
                          finished_at, version, version_reserved)
SELECT ('00000000-0004-7000-8000-' || n)::uuid, %(thread)s, %(agent)s, 'completed', t.at, %(agent)s, 'message',
       ('00000000-0002-7000-8000-' || n)::uuid, %(asker)s, 'organization', ('00000000-0005-7000-8000-' || n)::uuid,
       t.at, t.at, t.at, 3, 3
  FROM generate_series(%(first)s, %(last)s) AS n, LATERAL (SELECT livebox.clock() - (%(last)s - n + 1) * interval '1 s' AS at) AS t;
INSERT INTO livebox.events (seq, type, at, actor_id, space_id, channel_id, thread_id, thread_seq, resource_kind, resource_id,
                            resource_version, receive_action, payload)
SELECT nextval('livebox.event_seq'), 'run.state_changed', livebox.clock(), %(agent)s, c.space_id, c.id, %(thread)s,
       %(runs)s * 2 + n, 'run', r.id, 2, 'run.read',
       jsonb_build_object('run', jsonb_build_object('id', r.id, 'thread_id', %(thread)s, 'channel_id', c.id,
                                                    'agent_id', %(agent)s, 'state', 'running', 'version', 2))
  FROM generate_series(1, %(events)s) AS n
 CROSS JOIN LATERAL (SELECT '00000000-0004-7000-8000-' || (%(first)s + n %% %(runs)s) AS id) AS r
  JOIN livebox.channels c ON c.id = %(channel)s;
"""

Timed = Callable[[Any], tuple[str, list[Any]]]


class Place:
    """One size: a database with a thread of so many runs and a log of so many events, and a session in it."""

    def __init__(self, stage: Stage, runs: int, events: int) -> None:
        self.runs, self.events = runs, events
        self._stage = stage
        who = {"channel": stage.world.channels[ROOM], "asker": stage.id(ASKER), "agent": stage.id(AGENT)}
        size = {"thread": THREAD, "runs": runs, "events": events, "first": FIRST, "last": FIRST + runs - 1}
        stage.run(_THREAD, who | size)
        stage.settle()
        self.connection = psycopg2.connect(stage.dsn)
        self._pid = self.connection.get_backend_pid()
        self.times: dict[str, list[float]] = {}

    def sample(self, turn: int) -> None:
        """Time each operation once, by the CPU time of its session; what it wrote is undone."""
        some = run_id(FIRST + turn * 7919 % self.runs)
        with self.connection.cursor() as cursor:
            message = {"body": "Please look at the folder.", "client_msg_id": str(uuid.uuid4())}
            create = {"thread_id": THREAD, "body": message, "request_hash": "0" * 64, "limits": _LIMITS}
            self._time(cursor, "create", "perform('create_message', %s, %s)", ASKER, create)
            self._time(cursor, "append", "perform('start_run', %s, %s)", AGENT, self._start(cursor))
            self._time(cursor, "get", "get_run(%s, %s)", ASKER, {"run_id": some})
            page = {"thread_id": THREAD, "limit": _PAGE}
            self._time(cursor, "list runs", "list_thread_runs(%s, %s)", ASKER, page)
            self._time(cursor, "list messages", "list_thread_messages(%s, %s)", ASKER, page)
            self._time(cursor, "list active runs", "list_active_runs(%s, %s)", ASKER, {"limit": _PAGE})
            after = {"after": turn * 7919 % (self.events - _PAGE), "limit": _PAGE}
            self._time(cursor, "list events", "list_events(%s, %s)", ASKER, after)
        self.connection.rollback()

    def typical(self, name: str) -> float:
        """The lower quartile of an operation's times in seconds: what it takes when nothing disturbs it."""
        return statistics.quantiles(self.times[name], n=4)[0]

    def _start(self, cursor: Any) -> dict[str, Any]:
        cursor.execute(
            "SELECT id::text, invocation_jti::text FROM livebox.runs WHERE thread_id = %s AND state = 'queued'",
            (THREAD,),
        )
        run, jti = cursor.fetchone()
        invocation = {"run_id": run, "jti": jti, "claim_id": str(uuid.uuid4())}
        return {"run_id": run, "invocation": invocation, "body": {}, "limits": LIMITS}

    def _time(self, cursor: Any, name: str, call: str, who: str, args: dict[str, Any]) -> None:
        values = (json.dumps({"principal": self._stage.id(who)}), json.dumps(args))
        begun = session_seconds(self._pid)
        cursor.execute(f"SELECT code, body FROM livebox.{call}", values)
        spent = session_seconds(self._pid) - begun
        code, body = cursor.fetchone()
        if code not in ("ok", "created"):
            raise RuntimeError(f"{name} was refused: {code} {body}")
        self.times.setdefault(name, []).append(spent)


def measure(copy: Callable[[str], Stage], plan: Plan) -> Findings:
    """``copy`` gives a fresh database with the world under a name."""
    with ExitStack() as stack:
        places = []
        for runs, events in plan.growth:
            place = Place(copy(f"growth_{runs}"), runs, events)
            stack.enter_context(closing(place.connection))
            places.append(place)
        exponents = _rounds(places, plan)
        small, large = places[0], places[-1]
        rows = [
            Row(
                f"growth of {name}, exponent",
                f"events {small.events:,} to {large.events:,}"
                if _by_events(name)
                else f"runs {small.runs:,} to {large.runs:,}",
                Spread.of(found),
                at_most=EXPONENT,
            )
            for name, found in exponents.items()
        ]
        details = [
            Detail(
                f"growth, per CPU second: {name}, {place.runs:,} runs, {place.events:,} events",
                Rate(1 / place.typical(name)),
            )
            for name in exponents
            for place in (small, large)
        ]
    return Findings(rows, details)


def _rounds(places: Sequence[Place], plan: Plan) -> dict[str, list[float]]:
    """The exponents of each operation, one per round."""
    exponents: dict[str, list[float]] = {}
    turn = 0
    for number in range(plan.rounds + 1):
        for place in places:
            place.times.clear()
        for _ in range(plan.samples):
            turn += 1
            for place in places:
                place.sample(turn)
        if number == 0:
            continue  # sessions filled their caches
        for name in places[0].times:
            sizes = [place.events if _by_events(name) else place.runs for place in places]
            exponents.setdefault(name, []).append(_exponent(sizes, [place.typical(name) for place in places]))
    return exponents


def _by_events(name: str) -> bool:
    return name in ("append", "list events")


def _exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of log(time) over log(size)."""
    slope: float = statistics.linear_regression([math.log(s) for s in sizes], [math.log(t) for t in times]).slope
    return slope
