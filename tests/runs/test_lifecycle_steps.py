"""Steps: parents, closing with the run, and the summary that the oldest of very many become."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.runs.stage import LIMITS, Stage, Work

MOST = LIMITS["run.max_steps_persisted"]


def steps(stage: Stage, run: str) -> list[dict[str, Any]]:
    return stage.sql("SELECT * FROM livebox.run_steps WHERE run_id = %s ORDER BY ordinal", run)


def whole(stage: Stage, run: str) -> None:
    """No reference dangles, and the count is that of all steps that were ever recorded."""
    found = steps(stage, run)
    ids = {step["id"] for step in found}
    assert {step["parent_step_id"] for step in found} - {None} <= ids
    summaries = [step for step in found if step["name"] == "earlier_steps"]
    assert len(summaries) <= 1
    gone = sum(step["stands_for"] for step in summaries)
    assert len(found) - len(summaries) + gone == stage.row(run)["step_count"]
    for step in summaries:
        detail = step["detail"]
        assert detail["steps"] == gone
        assert detail["completed"] + detail["failed"] + detail["cancelled"] == gone


async def record(stage: Stage, work: Work, count: int, **more: Any) -> list[str]:
    made = []
    for _ in range(count):
        outcome = await stage.step(work, **{"status": "completed", **more})
        assert outcome.code == "ok", outcome
        made.append(outcome.body["id"])
    return made


async def test_up_to_the_limit_all_are_kept(stage: Stage) -> None:
    _, work = await stage.working()
    made = await record(stage, work, MOST)
    assert [step["id"] for step in steps(stage, work.run_id)] == made


async def test_oldest_finished_become_one_summary(stage: Stage) -> None:
    _, work = await stage.working()
    made = await record(stage, work, MOST + 1)
    found = steps(stage, work.run_id)
    assert len(found) == MOST
    summary = found[0]
    assert (summary["kind"], summary["name"], summary["status"]) == ("status", "earlier_steps", "completed")
    assert summary["detail"] == {"steps": 2, "completed": 2, "failed": 0, "cancelled": 0}
    assert (summary["ordinal"], summary["title"]) == (1, "2 earlier steps")
    assert [step["id"] for step in found[1:]] == made[2:]
    whole(stage, work.run_id)


async def test_summary_grows_and_stays_one(stage: Stage) -> None:
    _, work = await stage.working()
    await record(stage, work, MOST + 1)
    (first, *_) = steps(stage, work.run_id)
    await record(stage, work, 5, status="failed")
    await record(stage, work, MOST)
    found = steps(stage, work.run_id)
    assert len(found) == MOST
    assert found[0]["id"] == first["id"]
    assert found[0]["detail"] == {"steps": MOST + 7, "completed": MOST + 2, "failed": 5, "cancelled": 0}
    assert found[0]["started_at"] == first["started_at"]
    assert found[0]["finished_at"] > first["finished_at"]
    whole(stage, work.run_id)
    run = (await stage.run("alex", work.run_id)).body
    assert run["step_count"] == 2 * MOST + 6
    listed = (await stage.read("list_run_steps", "alex", run_id=work.run_id)).body["items"]
    assert [step["id"] for step in listed] == [step["id"] for step in found]
    assert (await stage.finish(work)).body["step_count"] == 2 * MOST + 6


async def test_what_still_runs_is_kept(stage: Stage) -> None:
    _, work = await stage.working()
    running = await record(stage, work, 3, status="running")
    await record(stage, work, 2 * MOST)
    found = steps(stage, work.run_id)
    assert [step["id"] for step in found[:3]] == running
    assert len(found) == MOST
    whole(stage, work.run_id)


async def test_more_running_than_the_limit_are_all_kept(stage: Stage) -> None:
    _, work = await stage.working()
    running = await record(stage, work, MOST + 5, status="running")
    assert [step["id"] for step in steps(stage, work.run_id)] == running


@pytest.mark.parametrize("child", ["running", "completed"])
async def test_parent_goes_after_its_children(stage: Stage, child: str) -> None:
    _, work = await stage.working()
    (parent,) = await record(stage, work, 1)
    (inner,) = await record(stage, work, 1, parent_step_id=parent)
    (leaf,) = await record(stage, work, 1, parent_step_id=inner, status=child)
    for _ in range(2 * MOST):
        await record(stage, work, 1)
        whole(stage, work.run_id)
    kept = {step["id"] for step in steps(stage, work.run_id)}
    assert kept & {parent, inner, leaf} == ({parent, inner, leaf} if child == "running" else set())
    if child == "running":
        await stage.control("update_run_step", work, {"status": "completed"}, step_id=leaf)
        await record(stage, work, 3)
        assert not {step["id"] for step in steps(stage, work.run_id)} & {parent, inner, leaf}
        whole(stage, work.run_id)


async def test_nobody_hangs_a_step_on_the_summary_or_changes_it(stage: Stage) -> None:
    _, work = await stage.working()
    made = await record(stage, work, MOST + 1)
    summary = steps(stage, work.run_id)[0]["id"]
    before = stage.image(work.run_id)
    for gone in (summary, made[0], str(uuid.uuid4())):
        refused = await stage.step(work, parent_step_id=gone)
        assert (refused.code, refused.body["errors"][0]["pointer"]) == ("validation_failed", "/parent_step_id")
    assert (await stage.step(work, summary)).code == "step_id_reused"
    late = await stage.control("update_run_step", work, {"title": "mine"}, step_id=summary)
    assert late.code == "step_finished"
    assert stage.image(work.run_id) == before


async def test_steps_of_a_tree_close_with_the_run(stage: Stage) -> None:
    _, work = await stage.working()
    (parent,) = await record(stage, work, 1, status="running")
    await record(stage, work, 2, parent_step_id=parent, status="running")
    run = (await stage.finish(work, "failed", reason="runtime_error")).body
    assert {step["status"] for step in run["steps"].values()} == {"failed"}
    assert {step["finished_at"] for step in run["steps"].values()} == {run["finished_at"]}


@pytest.mark.parametrize("name", ["earlier_steps", "adapter_reason"])
async def test_names_that_only_the_server_gives(stage: Stage, name: str) -> None:
    _, work = await stage.working()
    before = stage.image(work.run_id)
    refused = await stage.step(work, name=name)
    assert (refused.code, refused.body["errors"][0]["pointer"]) == ("validation_failed", "/name")
    assert stage.image(work.run_id) == before
    assert (await stage.step(work, name=name + "_")).code == "ok"
