"""Two processes on one database: what one of them remembers never hides what the other wrote."""

from __future__ import annotations

from typing import Any

from tests.fixtures.stage import Held, Stage


def patched(stage: Stage, held: Held, **members: Any) -> None:
    """Put members into the live content of a run, through this process."""
    version = stage.as_("lotse").call("getRun", run_id=held.id).ok()["version"]
    ops = [{"op": "add", "path": path, "value": value} for path, value in members.items()]
    body = {"base_version": version, "ops": ops}
    stage.as_("lotse").call("patchRun", body, headers=held.headers, run_id=held.id).ok()


def shown(stage: Stage, run_id: str) -> dict[str, str]:
    items = stage.as_("alex").call("listRunSnapshots", run_id=run_id).ok()["items"]
    return {item["run_id"].removeprefix(run_id): item["state"] for item in items}


def test_what_the_other_wrote_shows_at_once(twins: tuple[Stage, Stage]) -> None:
    here, there = twins
    for _ in range(5):
        held = here.running()
        step = here.step(held, kind="subagent", name="reader")["id"]
        entry = {"name": "reader", "state": "waiting_model", "step_id": step}
        patched(here, held, **{"/subagents/a": entry, "/waiting_on": "child"})
        assert shown(here, held.id) == {"": "waiting_tool", ":subagents:a": "waiting_model"}
        wire = there.as_("lotse")
        body = {"status": "completed"}
        wire.call("updateRunStep", body, headers=held.headers, run_id=held.id, step_id=step).ok()
        for stage in twins:
            assert shown(stage, held.id).get(":subagents:a", "terminal") == "terminal"
        assert shown(here, held.id)[":subagents:a"] == "terminal"
        assert there.as_("alex").call("cancelRun", {}, run_id=held.id).status == 202
        assert {shown(stage, held.id)[""] for stage in twins} == {"stopping"}
        wire.call("finishRun", {"state": "cancelled"}, headers=held.headers, run_id=held.id)
        for stage in twins:
            assert set(shown(stage, held.id).values()) == {"terminal"}
