"""Two processes on one database: who serves a run, handing over, dying, and raises that come from elsewhere."""

from __future__ import annotations

import pytest

from livebox.live import plane as planes
from livebox.live.owner import is_dead, new_owner
from livebox.live.patch import PatchRefused
from tests.fixtures.waiting import eventually
from tests.live.process import Process, headline, quiet
from tests.runs.stage import Stage, Work


async def refused(process: Process, work: Work, version: int, *, quick: bool = False) -> PatchRefused:
    with pytest.raises(PatchRefused) as caught:
        await process.patch(work, version, headline("refused"), quick=quick)
    return caught.value


async def patched_in_time(process: Process, work: Work, version: int, text: str) -> int:
    """Patch as an adapter does that follows its answers."""
    asked: list[int] = [version]

    async def once() -> int:
        told = await process.tried(work, asked[-1], headline(text))
        if not isinstance(told, PatchRefused):
            return told
        if told.code == "version_conflict":
            asked.append(told.extra["run"]["version"])
        else:
            assert (told.code, told.wait > 0) == ("live_elsewhere", True)
        return 0

    return int(await eventually(once, "a patch that is taken"))


async def test_the_run_goes_where_its_holder_is(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    version = await patched_in_time(there, work, version, "there")
    row = stage.row(work.run_id)
    assert (row["live_owner"], row["live_epoch"]) == (there.plane.owner, 2)
    assert not here.plane.serves(work.run_id)
    assert len(here.plane) == 0
    assert (await there.get_run(work.run_id))["headline"] == "there"
    assert await patched_in_time(here, work, version, "here again") > version


async def test_an_owner_that_is_patched_keeps_the_run(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    assert (await refused(there, work, version)).code == "live_elsewhere"
    await here.plane.handover([work.run_id])
    assert here.plane.serves(work.run_id), "patched a moment ago"
    await here.patch(work, version, headline("here"))


async def test_handing_over_loses_nothing(
    stage: Stage, here: Process, there: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planes, "QUIET", 0.0)
    _, work = await stage.working()
    version = stage.row(work.run_id)["version"]
    for turn in range(20):
        process = (here, there)[turn % 2]
        other = (there, here)[turn % 2]
        version = await patched_in_time(process, work, version, f"turn {turn}")
        await other.plane.poll()
        run = await process.get_run(work.run_id)
        assert (run["headline"], run["version"]) == (f"turn {turn}", version)
    assert stage.row(work.run_id)["live_epoch"] == 20


async def test_a_dead_owner_keeps_it_until_its_lease_ends(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("saved"))
    await eventually(lambda: stage.row(work.run_id)["version"] == version)
    version = await here.patch(work, version, headline("lost"))
    reserved = stage.row(work.run_id)["version_reserved"]
    await here.die()
    assert (await refused(there, work, version)).code == "live_elsewhere"
    taken = await patched_in_time(there, work, version, "there")
    assert taken > reserved >= version
    assert (await there.get_run(work.run_id))["version"] == taken


async def test_a_dead_owner_leaves_no_version_behind_that_was_seen(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    device = await there.look(work.run_id)
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("one"))
    for index in range(20):
        version = await here.patch(work, version, headline(f"{index}"), quick=True)
    await here.die()
    # Nobody patches, and the version comes up to what was seen all the same.
    await eventually(
        lambda: stage.row(work.run_id)["version"] >= version and stage.row(work.run_id)["live_owner"] is None
    )
    await eventually(lambda: device.run["version"] == stage.row(work.run_id)["version"])
    assert (await there.get_run(work.run_id))["version"] >= version
    there.leave(work.run_id, device)


async def test_a_process_that_starts_frees_what_dead_ones_of_its_machine_had(stage: Stage, here: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("one"))
    machine, _, unique = new_owner().split(".")
    gone = f"{machine}.999999999.{unique}"
    assert is_dead(gone)
    assert not is_dead(new_owner())
    assert not is_dead(f"elsewhere.999999999.{unique}")
    await here.die()
    stage.sql("INSERT INTO livebox.live_owners (owner) VALUES (%s)", gone)
    stage.sql("UPDATE livebox.runs SET live_owner = %s WHERE id = %s", gone, work.run_id)
    async with Process(stage, run__live_lease=600) as fresh:
        row = stage.row(work.run_id)
        assert (row["live_owner"], row["version"], row["live_epoch"]) == (None, row["version_reserved"], 2)
        assert row["version"] >= version
        assert await fresh.patch(work, row["version"], headline("two")) == row["version"] + 1


async def test_an_owner_that_was_taken_for_dead_saves_nothing(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("mine"))
    await here.plane._keeper._saves.stop()
    here.deaf = True
    await here.plane._polling.stop()
    await here.plane._keeper._touches.stop()
    version = await here.patch(work, version, headline("not saved"))
    stage.sql("DELETE FROM livebox.live_owners WHERE owner = %s", here.plane.owner)
    taken = await patched_in_time(there, work, version, "theirs")
    # By what it knows it still serves the run, as long as it asks nobody; nothing of that reaches anybody.
    told = await here.tried(work, version, headline("nobody sees"), quick=True)
    assert told == version + 1 or (isinstance(told, PatchRefused) and told.code == "live_elsewhere")
    await here.plane._keeper.save()
    await eventually(lambda: not here.plane.serves(work.run_id))
    assert (await here.get_run(work.run_id)).get("headline") != "nobody sees"
    await eventually(lambda: stage.row(work.run_id)["document"] == {"headline": "theirs"})
    assert stage.row(work.run_id)["version"] == taken


async def test_a_raise_elsewhere_while_patches_come(stage: Stage, here: Process, there: Process) -> None:
    message, work = await stage.working()
    devices = [await here.look(work.run_id), await there.look(work.run_id)]
    version, written = stage.row(work.run_id)["version"], ""
    for turn in range(10):
        for index in range(5):
            told = await here.tried(work, version, headline(f"{turn}.{index}"), quick=True)
            if isinstance(told, PatchRefused):
                assert told.code == "version_conflict"
                version = told.extra["run"]["version"]
            else:
                version, written = told, f"{turn}.{index}"
        if turn % 2:
            await there.control(
                "record_run_step",
                work,
                {"kind": "tool", "name": "x"},
                step_id=stage.row(work.run_id)["id"][:-1] + f"{turn}",
            )
        else:
            await stage.say("alex", message["thread_id"], body="more") if turn < 6 else None
        run = await here.get_run(work.run_id)
        assert run["headline"] == written
        assert run["version"] >= version
    await here.plane._keeper.save()
    shown = await here.get_run(work.run_id)
    await eventually(lambda: all(device.run["version"] == shown["version"] for device in devices))
    assert quiet(devices[0].run) == quiet(devices[1].run) == quiet(shown) == quiet(await there.get_run(work.run_id))
    here.leave(work.run_id, devices[0])
    there.leave(work.run_id, devices[1])


async def test_a_lost_poke_is_healed(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    here.deaf = there.deaf = True
    device = await there.look(work.run_id)
    await there.control("record_run_step", work, {"kind": "tool", "name": "x"}, step_id=work.run_id)
    await eventually(lambda: device.run.get("step_count") == 1 and device.run.get("headline") == "here")
    await eventually(
        lambda: (entry := here.plane._entries[work.run_id]).version > version and entry.server["step_count"] == 1
    )
    there.leave(work.run_id, device)


async def test_an_end_elsewhere_is_recorded_by_the_owner_once(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    await here.plane._keeper._saves.stop()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("first"))
    await here.patch(work, version, headline("last"))
    answer = await there.control("finish_run", work, {"state": "completed"})
    assert answer.version is not None
    row = await eventually(lambda: stage.row(work.run_id)["document_final"] and stage.row(work.run_id))
    assert (row["document"], row["version"]) == ({"headline": "last"}, answer.version + 1)
    await here.plane.poll()
    await there.plane.poll()
    assert stage.row(work.run_id)["version"] == row["version"]
    assert quiet(await here.get_run(work.run_id)) == quiet(await there.get_run(work.run_id))


async def test_the_end_while_the_owner_is_dead_keeps_the_last_save(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("saved"))
    await eventually(lambda: stage.row(work.run_id)["version"] == version)
    await here.die()
    await there.control("finish_run", work, {"state": "completed"})
    row = stage.row(work.run_id)
    assert (row["document"], row["document_final"], row["state"]) == ({"headline": "saved"}, False, "completed")
    assert row["document_as_of"] is not None
    assert (await there.get_run(work.run_id))["headline"] == "saved"


async def test_a_token_that_was_replaced_elsewhere(stage: Stage, here: Process, there: Process) -> None:
    message, work = await stage.waiting()
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    stage.later(3600)
    await stage.say("alex", message["thread_id"], body="This week")
    (again,) = await stage.claim("lotse", db=there.database)
    assert again.invocation["claim_id"] != work.invocation["claim_id"]
    await eventually(lambda: here.plane._entries[work.run_id].claim_id == again.invocation["claim_id"])
    version = (await here.get_run(work.run_id))["version"]
    for quick in (True, False):
        assert (await refused(here, work, version, quick=quick)).code in ("invocation_superseded", "token_expired")


async def test_who_looks_is_told_across_processes(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    heard: list[tuple[str, bool]] = []
    here.plane.watchers.on_watched = lambda run_id, watched: heard.append((run_id, watched))
    await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    assert not here.plane.is_watched(work.run_id)
    device = await there.look(work.run_id)
    assert here.plane.is_watched(work.run_id)
    assert heard == [(work.run_id, True)]
    there.leave(work.run_id, device)
    here.plane.watchers._until = dict.fromkeys(here.plane.watchers._until, 0.0)  # six seconds later
    await eventually(lambda: heard == [(work.run_id, True), (work.run_id, False)])
    mine = await here.look(work.run_id)
    here.leave(work.run_id, mine)
    assert heard[2:] == [(work.run_id, True), (work.run_id, False)]
