"""What ends a run by time, through everything that can befall the server: kill -9, a long sleep, a wrong clock."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.faults.agents import Crew, Heart
from tests.fixtures.serving import Serving, Spawn
from tests.fixtures.waiting import eventually

SHORT = {
    "LIVEBOX_RUN_DELIVERY_TIMEOUT": "4",
    "LIVEBOX_RUN_CANCEL_TIMEOUT": "4",
    "LIVEBOX_RUN_HOLDER_GRACE": "4",
    "LIVEBOX_RUN_STALE_AFTER": "6",
    "LIVEBOX_RUN_STALL_AFTER": "5",
    "LIVEBOX_SERVICE_GAP": "2",
    "LIVEBOX_RUN_LIFE_FLUSH_INTERVAL": "0.5",
    "LIVEBOX_JOBS_REAP_INTERVAL": "0.2",
}
LONGEST = 6
SKEW = """
import datetime, time
ahead = {ahead}
real = time.time, time.time_ns
time.time = lambda: real[0]() + ahead
time.time_ns = lambda: real[1]() + ahead * 10**9
class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)
datetime.datetime = Skewed
"""


STALLED = "SELECT id::text FROM livebox.runs WHERE stalled_since IS NOT NULL AND finished_at IS NULL ORDER BY 1"
FAKETIME = next(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"), None)

Return = Callable[[], Serving]


def killed(server: Serving, spawn: Spawn, variables: dict[str, str]) -> Return:
    server.process.kill()
    server.process.communicate()
    return lambda: spawn(**variables).ready()


def frozen(server: Serving, spawn: Spawn, variables: dict[str, str]) -> Return:
    os.kill(server.process.pid, signal.SIGSTOP)

    def wake() -> Serving:
        os.kill(server.process.pid, signal.SIGCONT)
        return server

    return wake


async def passes(crew: Crew, seconds: float) -> None:
    """So much time of the database goes by."""
    (end,) = crew.sql("SELECT livebox.clock() + make_interval(secs => %s)", float(seconds))[0]
    await eventually(lambda: crew.sql("SELECT 1 WHERE livebox.clock() > %s", end), "the time")


@pytest.mark.parametrize("leave", [killed, frozen])
@pytest.mark.timeout(240)
async def test_the_only_server_is_away_longer_than_every_deadline(
    spawn: Spawn, database_dsn: str, data: Path, leave: Any
) -> None:
    """Whose agent is alive goes on; what has nobody ends, each in its way; nothing stays behind."""
    variables = {"DATABASE_URL": database_dsn, "LIVEBOX_DATA": str(data), **SHORT}
    crew = Crew(spawn(**variables).ready(), database_dsn)
    alive, silent, asked, waiting, answered = (crew.running() for _ in range(5))
    heart = Heart(alive)
    waiting.control("await-input", {"prompt": "Which one?"})
    answered.control("await-input", {"prompt": "Which one?"})
    hearts = [heart, Heart(asked)]
    crew.says(answered.thread)
    crew.server.post(f"/v1/runs/{asked.id}/cancel", {}, crew.person)
    queued, _ = crew.queued()
    hearts[1].stop()
    everyone = [alive.id, silent.id, asked.id, waiting.id, answered.id, queued]
    before = {run_id: crew.state(run_id) for run_id in everyone}

    comes_back: Return = leave(crew.server, spawn, variables)
    await passes(crew, LONGEST + 3)
    assert {run_id: crew.state(run_id) for run_id in everyone} == before
    crew.server = comes_back()
    answers = heart.answers

    ends = {
        silent.id: ("failed", "stale"),
        asked.id: ("cancelled", "cancel_timeout"),
        answered.id: ("failed", "agent_unavailable"),
        queued: ("failed", "agent_unavailable"),
    }
    await eventually(lambda: {run_id: crew.state(run_id) for run_id in ends} == ends, "the ends")
    assert crew.state(waiting.id) == ("waiting_input", None)
    assert heart.answers > answers
    assert crew.state(alive.id) == ("running", None)
    await eventually(
        lambda: crew.sql("SELECT 1 FROM livebox.runs WHERE id = %s AND stalled_since IS NOT NULL", alive.id),
        "the stall",
    )
    heart.stop()
    assert crew.state(alive.id) == ("running", None)
    alive.control("finish", {"state": "completed"})
    assert crew.server.end()[0] == 0


@pytest.mark.timeout(240)
async def test_a_server_that_wakes_changes_nothing_that_it_no_longer_holds(
    spawn: Spawn, database_dsn: str, data: Path
) -> None:
    """It sleeps with requests and signs of life in its hands, while another server ends the runs that they are about."""
    variables = {"DATABASE_URL": database_dsn, "LIVEBOX_DATA": str(data), **SHORT}
    sleeper = spawn(**variables).ready()
    crew = Crew(sleeper, database_dsn)
    held = [crew.running() for _ in range(3)]
    for one in held:
        one.control("heartbeat", {})
    queued = crew.claimed()
    other = spawn(**variables).ready()
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    late = [
        held[0].send("finish", {"state": "completed"}),
        held[1].send("heartbeat", {"cancel_seen": True}),
        held[2].send("await-input", {"prompt": "Which one?"}),
        queued.send("start", {}),
    ]
    everyone = [*held, queued]
    crew.server = other
    await eventually(lambda: all(crew.state(one.id)[0] == "failed" for one in everyone), "the ends")
    assert {crew.state(one.id)[1] for one in held} == {"stale"}
    before = {one.id: crew.row(one.id) for one in everyone}
    events = crew.sql("SELECT max(seq) FROM livebox.events")

    os.kill(sleeper.process.pid, signal.SIGCONT)
    for connection in late:
        with connection.getresponse() as answer:
            assert answer.status == 409
            assert b'"run_ended"' in answer.read()
    begun = turns(sleeper, "reaper"), turns(sleeper, "life")
    await eventually(
        lambda: turns(sleeper, "reaper") > begun[0] + 2 and turns(sleeper, "life") > begun[1] + 2, "turns of its jobs"
    )
    assert {one.id: crew.row(one.id) for one in everyone} == before
    assert crew.sql("SELECT max(seq) FROM livebox.events") == events
    assert sleeper.end()[0] == 0
    assert other.end()[0] == 0


def skewed_python(ahead: int, folder: Path) -> dict[str, str]:
    """The variables of a process whose Python tells a wrong time."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SKEW.format(ahead=ahead))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def skewed_system(ahead: int, folder: Path) -> dict[str, str]:
    """The variables of a process that is told a wrong time by the system."""
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{ahead:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.parametrize(
    "skewed",
    [
        skewed_python,
        pytest.param(skewed_system, marks=pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime")),
    ],
)
@pytest.mark.timeout(240)
async def test_the_clock_of_a_server_decides_nothing(
    spawn: Spawn, database_dsn: str, data: Path, tmp_path: Path, skewed: Callable[[int, Path], dict[str, str]]
) -> None:
    """One server an hour ahead and one an hour behind: no deadline early, none missed, all times the database's."""
    common = {
        "DATABASE_URL": database_dsn,
        "LIVEBOX_DATA": str(data),
        "LIVEBOX_RUN_STALE_AFTER": "3600",
        "LIVEBOX_RUN_STALL_AFTER": "1200",
        "LIVEBOX_SERVICE_GAP": "1800",
        "LIVEBOX_RUN_LIFE_FLUSH_INTERVAL": "0.2",
        "LIVEBOX_JOBS_REAP_INTERVAL": "0.1",
    }
    aheads = (3600, -3600)
    servers = [spawn(**common, **skewed(ahead, tmp_path / str(ahead))).ready() for ahead in aheads]
    for server, ahead in zip(servers, aheads, strict=True):
        assert abs(clock_of(server) - time.time() - ahead) < 600, "its clock is wrong"
    crew = Crew(servers[0], database_dsn)
    held = []
    for server in servers:
        crew.server = server
        one = crew.running()
        one.control("heartbeat", {})
        one.control("renew-token", {})
        held.append(one)
    begun = [turns(server, "reaper") for server in servers]
    await eventually(
        lambda: all(turns(server, "reaper") > before + 5 for server, before in zip(servers, begun, strict=True)),
        "sweeps",
    )
    for one in held:
        assert crew.state(one.id) == ("running", None)
        times = (
            "queued_at, claimed_at, started_at, last_heartbeat_at, last_progress_at, state_changed_at, token_issued_at"
        )
        asked = f"SELECT max(abs(extract(epoch FROM livebox.clock() - t))) < 600 FROM livebox.runs r, unnest(ARRAY[{times}]) AS t WHERE r.id = %s"
        assert crew.sql(asked, one.id) == [(True,)]
    assert crew.sql(STALLED) == [], "no stall is early"

    # The database's clock moves on; the service is touched all the while, so no time is missing.
    for minutes in (25, 50, 75):
        crew.sql(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
            f"$$ SELECT clock_timestamp() + interval '{minutes} minutes' $$"
        )
        await eventually(
            lambda: crew.sql("SELECT 1 FROM livebox.service WHERE touched_at > livebox.clock() - interval '1 minute'"),
            "a touch",
        )
        if minutes < 60:
            assert {crew.state(one.id) for one in held} == {("running", None)}
            await eventually(lambda: crew.sql(STALLED) == sorted((one.id,) for one in held), "no stall is missed")
    await eventually(lambda: {crew.state(one.id) for one in held} == {("failed", "stale")}, "the end of both")
    for server in servers:
        assert server.end()[0] == 0


def clock_of(server: Serving) -> float:
    """What time it is for a server."""
    with urlopen(f"{server.url}/v1/health", timeout=60) as answer:  # noqa: S310 - http, our own server
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()


def turns(server: Serving, job: str) -> float:
    """How often a job of a server has had its turn."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:  # noqa: S310 - http, our own server
        lines = answer.read().decode().splitlines()
    wanted = [line for line in lines if line.startswith("livebox_job_turns_total") and f'job="{job}"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in wanted)
