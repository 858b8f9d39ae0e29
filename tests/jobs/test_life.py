"""The collector of signs of life: the latest of each run, written in batches, kept while the database is away."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from db import Database, DatabaseUnavailable
from db.embedded import Server
from db.migrate import migrate
from livebox.jobs import life as life_module
from livebox.jobs.life import Life
from livebox.jobs.loop import Loop
from livebox.settings import Settings
from tests.db.run_rows import Rows
from tests.fixtures.database import connect
from tests.fixtures.waiting import eventually
from tests.jobs.watch import STALE, Watch


class Saves:
    """Stands in for a database: keeps what it is given to save, or is away."""

    def __init__(self) -> None:
        self.writer = self
        self.saved: list[list[dict[str, Any]]] = []
        self.outcome = "saved"
        self.away = False

    async def save(self, function: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert function == "save_signs_of_life"
        await asyncio.sleep(0)
        if self.away:
            raise DatabaseUnavailable("away")
        self.saved.append(rows)
        return [{"outcome": self.outcome} for _ in rows]


def collector(**chosen: Any) -> tuple[Life, Saves]:
    saves = Saves()
    settings = Settings.load({}, {name.replace("__", "."): value for name, value in chosen.items()})
    return Life(saves, settings), saves  # type: ignore[arg-type]


async def test_one_row_per_run_with_its_latest_signs() -> None:
    life, saves = collector()
    for _ in range(100):
        life.alive("a")
        life.alive("b", progress=True)
    life.alive("b")
    assert len(life) == 2
    await life.flush()
    ((first, beat, moved),) = saves.saved
    assert (first["run_id"], "progress" in first) == ("a", False)
    assert (beat["run_id"], "progress" in beat) == ("b", False)
    assert (moved["run_id"], moved["progress"]) == ("b", True)
    assert 0 <= beat["age"] <= moved["age"] < 60
    assert len(life) == 0
    await life.flush()
    assert len(saves.saved) == 1


async def test_it_saves_in_chunks() -> None:
    life, saves = collector(jobs__chunk=3)
    for number in range(8):
        life.alive(str(number))
    await life.flush()
    assert [len(rows) for rows in saves.saved] == [3, 3, 2]


async def test_while_the_database_is_away_it_keeps_one_entry_per_run() -> None:
    life, saves = collector(jobs__chunk=3)
    saves.away = True
    for _ in range(50):
        for number in range(8):
            life.alive(str(number))
        with pytest.raises(DatabaseUnavailable):
            await life.flush()
        assert len(life) == 8
    saves.away = False
    await life.flush()
    assert sorted(row["run_id"] for rows in saves.saved for row in rows) == [str(number) for number in range(8)]


async def test_a_sign_that_comes_while_others_are_written_is_kept() -> None:
    life, saves = collector()
    saves.away = True
    life.alive("a", progress=True)
    flush = asyncio.create_task(life.flush())
    await asyncio.sleep(0)
    life.alive("a")
    life.alive("b")
    with pytest.raises(DatabaseUnavailable):
        await flush
    saves.away = False
    await life.flush()
    ((beat, moved, other),) = sorted(saves.saved, key=len)
    assert (beat["run_id"], moved["run_id"], other["run_id"]) in {("a", "a", "b"), ("b", "a", "a")}
    assert sum("progress" in row for row in (beat, moved, other)) == 1


async def test_what_was_locked_is_tried_again_and_what_ended_is_not() -> None:
    life, saves = collector()
    saves.outcome = "skipped"
    life.alive("a")
    await life.flush()
    assert len(life) == 1
    saves.outcome = "ended"
    await life.flush()
    assert len(life) == 0


async def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_module, "MAX_RUNS", 10)
    life, saves = collector()
    for number in range(1000):
        life.alive(str(number))
        life.alive("0")  # heard of often: never the oldest
    assert len(life) == 10
    saves.away = True
    flush = asyncio.create_task(life.flush())
    await asyncio.sleep(0)
    for number in range(1000, 1010):
        life.alive(str(number))
    with pytest.raises(DatabaseUnavailable):
        await flush
    assert len(life) == 10
    saves.away = False
    await life.flush()
    assert [row["run_id"] for row in saves.saved[0]] == [str(number) for number in range(1000, 1010)], "the oldest went"


async def test_it_writes_what_is_left_at_its_end(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(50)
    watch.life.start()
    watch.life.alive(work.run_id)
    await watch.life.end()
    heard = watch.row(work.run_id)["last_heartbeat_at"]
    assert abs((heard - watch.time(50)).total_seconds()) < 30
    assert heard > watch.time(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "life"]


async def test_its_end_waits_for_no_database(watch: Watch) -> None:
    life, saves = collector()
    saves.away = True
    life.alive("a")
    await life.end()
    assert len(life) == 1


async def test_signs_survive_an_outage_of_the_database(own_server: Server) -> None:
    """The latest sign is written when it is back, as old as it is by then."""
    migrate(own_server.dsn())
    with closing(connect(own_server.dsn())) as sql:
        run = Rows(sql).run("running")
    database = Database(own_server.dsn(), lane_patience=0.2, read_patience=0.2)
    await database.start()
    life = Life(database, Settings.load({}))
    own_server.halt()
    life.alive(run, progress=True)
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await life.flush()
    own_server.start()
    life.alive(run)
    await life.flush()
    with closing(connect(own_server.dsn())) as sql, sql.cursor() as cursor:
        cursor.execute("SELECT last_progress_at < last_heartbeat_at FROM livebox.runs WHERE id = %s", (run,))
        assert cursor.fetchone() == (True,)
    assert len(life) == 0
    await database.stop()


async def test_a_run_that_is_locked_for_long_is_written_later(watch: Watch) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE / 2)
    watch.life.alive(work.run_id)
    watch.stage.db.writer._patience = 0
    with closing(psycopg2.connect(watch.stage.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM livebox.runs WHERE id = %s FOR UPDATE", (work.run_id,))
        await watch.life.flush()
        assert len(watch.life) == 1
        other.rollback()
    await watch.life.flush()
    assert len(watch.life) == 0
    assert watch.row(work.run_id)["last_heartbeat_at"] > watch.time(0)


async def test_signs_of_unknown_runs_are_dropped(watch: Watch) -> None:
    watch.life.alive(str(uuid.uuid4()))
    await watch.life.flush()
    assert len(watch.life) == 0


# --- the loop that all jobs share -------------------------------------------------------------------------------------


async def test_a_loop_goes_on_whatever_its_work_does() -> None:
    turns: list[tuple[str, bool]] = []
    wrong = [DatabaseUnavailable("away"), ValueError("a bug")]

    async def work() -> None:
        if wrong:
            raise wrong.pop()

    loop = Loop("busy", 0.001, work, on_turn=lambda name, ok: turns.append((name, ok)))
    loop.start()
    await eventually(lambda: len(turns) >= 4, "the fourth turn")
    await loop.stop()
    assert turns[:4] == [("busy", False), ("busy", False), ("busy", True), ("busy", True)]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "busy"]


async def test_a_loop_that_is_woken_does_not_wait() -> None:
    done = asyncio.Event()

    async def work() -> None:
        done.set()

    loop = Loop("lazy", 3600, work)
    loop.start()
    loop.wake()
    async with asyncio.timeout(30):
        await done.wait()
    await loop.stop()
