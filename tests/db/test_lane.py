"""The write lane: what a caller is told about its operation is what became of it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2.extras import wait_select

from db import Answer, Caller, Database, DatabaseUnavailable, InternalError, Overloaded, StatementTimeout
from db.lane import Lane
from tests.fixtures.operations import add_person
from tests.fixtures.waiting import eventually

LOCK = 4711


@asynccontextmanager
async def running(lane: Lane) -> AsyncIterator[Lane]:
    await lane.start()
    try:
        yield lane
    finally:
        await lane.stop()


@contextmanager
def held(dsn: str, statement: str) -> Iterator[Any]:
    """A session that has run the statement in a transaction it keeps open."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        yield connection


def ask(sql: Any, statement: str, *values: object) -> list[Any]:
    with sql.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def applied(sql: Any) -> list[str]:
    return [key for (key,) in ask(sql, "SELECT key FROM livebox.t_applied ORDER BY number")]


def blocked(sql: Any) -> bool:
    """Does the lane wait for a lock?"""
    return bool(
        ask(
            sql,
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'livebox lane' "
            "AND wait_event_type = 'Lock'",
        )
    )


async def behind(
    lane: Lane, sql: Any, dsn: str, ada: Caller, operations: list[tuple[str, dict[str, Any]]]
) -> list[Any]:
    """Runs the operations as one batch: they gather while the lane waits for a lock that is then let go."""
    with held(dsn, f"SELECT pg_advisory_lock({LOCK})"):
        first = asyncio.create_task(lane.submit("t_apply", ada, {"key": "first", "lock": LOCK}))
        await eventually(lambda: blocked(sql), "the wait for the lock")
        tasks = [asyncio.create_task(lane.submit(name, ada, args)) for name, args in operations]
        await asyncio.sleep(0)
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_answer_carries_all_that_the_operation_said(db: Database, ada: Caller) -> None:
    answer = await db.lane.submit("t_apply", ada, {"key": "k"})
    assert answer == Answer("created", b'{"key": "k"}', 1, "thing", "k", None, [{"kind": "applied"}])


async def test_a_refusal_is_an_answer_and_undoes_nothing_of_others(db: Database, sql: Any, ada: Caller) -> None:
    outcomes = await behind(
        db.lane, sql, db.dsn, ada, [("t_apply", {"key": "a"}), ("t_refuse", {}), ("t_apply", {"key": "b"})]
    )
    assert [outcome.code for outcome in outcomes] == ["created", "forbidden", "created"]
    assert outcomes[1].body == b'{"detail": "no"}'
    assert applied(sql) == ["first", "a", "b"]


async def test_what_is_not_known_or_not_active_is_refused(db: Database, sql: Any, ada: Caller) -> None:
    bob = add_person(sql, "bob")
    assert (await db.lane.submit("t_apply", bob, {"key": "k"})).code == "created"
    ask(sql, "UPDATE livebox.principals SET status = 'disabled', version = 2 WHERE handle = 'bob' RETURNING 1")
    assert (await db.lane.submit("t_apply", bob, {"key": "k"})).code == "invalid_token"
    nobody = Caller("00000000-0000-7000-8000-000000000000")
    assert (await db.lane.submit("t_apply", nobody, {"key": "k"})).code == "invalid_token"
    with pytest.raises(InternalError):
        await db.lane.submit("t_no_such_operation", ada, {})


async def test_one_batch_is_one_commit(db: Database, sql: Any, ada: Caller) -> None:
    sizes: list[int] = []
    db.lane.on_batch = lambda size, waits: sizes.append(size) if len(waits) == size and min(waits) >= 0 else None
    outcomes = await behind(db.lane, sql, db.dsn, ada, [("t_apply", {"key": f"{n:03}"}) for n in range(100)])
    assert {outcome.code for outcome in outcomes} == {"created"}
    assert sizes == [1, 64, 36]
    assert applied(sql) == ["first", *(f"{n:03}" for n in range(100))]
    assert ask(sql, "SELECT count(*), count(DISTINCT xmin::text) FROM livebox.t_applied") == [(101, 3)]


async def test_poison_in_a_batch_of_64_hurts_only_itself(db: Database, sql: Any, ada: Caller) -> None:
    operations = [("t_apply", {"key": f"{n:03}"}) for n in range(64)]
    operations[17] = ("t_raise", {})
    operations[40] = ("t_raise", {"state": "LB101"})
    outcomes = await behind(db.lane, sql, db.dsn, ada, operations)
    assert isinstance(outcomes[17], InternalError)
    assert outcomes[17].sqlstate == "P0001"
    assert "secret" not in str(outcomes[17])
    assert outcomes[40] == Answer("invalid_state_transition")
    good = [outcome for n, outcome in enumerate(outcomes) if n not in (17, 40)]
    assert {outcome.code for outcome in good} == {"created"}
    assert len(applied(sql)) == len(set(applied(sql))) == 63


async def test_a_slow_operation_times_out_alone(database_dsn: str, sql: Any, ada: Caller) -> None:
    async with running(Lane(database_dsn, statement_timeout=0.3)) as lane:
        outcomes = await behind(
            lane,
            sql,
            database_dsn,
            ada,
            [("t_apply", {"key": "a"}), ("t_sleep", {"seconds": 60}), ("t_apply", {"key": "b"})],
        )
        assert [type(outcome) for outcome in outcomes] == [Answer, StatementTimeout, Answer]
        assert applied(sql) == ["first", "a", "b"]
        assert (await lane.submit("t_apply", ada, {"key": "c"})).code == "created"


async def test_nobody_waits_for_the_time_of_many_that_are_slow(database_dsn: str, sql: Any, ada: Caller) -> None:
    """One by one they would take sixty times as long as anybody is to wait for an answer."""
    async with running(Lane(database_dsn, statement_timeout=0.2, patience=0.2)) as lane:
        outcomes = await behind(
            lane, sql, database_dsn, ada, [("t_sleep", {"seconds": 60})] * 5 + [("t_apply", {"key": "never"})]
        )
        assert {type(outcome) for outcome in outcomes} == {StatementTimeout, Overloaded}
        assert isinstance(outcomes[0], StatementTimeout)
        assert isinstance(outcomes[-1], Overloaded)
        assert (await lane.submit("t_apply", ada, {"key": "later"})).code == "created"
        assert applied(sql) == ["first", "later"]


async def test_the_time_a_batch_may_take_grows_with_it(database_dsn: str, sql: Any, ada: Caller) -> None:
    """Each fits its own time, all of them together do not."""
    async with running(Lane(database_dsn, statement_timeout=0.4)) as lane:
        sizes: list[int] = []
        lane.on_batch = lambda size, _: sizes.append(size)
        outcomes = await behind(lane, sql, database_dsn, ada, [("t_sleep", {"seconds": 0.2})] * 4)
        assert [outcome.code for outcome in outcomes] == ["ok"] * 4
        assert sizes == [1, 4]


async def test_a_caller_that_went_away_stops_nothing_that_was_sent(db: Database, sql: Any, ada: Caller) -> None:
    counted: list[Any] = []
    db.lane.on_effects = counted.extend
    with held(db.dsn, f"SELECT pg_advisory_lock({LOCK})"):
        sent = asyncio.create_task(db.lane.submit("t_apply", ada, {"key": "sent", "lock": LOCK}))
        await eventually(lambda: blocked(sql), "the wait for the lock")
        waiting = asyncio.create_task(db.lane.submit("t_apply", ada, {"key": "waiting"}))
        await asyncio.sleep(0)
        for task in (sent, waiting):
            task.cancel()
        await asyncio.wait([sent, waiting])
    assert (await db.lane.submit("t_apply", ada, {"key": "next"})).code == "created"
    assert applied(sql) == ["sent", "next"]
    assert len(counted) == 2


async def test_five_hundred_callers_that_go_away_leave_no_transaction(db: Database, sql: Any, ada: Caller) -> None:
    tasks = [asyncio.create_task(db.lane.submit("t_apply", ada, {"key": str(n)})) for n in range(500)]
    tasks += [asyncio.create_task(db.readers.ping()) for _ in range(500)]
    for turn, task in enumerate(tasks):
        task.cancel() if turn % 3 else None
        if turn % 50 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (await db.lane.submit("t_apply", ada, {"key": "last"})).code == "created"
    await db.ping()
    # Of this database only: others on the server are at work too, and a batch is a transaction while it is on its way.
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    await eventually(lambda: ask(sql, idle) == [(0,)])
    keys = applied(sql)
    assert len(keys) == len(set(keys))
    assert {str(n) for n in range(0, 500, 3)} <= set(keys)


async def test_principals_take_turns(database_dsn: str, sql: Any, ada: Caller) -> None:
    bob = add_person(sql, "bob")
    async with running(Lane(database_dsn, batch_max=4)) as lane:
        with held(database_dsn, f"SELECT pg_advisory_lock({LOCK})"):
            tasks = [asyncio.create_task(lane.submit("t_apply", ada, {"key": "first", "lock": LOCK}))]
            await eventually(lambda: blocked(sql), "the wait for the lock")
            tasks += [asyncio.create_task(lane.submit("t_apply", ada, {"key": f"ada {n}"})) for n in range(20)]
            tasks += [asyncio.create_task(lane.submit("t_apply", bob, {"key": f"bob {n}"})) for n in range(2)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    assert applied(sql)[:6] == ["first", "ada 0", "bob 0", "ada 1", "bob 1", "ada 2"]


async def test_a_full_line_is_said_at_once(database_dsn: str, sql: Any, ada: Caller) -> None:
    async with running(Lane(database_dsn, queue_max=2)) as lane:
        with held(database_dsn, f"SELECT pg_advisory_lock({LOCK})"):
            tasks = [asyncio.create_task(lane.submit("t_apply", ada, {"key": "first", "lock": LOCK}))]
            await eventually(lambda: blocked(sql), "the wait for the lock")
            tasks += [asyncio.create_task(lane.submit("t_apply", ada, {"key": str(n)})) for n in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(Overloaded):
                await lane.submit("t_apply", ada, {"key": "too much"})
        await asyncio.gather(*tasks)
    assert applied(sql) == ["first", "0", "1"]


async def test_what_waited_too_long_is_not_begun(database_dsn: str, sql: Any, ada: Caller) -> None:
    """A lock that others hold for long must not make everybody behind it wait as long again."""
    async with running(Lane(database_dsn, patience=1)) as lane:
        with held(database_dsn, f"SELECT pg_advisory_lock({LOCK})"):
            first = asyncio.create_task(lane.submit("t_apply", ada, {"key": "first", "lock": LOCK}))
            await eventually(lambda: blocked(sql), "the wait for the lock")
            late = [asyncio.create_task(lane.submit("t_apply", ada, {"key": str(n)})) for n in range(100)]
            since = time.monotonic()
            await eventually(lambda: time.monotonic() > since + 1, "the end of their patience")
        assert (await first).code == "created"
        outcomes = await asyncio.gather(*late, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Overloaded}
        assert applied(sql) == ["first"]


async def test_a_log_lock_that_cannot_be_had_is_tried_again_then_given_up(
    database_dsn: str, sql: Any, ada: Caller
) -> None:
    async with running(Lane(database_dsn, patience=0.1)) as lane:
        with held(database_dsn, "SELECT livebox.lock_log()"), pytest.raises(Overloaded):
            await lane.submit("t_append", ada, {})
        assert (await lane.submit("t_append", ada, {})).code == "ok"
    async with running(Lane(database_dsn, patience=60)) as lane:
        tries = 0
        fetch = lane._connection.fetch

        async def counted(*values: Any, **more: Any) -> list[Any]:
            nonlocal tries
            tries += 1
            return await fetch(*values, **more)

        lane._connection.fetch = counted  # type: ignore[method-assign]
        with held(database_dsn, "SELECT livebox.lock_log()"):
            task = asyncio.create_task(lane.submit("t_append", ada, {}))
            await eventually(lambda: tries > 1, "a second try")
        assert (await task).code == "ok"


async def test_a_deadlock_is_run_again(db: Database, sql: Any, ada: Caller) -> None:
    """The other side waits for what the lane holds, and the lane for what the other side holds."""
    ask(sql, "SET deadlock_timeout = '10ms'; SELECT 1")
    with held(db.dsn, f"SET deadlock_timeout = '1h'; SELECT pg_advisory_xact_lock({LOCK})") as other:
        task = asyncio.create_task(db.lane.submit("t_apply", ada, {"key": "k", "lock": LOCK}))
        await eventually(lambda: blocked(sql), "the wait for the lock")
        with other.cursor() as cursor:
            cursor.execute("SELECT livebox.lock_log()")  # let in when PostgreSQL has ended the lane's part
        other.rollback()
    assert (await task).code == "created"
    assert applied(sql) == ["k"]


async def test_who_follows_the_log_is_told_how_far_it_goes(db: Database, sql: Any, ada: Caller) -> None:
    told: list[int | None] = []
    db.lane.on_commit = told.append
    await db.lane.submit("t_append", ada, {})
    await db.lane.submit("t_refuse", ada, {})
    await db.lane.submit("t_append", ada, {})
    seqs = [seq for (seq,) in ask(sql, "SELECT seq FROM livebox.events ORDER BY seq")]
    assert told == [seqs[0], None, seqs[1]]


async def test_a_hook_that_fails_harms_no_write(db: Database, ada: Caller) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    db.lane.on_batch = db.lane.on_commit = db.lane.on_effects = fail
    for key in ("a", "b"):
        assert (await db.lane.submit("t_apply", ada, {"key": key})).code == "created"


async def test_stopping_commits_what_was_accepted(database_dsn: str, sql: Any, ada: Caller) -> None:
    lane = Lane(database_dsn)
    await lane.start()
    tasks = [asyncio.create_task(lane.submit("t_apply", ada, {"key": str(n)})) for n in range(200)]
    await asyncio.sleep(0)
    await lane.stop()
    assert {(await task).code for task in tasks} == {"created"}
    assert len(applied(sql)) == 200
    with pytest.raises(DatabaseUnavailable):
        await lane.submit("t_apply", ada, {"key": "late"})
    async with running(lane):
        assert (await lane.submit("t_apply", ada, {"key": "again"})).code == "created"


async def test_the_record_of_a_batch_gives_the_same_answers(db: Database, sql: Any, ada: Caller) -> None:
    """Whatever an answer holds: settling from the record must not be told apart."""
    operations = [
        ("t_apply", {"key": 'é "q" \\ \u2028'}),
        ("t_refuse", {}),
        ("t_append", {}),
        ("t_sleep", {"seconds": 0}),
    ]
    await behind(db.lane, sql, db.dsn, ada, operations)
    (batch,) = ask(sql, "SELECT batch::text FROM livebox.lane_batches ORDER BY created_at DESC LIMIT 1")[0]
    text = ask(sql, "SELECT answers::text FROM livebox.lane_batches WHERE batch = %s", batch)
    assert "null" not in text[0][0]
    settled = ask(sql, "SELECT * FROM livebox.settle(%s)", batch)
    assert [row[1] for row in settled] == ["created", "forbidden", "ok", "ok"]
    assert settled[0][1:] == (
        "created",
        '{"key": "é \\"q\\" \\\\ \u2028"}',
        1,
        "thing",
        'é "q" \\ \u2028',
        None,
        [{"kind": "applied"}],
        settled[2][8],
    )
    assert ask(sql, "SELECT * FROM livebox.settle(gen_random_uuid())") == []


async def test_old_records_are_pruned_and_young_ones_never(db: Database, sql: Any, ada: Caller) -> None:
    await db.lane.submit("t_refuse", ada, {})
    await db.lane.submit("t_refuse", ada, {})
    ask(
        sql,
        "UPDATE livebox.lane_batches SET created_at = created_at - interval '2 hours' "
        "WHERE batch = (SELECT min(batch::text)::uuid FROM livebox.lane_batches) RETURNING 1",
    )
    assert await db.prune_batches(0) == 1
    assert ask(sql, "SELECT count(*) FROM livebox.lane_batches") == [(1,)]


async def test_a_key_that_was_used_answers_with_what_it_made(db: Database, sql: Any, ada: Caller) -> None:
    replace_resource_answer(sql)
    first = {"key": "made", "idempotency": {"key": "K", "hash": "1"}}
    assert (await db.lane.submit("t_apply", ada, first)).code == "created"
    again = await db.lane.submit("t_apply", ada, first)
    assert (again.code, again.body) == ("created", b'"made"')
    other = await db.lane.submit("t_apply", ada, first | {"idempotency": {"key": "K", "hash": "2"}})
    assert other.code == "idempotency_key_reused"
    hidden = {"key": "hidden", "idempotency": {"key": "H", "hash": "1"}}
    assert (await db.lane.submit("t_apply", ada, hidden)).code == "created"
    for hash_ in ("1", "2"):
        answer = await db.lane.submit("t_apply", ada, hidden | {"idempotency": {"key": "H", "hash": hash_}})
        assert answer.code == "not_found"
    refused = {"idempotency": {"key": "R", "hash": "1"}}
    assert (await db.lane.submit("t_refuse", ada, refused)).code == "forbidden"
    assert applied(sql) == ["made", "hidden"]
    assert ask(sql, "SELECT key FROM livebox.idempotency_keys ORDER BY key") == [("H",), ("K",)]
    bob = add_person(sql, "bob")
    assert (await db.lane.submit("t_apply", bob, first)).code == "created"
    assert applied(sql) == ["made", "hidden", "made"]


def replace_resource_answer(sql: Any) -> list[Any]:
    """Puts a stand-in for the real one, whatever its parameters are called."""
    names = ask(sql, "SELECT proargnames FROM pg_proc WHERE proname = 'resource_answer'")[0][0]
    return ask(
        sql,
        f"CREATE OR REPLACE FUNCTION livebox.resource_answer({names[0]} jsonb, {names[1]} text, {names[2]} text) "
        "RETURNS livebox.answer LANGUAGE sql STABLE AS $$ "
        "SELECT CASE WHEN $3 = 'hidden' THEN livebox.refused('not_found') "
        "ELSE livebox.done('ok', to_jsonb($3)) END $$; SELECT 1",
    )


async def test_two_lanes_with_the_same_key_make_one_thing(database_dsn: str, sql: Any, ada: Caller) -> None:
    replace_resource_answer(sql)
    async with running(Lane(database_dsn)) as one, running(Lane(database_dsn)) as two:
        args = {"key": "made", "idempotency": {"key": "K", "hash": "1"}}
        answers = await asyncio.gather(*((one, two)[n % 2].submit("t_apply", ada, args) for n in range(30)))
    assert {answer.code for answer in answers} == {"created"}
    assert applied(sql) == ["made"]


async def test_a_process_that_takes_no_answers_keeps_no_other_from_writing(db: Database, sql: Any, ada: Caller) -> None:
    """It is frozen, or cut off, at the moment when the answers of its batch come: more than fit on the way to it."""
    ask(
        sql,
        "CREATE FUNCTION livebox.t_long(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE sql AS $$"
        " SELECT livebox.done('ok', jsonb_build_object('text', repeat('x', 10000000))) $$; SELECT 1",
    )
    batch = str(uuid.uuid4())
    operation = json.dumps([{"op": "t_long", "caller": ada.document(), "args": {}}])
    with closing(psycopg2.connect(db.dsn, async_=True)) as frozen:
        wait_select(frozen)
        frozen.cursor().execute("SELECT * FROM livebox.execute(%s, %s)", (batch, operation))  # and nobody reads
        await eventually(
            lambda: (
                ask(sql, "SELECT FROM pg_locks WHERE pid = %s AND locktype = 'advisory'", frozen.get_backend_pid())
                or ask(sql, "SELECT FROM livebox.lane_batches WHERE batch = %s", batch)
            ),
            "its turn",
        )
        assert (await db.lane.submit("t_apply", ada, {"key": "k"})).code == "created"
        assert ask(sql, "SELECT FROM livebox.lane_batches WHERE batch = %s", batch)

    answer = await db.lane.submit("t_long", ada, {})
    assert answer.body is not None
    assert len(answer.body) > 10000000


async def test_long_answers_whose_record_is_gone_are_not_given_by_doing_it_again(
    db: Database, sql: Any, ada: Caller
) -> None:
    ask(
        sql,
        "CREATE FUNCTION livebox.t_forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " DELETE FROM livebox.lane_batches WHERE batch = NEW.batch; RETURN NULL; END $$;"
        " CREATE TRIGGER t_forget AFTER INSERT ON livebox.lane_batches"
        " FOR EACH ROW EXECUTE FUNCTION livebox.t_forget(); SELECT 1",
    )
    with pytest.raises(DatabaseUnavailable):
        await db.lane.submit("t_apply", ada, {"key": "k" * 10000})
    assert applied(sql) == ["k" * 10000]
