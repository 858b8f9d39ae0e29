"""What the database holds of live documents, whoever asks: from plain SQL, and from the functions that save."""

from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest

from tests.live.process import Process, headline
from tests.runs.stage import Stage


def save(stage: Stage, function: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    found = stage.sql(f"SELECT r FROM livebox.{function}(%s) AS r", json.dumps(rows))
    return [row["r"] for row in found]


def take(stage: Stage, run_id: str, owner: str = "one", lease: float = 60) -> list[dict[str, Any]]:
    return save(stage, "take_live", {"run_id": run_id, "owner": owner, "block": 10, "lease": lease})


def given(run_id: str, epoch: int, version: int, text: str = "saved", **more: Any) -> dict[str, Any]:
    return {"run_id": run_id, "epoch": epoch, "version": version, "document": {"headline": text}, "block": 0, **more}


@pytest.mark.parametrize(
    ("change", "sqlstate"),
    [
        ("version = version - 1", "LB102"),
        ("version_reserved = version_reserved - 1", "LB102"),
        ("live_epoch = live_epoch - 1", "LB102"),
        ('document = \'{"headline": "x"}\'', "LB102"),
        ("document = '{\"headline\": null}', version = version + 20", "23514"),
        ("document = '[]', version = version + 20", "23514"),
    ],
)
async def test_plain_sql_cannot(stage: Stage, change: str, sqlstate: str) -> None:
    _, work = await stage.working()
    take(stage, work.run_id)
    before = stage.image(work.run_id)
    with pytest.raises(psycopg2.Error) as refused:
        stage.sql(f"UPDATE livebox.runs SET {change} WHERE id = %s", work.run_id)
    assert refused.value.pgcode == sqlstate
    assert stage.image(work.run_id) == before


async def test_an_ended_document_is_saved_once(stage: Stage) -> None:
    _, work = await stage.working()
    take(stage, work.run_id)
    await stage.finish(work)
    row = stage.row(work.run_id)
    version = row["version"]
    assert save(stage, "save_live", given(work.run_id, 1, version + 1)) == [{"position": 0, "outcome": "overtaken"}]
    (done,) = save(stage, "save_live", given(work.run_id, 1, version + 1, final=True))
    assert done["outcome"] == "saved"
    row = stage.row(work.run_id)
    assert (row["document"], row["document_final"], row["live_owner"]) == ({"headline": "saved"}, True, None)
    again = save(stage, "save_live", given(work.run_id, 1, version + 2, "again", final=True))
    assert again == [{"position": 0, "outcome": "overtaken"}]
    for change in ("document = '{}', version = version + 1", "document_final = false, version = version + 1"):
        with pytest.raises(psycopg2.Error) as refused:
            stage.sql(f"UPDATE livebox.runs SET {change} WHERE id = %s", work.run_id)
        assert refused.value.pgcode == "LB103"
    assert stage.row(work.run_id) == row


async def test_a_save_needs_the_epoch_a_higher_version_and_an_active_run(stage: Stage) -> None:
    _, work = await stage.working()
    take(stage, work.run_id)
    version = stage.row(work.run_id)["version"]
    assert save(stage, "save_live", given(work.run_id, 0, version + 1))[0]["outcome"] == "lost"
    assert save(stage, "save_live", given(work.run_id, 2, version + 1))[0]["outcome"] == "lost"
    assert save(stage, "save_live", given(work.run_id, 1, version - 1))[0]["outcome"] == "overtaken"
    assert save(stage, "save_live", given(work.run_id, 1, version + 1, final=True))[0]["outcome"] == "overtaken"
    assert stage.row(work.run_id)["document"] == {}
    for _ in range(2):  # a repeat is no second save
        assert save(stage, "save_live", given(work.run_id, 1, version + 1))[0]["outcome"] == "saved"
    row = stage.row(work.run_id)
    assert (row["version"], row["live_version"], row["document"]) == (version + 1, version + 1, {"headline": "saved"})
    stage.sql("UPDATE livebox.runs SET live_owner = 'two', live_epoch = live_epoch + 1 WHERE id = %s", work.run_id)
    assert save(stage, "save_live", given(work.run_id, 1, version + 2))[0]["outcome"] == "lost"
    assert save(
        stage, "reserve_versions", {"run_id": work.run_id, "epoch": 1, "base": version + 9, "version": version + 99}
    ) == [{"position": 0, "outcome": "lost"}]
    assert save(stage, "release_live", {"run_id": work.run_id, "epoch": 1}) == [{"position": 0, "outcome": "lost"}]
    assert stage.row(work.run_id)["live_owner"] == "two"


async def test_versions_are_only_set_aside_while_nobody_raised_the_run(stage: Stage) -> None:
    _, work = await stage.working()
    take(stage, work.run_id)
    row = stage.row(work.run_id)
    asked = {"run_id": work.run_id, "epoch": 1, "base": row["version"] + 3, "version": row["version"] + 99}
    assert save(stage, "reserve_versions", asked) == [
        {"position": 0, "outcome": "saved", "reserved": row["version"] + 99}
    ]
    await stage.step(work)
    assert stage.row(work.run_id)["version"] == row["version"] + 100
    assert save(stage, "reserve_versions", {**asked, "version": row["version"] + 999})[0]["outcome"] == "lost"


async def test_taking_lifts_the_row_to_its_mark(stage: Stage) -> None:
    _, work = await stage.working()
    assert take(stage, work.run_id) == [{"position": 0, "outcome": "taken"}]
    first = stage.row(work.run_id)
    assert first["version_reserved"] == first["version"] + 10
    stage.sql("INSERT INTO livebox.live_owners (owner) VALUES ('one')")
    (other,) = take(stage, work.run_id, "two")
    assert other["outcome"] == "elsewhere"
    assert 0 < other["wait"] <= 60
    assert stage.row(work.run_id) == first
    stage.sql("UPDATE livebox.live_owners SET seen_at = seen_at - interval '1 hour'")
    assert take(stage, work.run_id, "two")[0]["outcome"] == "taken"
    second = stage.row(work.run_id)
    assert (second["version"], second["live_epoch"]) == (first["version_reserved"], first["live_epoch"] + 1)
    assert second["version_reserved"] == second["version"] + 10
    await stage.finish(work)
    assert take(stage, work.run_id, "three") == [{"position": 0, "outcome": "gone"}]


async def test_a_locked_row_is_left_for_later(stage: Stage) -> None:
    _, work = await stage.working()
    take(stage, work.run_id)
    version = stage.row(work.run_id)["version"]
    from contextlib import closing

    from tests.fixtures.database import connect

    with closing(connect(stage.dsn)) as holder:
        holder.autocommit = False
        with holder.cursor() as cursor:
            cursor.execute("SELECT FROM livebox.runs WHERE id = %s FOR NO KEY UPDATE", (work.run_id,))
            assert save(stage, "save_live", given(work.run_id, 1, version + 1)) == []
            assert take(stage, work.run_id) == []
            assert save(stage, "release_live", {"run_id": work.run_id, "epoch": 1}) == []
            asked = {"run_id": work.run_id, "epoch": 1, "base": version, "version": version + 50}
            assert save(stage, "reserve_versions", asked) == []
        holder.rollback()
    assert save(stage, "save_live", given(work.run_id, 1, version + 1))[0]["outcome"] == "saved"


async def test_versions_beyond_four_bytes(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    stage.sql(
        "UPDATE livebox.runs SET version = %s, version_reserved = %s WHERE id = %s", 2**31 - 3, 2**31 - 2, work.run_id
    )
    version = stage.row(work.run_id)["version_reserved"]
    version = await here.patch(work, version, headline("1"))
    version = await here.patch(work, version, headline("2"), quick=True)
    assert version == 2**31
    await here.control("record_run_step", work, {"kind": "tool", "name": "x"}, step_id=work.run_id)
    run = await here.get_run(work.run_id)
    assert run["version"] == stage.row(work.run_id)["version"] > 2**31
    assert run["headline"] == "2"


async def test_every_raise_is_noticed(stage: Stage) -> None:
    """Whatever the operation: who serves or shows the run has to look again."""
    message = await stage.queued()
    run_id = stage.runs(message["thread_id"])[0]["id"]
    (work,) = await stage.claim("lotse")
    raised = [
        await stage.start(work),
        await stage.step(work),
        await stage.post("alex", message["thread_id"]),
        await stage.cancel("alex", run_id),
        await stage.beat(work, cancel_seen=True),
        await stage.control("renew_invocation_token", work),
        await stage.finish(work, "cancelled", reason="user_cancelled"),
    ]
    for outcome in raised:
        assert run_id in outcome.raised, outcome
    # A follow-up that is promoted opens the next run, which is one to look at, too.
    (new,) = [row["id"] for row in stage.runs(message["thread_id"]) if row["id"] != run_id]
    assert new in raised[-1].raised
    assert (await stage.finish(work)).raised == []
    assert (await stage.post("robin", "Support/Escalation")).raised == []
