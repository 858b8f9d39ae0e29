"""What a change ends is ended once, whoever does it, whatever happens meanwhile, and holds nobody up."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from db import Database, DatabaseUnavailable
from db.migrate import MIGRATIONS, migrate
from livebox.jobs.consequences import TOGETHER
from tests.db.run_rows import Rows
from tests.fixtures.database import connect
from tests.jobs.queue import fill
from tests.runs.changes import (
    consequences,
    disables_person,
    membership,
    pending,
    person_in_group,
    read_only,
    sets_read_only,
)
from tests.runs.stage import Stage, _named

MANY: Final = 5000
MIGRATION: Final = "0005_consequences.sql"


def ends(stage: Stage) -> Counter[str]:
    """How often each run ended, by its events."""
    rows = stage.sql(
        "SELECT resource_id FROM livebox.events WHERE type = 'run.state_changed' "
        "AND payload->'run'->>'state' IN ('completed', 'failed', 'cancelled')"
    )
    return Counter(row["resource_id"] for row in rows)


def states(stage: Stage) -> Counter[tuple[str, str | None]]:
    rows = stage.sql("SELECT state, state_reason FROM livebox.runs")
    return Counter((row["state"], row["state_reason"]) for row in rows)


# --- a process ends in the middle -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_another_process_goes_on_where_one_stopped(stage: Stage, other: Database, steps: int) -> None:
    fill(stage.dsn, 7)
    await disables_person(stage, "")
    first, submitted = consequences(stage.db, chunk=2), 0
    submit = stage.db.lane.submit

    async def until_the_end(operation: str, *args: Any) -> Any:
        nonlocal submitted
        if submitted == steps:
            raise DatabaseUnavailable("the process is gone")
        submitted += 1
        return await submit(operation, *args)

    stage.db.lane.submit = until_the_end  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        await first.sweep()
    stage.db.lane.submit = submit  # type: ignore[method-assign]
    assert len(ends(stage)) == 2 * steps
    assert pending(stage) == ["user_disabled"]

    assert await consequences(other, chunk=2).sweep() == 4 - steps
    assert states(stage) == {("cancelled", "user_disabled"): 7}
    assert set(ends(stage).values()) == {1}
    assert pending(stage) == []


async def test_processes_that_do_it_at_once_do_it_once(stage: Stage, other: Database) -> None:
    fill(stage.dsn, 40)
    await disables_person(stage, "")
    await sets_read_only(stage, "")
    jobs = [consequences(database, chunk=3) for database in (stage.db, other) * 3]
    await asyncio.gather(*(job.sweep() for job in jobs))
    assert sum(states(stage).values()) == 40
    assert {state for state, _ in states(stage)} == {"cancelled"}
    assert set(ends(stage).values()) == {1}
    assert len(ends(stage)) == 40
    assert {row["version"] for row in stage.sql("SELECT version FROM livebox.runs")} == {2}
    assert pending(stage) == []


async def test_it_begins_with_what_was_left_and_is_told_of_more(stage: Stage) -> None:
    fill(stage.dsn, 3)
    await disables_person(stage, "")
    job = consequences(stage.db)
    done = asyncio.Event()
    job._on_turn = lambda name, ok: done.set()
    job.start()
    await asyncio.wait_for(done.wait(), 30)
    assert states(stage) == {("cancelled", "user_disabled"): 3}

    done.clear()
    stage.db.lane.on_effects = job.heard
    await stage.queued("owner", "Marketing/General", "texter")
    assert not done.is_set()
    await read_only(stage, "Marketing/General", True)
    await asyncio.wait_for(done.wait(), 30)
    assert states(stage)["cancelled", "channel_read_only"] == 1
    await job.stop()


# --- steps ------------------------------------------------------------------------------------------------------------


async def test_a_step_looks_at_few_and_ends_fewer(stage: Stage) -> None:
    """However many there are, and also where they concern nobody."""
    fill(stage.dsn, 50, "owner")
    fill(stage.dsn, 50, "alex")
    await disables_person(stage, "")
    await consequences(stage.db, chunk=20).sweep()
    counts = stage.sql(
        "SELECT (SELECT count(*) FROM jsonb_array_elements(a->'effects') e WHERE e->>'to' = 'cancelled') AS n "
        "FROM livebox.lane_batches, jsonb_array_elements(answers->'answers') a "
        "WHERE a->'effects' @> '[{\"to\": \"cancelled\"}]' ORDER BY batch"
    )
    assert [row["n"] for row in counts] == [10, TOGETHER, TOGETHER, 8]
    assert states(stage) == {("queued", None): 50, ("cancelled", "user_disabled"): 50}


async def test_one_change_with_much_to_end_does_not_hold_up_the_next(stage: Stage) -> None:
    fill(stage.dsn, 60)
    await stage.queued("owner", "Marketing/General", "texter")
    await disables_person(stage, "")
    await read_only(stage, "Marketing/General", True)
    stage.mark()
    await consequences(stage.db, chunk=100).sweep()
    reasons = [
        event["payload"]["run"].get("state_reason") for event in stage.events() if event["resource_kind"] == "run"
    ]
    assert reasons.count("user_disabled") == 60
    assert reasons.index("channel_read_only") <= TOGETHER


@pytest.mark.parametrize("chunk", [1, 2, 100])
async def test_a_run_that_cannot_be_ended_stops_nobody_else(stage: Stage, chunk: int) -> None:
    fill(stage.dsn, 5)
    broken = [row["id"] for row in stage.sql("SELECT id::text FROM livebox.runs ORDER BY queued_at, id")][::2]
    stage.sql(
        "CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.id = ANY (TG_ARGV[0]::uuid[]) THEN RAISE EXCEPTION 'broken'; END IF; RETURN NEW; END $$"
    )
    stage.sql(
        "CREATE TRIGGER broken BEFORE UPDATE ON livebox.runs FOR EACH ROW "
        f"EXECUTE FUNCTION public.broken('{{{','.join(broken)}}}')"
    )
    said: list[dict[str, Any]] = []
    stage.db.lane.on_effects = said.extend
    await disables_person(stage, "")
    await consequences(stage.db, chunk).sweep()
    assert states(stage) == {("queued", None): 3, ("cancelled", "user_disabled"): 2}
    assert sum(effect.get("event") == "consequence_failed" for effect in said) == 3
    assert pending(stage) == ["user_disabled"]
    assert len(ends(stage)) == 2

    stage.sql("DROP TRIGGER broken ON livebox.runs")
    await consequences(stage.db, chunk).sweep()
    assert states(stage) == {("cancelled", "user_disabled"): 5}
    assert set(ends(stage).values()) == {1}
    assert pending(stage) == []


# --- five thousand ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(240)
async def test_five_thousand_of_one_person_hold_nobody_up(stage: Stage, other: Database) -> None:
    """Two processes end them while others write through both: in the log, no long stretch is of the ends alone."""
    fill(stage.dsn, MANY)
    await disables_person(stage, "")
    stage.mark()
    going = True

    async def writes(database: Database) -> None:
        while going:
            assert (await stage.post("sam", "Marketing/General", db=database)).code == "created"

    writers = [asyncio.create_task(writes(database)) for database in (stage.db, other)]
    await asyncio.gather(consequences(stage.db, 1000).sweep(), consequences(other, 1000).sweep())
    going = False
    await asyncio.gather(*writers)
    assert states(stage) == {("cancelled", "user_disabled"): MANY}
    assert ends(stage).total() == MANY
    kinds = [_named(event) for event in stage.events()]
    stretches = "".join(
        "o" if kind == "message.created text" else "." for kind in kinds if kind != "message.updated cancelled"
    )
    longest = max(len(stretch) for stretch in stretches.split("o"))
    # One step of each process, or one more where a writer just missed a batch.
    assert TOGETHER <= longest <= 4 * TOGETHER
    assert stretches.count("o") >= MANY / TOGETHER / 2


# --- what was there before --------------------------------------------------------------------------------------------


def test_what_was_so_before_the_table_came_is_found(empty_dsn: str, tmp_path: Path) -> None:
    older = tmp_path / "migrations"
    older.mkdir()
    for path in MIGRATIONS.glob("*.sql"):
        if path.name < MIGRATION:
            shutil.copy(path, older)
    migrate(empty_dsn, older, None)
    with closing(connect(empty_dsn)) as sql:
        rows = Rows(sql)
        gone = rows.thread()
        kept = rows.thread()
        for thread in (gone, kept):
            rows.insert(
                "runs", id=str(uuid.uuid4()), thread_id=thread, agent_id=rows.agent, state="queued", trigger_kind="message",
                triggered_by=rows.person, billing_mode_expected="organization", invocation_jti=str(uuid.uuid4()),
                queued_at="2026-01-01T00:00:00Z", state_changed_at="2026-01-01T00:00:00Z")  # fmt: skip
        rows.run_sql("UPDATE livebox.threads SET deleted_at = livebox.clock(), version = 2 WHERE id = %s", gone)
        rows.run_sql("UPDATE livebox.principals SET status = 'disabled', version = 2")
        rows.run_sql("UPDATE livebox.channels SET read_only = true, version = 2")
        migrate(empty_dsn)
        found = rows.run_sql(
            "SELECT reason, coalesce(principal_id, channel_id, thread_id) AS what FROM livebox.pending_consequences"
        )
    assert sorted((row["reason"], row["what"]) for row in found) == [
        ("access_revoked", rows.channel), ("agent_disabled", rows.agent), ("channel_read_only", rows.channel),
        ("thread_deleted", gone), ("user_disabled", rows.person)]  # fmt: skip


async def test_rights_that_were_lost_before_are_found_too(stage: Stage) -> None:
    """The row that an older database gets for a channel ends what may not be read there, and nothing else."""
    await person_in_group(stage)
    runs = [stage.runs((await stage.queued(who))["thread_id"])[0]["id"] for who in ("kim", "alex")]
    await membership(stage, "remove")
    stage.sql("DELETE FROM livebox.pending_consequences")
    stage.sql(
        "INSERT INTO livebox.pending_consequences (reason, channel_id) VALUES ('access_revoked', %s)",
        stage.world.channels["Support/General"],
    )
    await consequences(stage.db).sweep()
    assert [stage.row(run)["state_reason"] for run in runs] == ["access_revoked", None]
