"""One process: versions, saves, what is shown, and the end."""

from __future__ import annotations

import pytest

from db import DatabaseError
from livebox.live.patch import PatchRefused
from tests.fixtures.waiting import eventually
from tests.live.process import Process, headline, quiet
from tests.runs.stage import Stage


async def test_the_first_patch_takes_the_run_and_the_row_follows(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    before = stage.row(work.run_id)
    assert (before["live_owner"], before["version_reserved"]) == (None, before["version"])
    version = await here.patch(work, before["version"], headline("One"))
    assert version == before["version"] + 1
    row = stage.row(work.run_id)
    assert (row["live_owner"], row["live_epoch"], row["version"]) == (here.plane.owner, 1, before["version"])
    assert row["version_reserved"] >= before["version"] + here.settings.integer("run.version_block")
    assert (await here.get_run(work.run_id))["headline"] == "One"
    saved = await eventually(lambda: stage.row(work.run_id)["document"].get("headline") and stage.row(work.run_id))
    assert (saved["version"], saved["live_version"], saved["document_final"]) == (version, version, False)
    assert saved["document_as_of"] is not None
    assert (await here.get_run(work.run_id))["version"] == version


async def test_no_patch_writes_an_event_or_a_revision(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    version = stage.row(work.run_id)["version"]
    stage.mark()
    for index in range(5000):
        version = await here.patch(work, version, headline(f"Line {index}"), quick=index > 0)
    await here.control("finish_run", work, {"state": "completed"})
    many = stage.written()
    _, quiet_work = await stage.working(who="alex")
    stage.mark()
    await here.control("finish_run", quiet_work, {"state": "completed"})
    assert stage.written() == many
    assert stage.row(work.run_id)["document"] == {"headline": "Line 4999"}


async def test_an_operation_of_the_owner_carries_the_newest_content(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    await here.plane._keeper._saves.stop()  # nothing is saved by itself
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("One"))
    answer = await here.control(
        "record_run_step", work, {"kind": "tool", "name": "read"}, step_id=work.invocation["jti"]
    )
    assert answer.code == "ok"
    row = stage.row(work.run_id)
    assert row["document"] == {"headline": "One"}
    assert row["version"] > version
    with pytest.raises(PatchRefused) as conflict:
        await here.patch(work, version, headline("Two"))
    assert conflict.value.code == "version_conflict"
    assert conflict.value.extra["run"]["version"] == row["version"]
    await here.patch(work, row["version"], headline("Two"))
    answer = await here.control("finish_run", work, {"state": "completed", "metrics": {"tool_calls": 3}})
    assert answer.body is not None
    row = stage.row(work.run_id)
    assert row["document"] == {"headline": "Two", "metrics": {"tool_calls": 3}}
    assert answer.version == row["version"]
    assert len(here.plane) == 0, "an ended run has left the plane"


async def test_the_end_by_others_keeps_what_was_patched_last(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    await here.plane._keeper._saves.stop()
    version = await here.patch(
        work,
        stage.row(work.run_id)["version"],
        headline("One"),
    )
    version = await here.patch(work, version, headline("Two"))
    device = await here.look(work.run_id)
    # Another process ends it, with metrics, and says nothing.
    outcome = await stage.finish(work, metrics={"tool_calls": 3})
    assert outcome.body["version"] > version
    row = await eventually(lambda: stage.row(work.run_id)["document_final"] and stage.row(work.run_id))
    assert row["document"] == {"headline": "Two", "metrics": {"tool_calls": 3}}
    assert (row["version"], row["live_owner"]) == (outcome.body["version"] + 1, None)
    await eventually(lambda: device.run["version"] == row["version"])
    assert quiet(device.run) == quiet(await here.get_run(work.run_id))
    assert here.ended == [work.run_id]
    here.leave(work.run_id, device)
    assert len(here.plane) == 0
    with pytest.raises(PatchRefused) as ended:
        await here.patch(work, row["version"], headline("Three"))
    assert ended.value.code == "run_ended"
    assert quiet(ended.value.extra["run"]) == quiet(await here.get_run(work.run_id))


async def test_a_conflict_after_every_raise_and_devices_follow(stage: Stage, here: Process) -> None:
    message, work = await stage.working()
    device = await here.look(work.run_id)
    version = device.run["version"]
    raises = [
        lambda: stage.step(work),
        lambda: stage.say("alex", message["thread_id"]),
        lambda: stage.cancel("alex", work.run_id),
        lambda: stage.beat(work, cancel_seen=True),
    ]
    for index, foreign in enumerate(raises):
        version = await here.patch(work, version, headline(f"{index}"))
        await foreign()
        run = await here.get_run(work.run_id)
        assert run["version"] > version
        assert run["headline"] == f"{index}", "older than an acknowledged patch"
        with pytest.raises(PatchRefused) as conflict:
            await here.patch(work, version, headline("late"))
        assert conflict.value.code == "version_conflict"
        version = conflict.value.extra["run"]["version"]
        assert quiet(conflict.value.extra["run"]) == quiet(await here.get_run(work.run_id))
        await eventually(lambda version=version: device.run["version"] == version)
        assert quiet(device.run) == quiet(await here.get_run(work.run_id))
    assert device.versions == sorted(set(device.versions))


async def test_versions_are_set_aside_before_they_are_used(stage: Stage) -> None:
    _, work = await stage.working()
    async with Process(stage, run__version_block=4, run__checkpoint_interval=600) as here:
        version = stage.row(work.run_id)["version"]
        for index in range(50):
            version = await here.patch(work, version, headline(f"{index}"), quick=True)
            row = stage.row(work.run_id)
            assert row["version"] <= version <= row["version_reserved"]


async def test_a_stop_saves_all_and_gives_it_up(stage: Stage, here: Process) -> None:
    works = [(await stage.working())[1] for _ in range(3)]
    await here.plane._keeper._saves.stop()
    versions = {}
    for work in works:
        versions[work.run_id] = await here.patch(work, stage.row(work.run_id)["version"], headline(work.run_id))
    await here.plane.stop()
    for work in works:
        row = stage.row(work.run_id)
        assert (row["document"], row["version"]) == ({"headline": work.run_id}, versions[work.run_id])
        assert row["live_owner"] is None
    assert stage.sql("SELECT * FROM livebox.live_owners") == []


async def test_a_renewed_token_is_used_at_once(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("1"))
    renewed = await stage.renew(work)
    version = await here.patch(work, version, headline("2"), quick=True)
    version = await here.patch(renewed, version, headline("3"), quick=True)
    assert stage.row(work.run_id)["renewed_from_jti"] is None
    with pytest.raises(PatchRefused) as refused:
        await here.patch(work, version, headline("4"), quick=True)
    assert refused.value.code == "token_renewed"
    assert await here.patch(renewed, version, headline("5"), quick=True) == version + 1


async def test_what_the_gateway_does_not_know_is_asked(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("1"))
    for wrong in (
        {**work.invocation, "jti": work.run_id},
        {**work.invocation, "run_id": work.invocation["jti"]},
        {**work.invocation, "expires_at": 1.0},
    ):
        codes = []
        for quick in (True, False):
            with pytest.raises(PatchRefused) as refused:
                await here.patch(
                    type(work)(work.agent, {**wrong, "run_id": wrong["run_id"]}, work.item),
                    version,
                    headline("2"),
                    quick=quick,
                )
            codes.append(refused.value.code)
        assert codes[0] == codes[1]
    here.ahead = 1e6
    with pytest.raises(PatchRefused) as conflict:  # the clock of the database decides
        await here.patch(work, version + 1, headline("2"), quick=True)
    assert conflict.value.code == "version_conflict"
    other = type(work)("texter", work.invocation, work.item)
    with pytest.raises(PatchRefused) as hidden:
        await here.patch(other, version, headline("2"), quick=True)
    assert hidden.value.code in ("forbidden", "not_found")


async def test_too_fast(stage: Stage) -> None:
    _, work = await stage.working()
    async with Process(stage, run__patch_rate=0.01, run__patch_burst=3) as here:
        version = stage.row(work.run_id)["version"]
        for index in range(3):
            version = await here.patch(work, version, headline(f"{index}"), quick=True)
        for quick in (True, False):
            with pytest.raises(PatchRefused) as refused:
                await here.patch(work, version, headline("late"), quick=quick)
            assert refused.value.code == "rate_limited"
            assert refused.value.wait > 1
        _, other = await stage.working()
        await here.patch(other, stage.row(other.run_id)["version"], headline("another run"))


async def test_a_patch_is_a_sign_of_life_and_of_progress(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("1"))
    await here.patch(work, version, headline("2"), quick=True)
    before = stage.row(work.run_id)
    await here.life.flush()
    after = stage.row(work.run_id)
    assert after["last_progress_at"] > before["last_progress_at"]
    assert after["last_heartbeat_at"] > before["state_changed_at"]


async def test_what_an_error_of_the_database_leaves(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    stage.sql("ALTER FUNCTION livebox.save_live(jsonb) RENAME TO save_live_aside")
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("1"))
    with pytest.raises(DatabaseError):
        await here.plane._keeper.save()
    stage.sql("ALTER FUNCTION livebox.save_live_aside(jsonb) RENAME TO save_live")
    await eventually(lambda: stage.row(work.run_id)["version"] == version)
