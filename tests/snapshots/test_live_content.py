"""What a process remembers of a run counts only while it serves that run."""

from __future__ import annotations

from tests.live.conftest import here, stage, there
from tests.live.process import Process, headline
from tests.live.test_processes import patched_in_time
from tests.runs.stage import Stage

__all__ = ["here", "stage", "there"]


async def test_content_is_that_of_who_serves_the_run(stage: Stage, here: Process, there: Process) -> None:
    _, work = await stage.working()
    assert here.plane.content(work.run_id, 0) is None
    version = await here.patch(work, stage.row(work.run_id)["version"], headline("here"))
    epoch = stage.row(work.run_id)["live_epoch"]
    assert here.plane.content(work.run_id, epoch) == {"headline": "here"}
    assert here.plane.content(work.run_id, epoch + 1) is None, "the row knows of an owner after it"
    device = await there.look(work.run_id)
    assert there.plane.content(work.run_id, 0) is None, "who only looks on does not serve it"
    there.leave(work.run_id, device)
    device = await here.look(work.run_id)
    await patched_in_time(there, work, version, "there")
    assert here.plane.content(work.run_id, 0) is None
    assert there.plane.content(work.run_id, epoch + 1) == {"headline": "there"}
    here.leave(work.run_id, device)
