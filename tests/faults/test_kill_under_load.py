"""kill -9 of the server, again and again, while people and adapters are at work: what they were told is so, once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from db.embedded import Server
from tests.faults.crowd import Crowd, Ledger
from tests.fixtures.database import connect
from tests.fixtures.replay import assert_lawful
from tests.fixtures.serving import UNMEASURED, Serving, Spawn
from tests.fixtures.waiting import eventually

PEOPLE: Final = 8
ADAPTERS: Final = 8
LEAST, MOST = 1, 250
"""Requests that go out or are answered between the server's start and its end."""
DATABASE_TOO: Final = 0.1
"""How often the database is killed with it."""
ROOM: Final = {f"LIVEBOX_RL_{name}_{what}": "100000" for name in ("READ", "WRITE") for what in ("RATE", "BURST")}
AT_WORK: Final = {
    **ROOM,
    **UNMEASURED,
    "LIVEBOX_LOG_LEVEL": "error",
    "LIVEBOX_RUN_CLAIM_LEASE": "2",
    "LIVEBOX_RUN_DELIVERY_TIMEOUT": "10",
    "LIVEBOX_RUN_CANCEL_TIMEOUT": "4",
    "LIVEBOX_RUN_HOLDER_GRACE": "2",
    "LIVEBOX_RUN_STALE_AFTER": "6",
    "LIVEBOX_RUN_STALL_AFTER": "3",
    "LIVEBOX_SERVICE_GAP": "2",
    "LIVEBOX_RUN_LIFE_FLUSH_INTERVAL": "0.2",
    "LIVEBOX_JOBS_REAP_INTERVAL": "0.2",
    "LIVEBOX_RUN_FOLLOWUPS_MAX": "100",
}
AT_THE_END: Final = {
    **AT_WORK,
    "LIVEBOX_RUN_CLAIM_LEASE": "1",
    "LIVEBOX_RUN_DELIVERY_TIMEOUT": "3",
    "LIVEBOX_RUN_CANCEL_TIMEOUT": "1",
    "LIVEBOX_RUN_HOLDER_GRACE": "1",
    "LIVEBOX_RUN_STALE_AFTER": "2",
    "LIVEBOX_SERVICE_GAP": "1",
}
STUCK: Final = (
    "SELECT r.id, r.state FROM livebox.runs r WHERE r.finished_at IS NULL AND (r.state <> 'waiting_input' OR EXISTS "
    "(SELECT FROM livebox.run_followups f WHERE f.run_id = r.id AND f.state = 'pending'))"
)
"""Runs that go on without anybody: what waits for an answer may wait for ever."""
WAITING: Final = "SELECT r.id::text, r.thread_id::text FROM livebox.runs r WHERE r.state = 'waiting_input'"

Sql = Callable[..., list[Any]]


class Scene:
    """The server that is there now, on a data folder of its own."""

    def __init__(self, spawn: Spawn, data: Path, chance: random.Random) -> None:
        self._spawn = spawn
        self.data = data
        self.random = chance
        self.logs: list[str] = []
        self.server: Serving = spawn(LIVEBOX_DATA=str(data), **AT_WORK).ready()

    async def killed(self, crowd: Crowd, settings: dict[str, str] | None = None) -> None:
        """The server ends in this moment, its database with it now and then, and another one starts."""
        crowd.nowhere()
        self.server.process.kill()
        if self.random.random() < DATABASE_TOO:
            os.kill(int((self.data / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        crowd.at(await asyncio.to_thread(self._again, settings or AT_WORK))

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Rows of a plain statement on the server's database."""
        with closing(connect(Server(self.data).dsn())) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def _again(self, settings: dict[str, str]) -> str:
        self.logs.append(self.server.process.communicate()[1])
        self.server = self._spawn(LIVEBOX_DATA=str(self.data), **settings).ready()
        return self.server.url


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often the server is killed."""
    return int(request.config.getoption("kills"))


@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_what_was_acknowledged_is_there_once_and_nothing_is_stuck(spawn: Spawn, data: Path, kills: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    chance = random.Random(seed)
    scene = await asyncio.to_thread(Scene, spawn, data, chance)
    command = scene.server.command
    command("world")
    people = [command("token", "issue", handle) for handle in ("alex", "owner")]
    adapter = command("token", "issue", "lotse")
    lotse = command("world", "--id", "principal:lotse")
    channel = command("world", "--id", "channel:Support/General")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        crowd = Crowd(session, seed, channel, lotse)
        try:
            crowd.at(scene.server.url)
            crowd.begin([people[number % 2] for number in range(PEOPLE)], [adapter] * ADAPTERS)
            for _ in range(kills):
                await crowd.moves_on(chance.randint(LEAST, MOST))
                await scene.killed(crowd)
            await crowd.moves_on(MOST)
            await crowd.leave()
            print(f"{kills} kills; {sum(crowd.ledger.answers.values())} answers {dict(crowd.ledger.answers)}")
            await scene.killed(crowd, AT_THE_END)
            await eventually(lambda: not scene.sql(STUCK), "the end of what nobody holds")
            await assert_waiting_runs_can_be_taken(crowd, scene, people[1], adapter)
        finally:
            crowd.end()
    assert_kept(crowd.ledger, scene.sql)
    assert_lawful(scene.sql)
    assert not scene.sql("SELECT 1 FROM livebox.runs WHERE finished_at IS NULL")
    assert scene.server.end()[0] == 0
    assert not [log for log in scene.logs if "internal_error" in log]


async def assert_waiting_runs_can_be_taken(crowd: Crowd, scene: Scene, person: str, adapter: str) -> None:
    """An answer makes each run that waits claimable, and it can be brought to its end."""
    for run, thread in scene.sql(WAITING):
        request = {"body": "This one", "client_msg_id": run}
        got = await crowd.ask("POST", f"/v1/threads/{thread}/messages", person, request)
        assert got.body["trigger_state"] == "received"
        crowd.ledger.messages[run] = got.body
        claimed = await crowd.ask("POST", "/v1/invocations/claim", adapter, {"claim_id": run, "limit": 10})
        (item,) = claimed.body["items"]
        assert (item["run"]["id"], item["kind"]) == (run, "resume")
        path, headers = f"/v1/runs/{run}", {"Livebox-Invocation": item["token"]}
        assert (await crowd.ask("POST", f"{path}/resume", adapter, {}, headers=headers)).status == 200
        message = got.body["id"]
        assert (await crowd.ask("POST", f"{path}/followups/{message}/ack", adapter, {}, headers=headers)).status == 200
        assert (
            await crowd.ask("POST", f"{path}/finish", adapter, {"state": "completed"}, headers=headers)
        ).status == 200


def assert_kept(ledger: Ledger, sql: Sql) -> None:
    """All that clients were told is so, and was done once."""
    threads = sql("SELECT title, id::text FROM livebox.threads WHERE title LIKE 'report-%'")
    assert sorted(threads) == sorted(ledger.threads.items())

    messages = sql("SELECT client_msg_id, id::text FROM livebox.messages WHERE client_msg_id IS NOT NULL")
    there = dict(messages)
    assert len(there) == len(messages)
    assert {key: there.get(key) for key in ledger.messages} == {key: m["id"] for key, m in ledger.messages.items()}
    assert there.keys() - ledger.messages.keys() <= ledger.unsettled

    runs = {
        row[0]: row[1:]
        for row in sql(
            "SELECT id::text, state, summary, livebox.utc(started_at), cancel_requested_at IS NOT NULL FROM livebox.runs"
        )
    }
    assert {run: runs[run][:2] for run in ledger.finished} == ledger.finished
    summaries = [summary for _, summary, _, _ in runs.values() if summary]
    assert len(set(summaries)) == len(summaries)
    assert not ledger.refused & set(summaries)
    assert set(summaries) <= {summary for _, summary in ledger.finished.values()} | ledger.unsettled
    assert {run: runs[run][2] for run in ledger.started} == ledger.started
    assert {runs[run][0] for run in ledger.cancelled} <= {"cancelled"}
    assert all(runs[run][3] for run in ledger.cancelling)

    steps = sql("SELECT id::text, run_id::text FROM livebox.run_steps WHERE kind = 'tool'")
    assert sorted(steps) == sorted(ledger.steps.items())
    taken = sql("SELECT run_id::text, message_id::text FROM livebox.run_followups WHERE state <> 'pending'")
    assert ledger.taken <= set(taken)
    assert ledger.messages
    assert ledger.finished
    assert ledger.steps
