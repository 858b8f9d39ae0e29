"""patchRun over HTTP: what it answers, in which order, and what people see of it."""

from __future__ import annotations

from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered


def patch(stage: Stage, held: Held, base: int, *ops: dict, agent: str = "lotse", **headers: str) -> Answered:
    return stage.as_(agent).call(
        "patchRun", {"base_version": base, "ops": list(ops)}, headers={**held.headers, **headers}, run_id=held.id
    )


def test_a_patch_is_seen_at_once(stage: Stage) -> None:
    held = stage.running()
    answer = patch(stage, held, held.run["version"], {"op": "add", "path": "/headline", "value": "Counting"}).ok()
    run = stage.as_("alex").call("getRun", run_id=held.id).ok()
    assert (run["version"], run["headline"]) == (answer["version"], "Counting")
