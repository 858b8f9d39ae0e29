"""Too much at once is refused early and politely, hits who causes it, and readiness tells the truth about it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import pytest_asyncio
from psycopg2.extensions import make_dsn, parse_dsn

from tests.fixtures.server import Client, Clients, Got, Live, client_session, live_server
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy

QUEUE = 6


@pytest.fixture
def small(world_copy: WorldCopy, tmp_path: Path) -> Iterator[Live]:
    """A server in whose lane little can wait."""
    with live_server(world_copy, tmp_path, lane__queue_max=QUEUE, jobs__reap_interval=3600) as live:
        yield live


@pytest_asyncio.fixture
async def small_clients(small: Live) -> AsyncIterator[Clients]:
    """Clients of it."""
    async with client_session() as session:
        yield Clients(session, small)


@contextmanager
def held(live: Live) -> Iterator[Any]:
    """Somebody else holds the lock of the log."""
    with closing(psycopg2.connect(live.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT livebox.lock_log()")
        yield other


def post(client: Client, live: Live, key: str) -> asyncio.Task[Got]:
    body = {"body": "Good morning", "client_msg_id": key}
    thread = live.world.threads["Support/General"]
    return asyncio.create_task(client.post(f"/v1/threads/{thread}/messages", body))


def waiting(live: Live) -> int:
    return len(live.app.database.lane._queue)


async def full(client: Client, live: Live) -> list[asyncio.Task[Got]]:
    """Requests of one client that fill the lane: one is under way, the others wait."""
    tasks = [post(client, live, str(uuid.uuid4()))]
    await eventually(lambda: under_way(live), "the first at the lock")
    tasks += [post(client, live, str(uuid.uuid4())) for _ in range(QUEUE)]
    await eventually(lambda: waiting(live) == QUEUE, "a full queue")
    return tasks


def under_way(live: Live) -> bool:
    with closing(psycopg2.connect(live.dsn)) as other, other.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'livebox lane' "
            "AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone() is not None


async def test_a_full_lane_refuses_at_once_and_says_when_to_return(small: Live, small_clients: Clients) -> None:
    owner = small_clients["owner"]
    key = str(uuid.uuid4())
    with held(small):
        tasks = await full(owner, small)
        refused = await post(owner, small, key)
        assert (refused.status, refused.code) == (503, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json["retry_after_ms"] > 0
        assert not any(task.done() for task in tasks)
        assert (await owner.get("/v1/spaces")).status == 200, "reads go on"
        assert (await owner.get("/v1/health")).status == 200
    assert [got.status for got in await asyncio.gather(*tasks)] == [201] * (QUEUE + 1)
    assert (await post(owner, small, key)).status == 201, "the same key again"


async def test_it_is_full_for_who_fills_it(small: Live, small_clients: Clients) -> None:
    greedy, modest = small_clients["owner"], small_clients["alex"]
    with held(small):
        tasks = await full(greedy, small)
        mine = [post(modest, small, str(uuid.uuid4())) for _ in range(2)]
        await eventually(lambda: sum(task.done() for task in tasks) == 2, "places that are given up")
        assert not any(task.done() for task in mine)
    assert [got.status for got in await asyncio.gather(*mine)] == [201, 201]
    lost = [got for got in await asyncio.gather(*tasks) if got.status != 201]
    assert [(got.status, got.code) for got in lost] == [(503, "overloaded")] * 2
    assert {got.status for got in await asyncio.gather(*tasks[:-2])} == {201}, "the latest lost theirs"


async def test_ready_means_that_writes_are_committed(small: Live, small_clients: Clients) -> None:
    nobody = small_clients[None]

    async def checks() -> dict[str, str]:
        found: dict[str, str] = (await nobody.get("/v1/readiness")).json["checks"]
        return found

    async def stuck() -> bool:
        return await checks() == {"database": "ok", "lane": "failed"}

    async def ready() -> bool:
        return (await nobody.get("/v1/readiness")).status == 200

    assert await ready()
    with held(small):
        await eventually(stuck, "a lane that is seen to be stuck")
        got = await nobody.get("/v1/readiness")
        assert (got.status, got.json["status"], got.headers["Retry-After"]) == (503, "not_ready", "1")
    await eventually(ready, "the lane at work again")


NO_WRITES = """
CREATE FUNCTION livebox.t_no_writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no' USING ERRCODE = '{state}';
END $$;
CREATE TRIGGER t_no_writes BEFORE INSERT ON livebox.lane_batches EXECUTE FUNCTION livebox.t_no_writes()
"""
WRITES_AGAIN = "DROP FUNCTION livebox.t_no_writes() CASCADE"
END_SESSIONS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'livebox %'
"""


async def is_ready(nobody: Client) -> bool:
    return (await nobody.get("/v1/readiness")).status == 200


def statement(live: Live, text: str) -> None:
    with closing(psycopg2.connect(live.dsn)) as other:
        other.autocommit = True
        with other.cursor() as cursor:
            cursor.execute(text)


@pytest.mark.parametrize("state", ["53100", "25006"], ids=["the disk is full", "it is a standby"])
async def test_a_database_that_takes_no_writes_is_not_ready(own_live: Live, own_clients: Clients, state: str) -> None:
    owner, nobody = own_clients["owner"], own_clients[None]

    async def seen() -> bool:
        got = await nobody.get("/v1/readiness")
        return got.status == 503 and got.json["checks"] == {"database": "ok", "lane": "failed"}

    key = str(uuid.uuid4())
    assert await is_ready(nobody)
    statement(own_live, NO_WRITES.format(state=state))
    await eventually(seen, "what it says")
    refused = await post(owner, own_live, key)
    assert (refused.status, refused.code) == (503, "unavailable")
    assert (await owner.get("/v1/spaces")).status == 200, "reads go on"
    statement(own_live, WRITES_AGAIN)
    await eventually(lambda: is_ready(nobody), "writes again")
    assert (await post(owner, own_live, key)).status == 201


async def test_ready_is_what_a_new_session_can_do(own_live: Live, own_clients: Clients) -> None:
    """A default of the database that forbids writes is not ours; a session that cannot be opened is seen at once."""
    owner, nobody = own_clients["owner"], own_clients[None]
    name = parse_dsn(own_live.dsn)["dbname"]
    statement(own_live, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with closing(psycopg2.connect(own_live.dsn)) as other:
        other.set_session(readonly=False, autocommit=True)
        with other.cursor() as cursor:
            cursor.execute(END_SESSIONS)
    assert (await post(owner, own_live, str(uuid.uuid4()))).status == 201
    assert (await nobody.get("/v1/readiness")).status == 200

    with closing(psycopg2.connect(make_dsn(own_live.dsn, dbname="postgres"))) as other:
        other.autocommit = True
        with other.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            cursor.execute(END_SESSIONS.replace("current_database()", f"'{name}'"))
            got = await nobody.get("/v1/readiness")
            assert (got.status, got.json["checks"]) == (503, {"database": "failed", "lane": "failed"})
            refused = await post(owner, own_live, str(uuid.uuid4()))
            assert (refused.status, refused.code) == (503, "unavailable")
            cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await eventually(lambda: is_ready(nobody), "its return")


async def test_asking_often_costs_few_commits(small: Live, small_clients: Clients) -> None:
    """Who asks whether it is ready cannot keep the lane busy with that: a commit proves it for a second."""
    nobody = small_clients[None]
    begun, before = time.monotonic(), batches(small)
    for _ in range(40):
        got = await asyncio.gather(*(nobody.get("/v1/readiness") for _ in range(QUEUE)))
        assert {one.status for one in got} == {200}, {one.body for one in got}
    assert batches(small) - before <= time.monotonic() - begun + 1


def batches(live: Live) -> int:
    with closing(psycopg2.connect(live.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM livebox.lane_batches")
        return int(cursor.fetchone()[0])


async def test_a_full_lane_that_works_is_ready(small: Live, small_clients: Clients) -> None:
    """A machine that is busy beside may make it late once; a lane that is full is no reason, or it would never be."""
    owner, nobody = small_clients["owner"], small_clients[None]
    ready = []
    for _ in range(5):
        tasks = [post(owner, small, str(uuid.uuid4())) for _ in range(4 * QUEUE)]
        ready.append((await nobody.get("/v1/readiness")).status)
        assert {got.status for got in await asyncio.gather(*tasks)} <= {201, 503}
    assert ready.count(200) >= 3, ready
