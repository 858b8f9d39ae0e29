"""Registered runs in the gateway: watched like any other, worked on by other means."""

from __future__ import annotations

from typing import Any

from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh
from tests.gateway.device import Devices

OUTSIDE = ("last_heartbeat_at", "last_progress_at", "document_as_of", "claimed_at")
"""What moves without a version."""
ADD = {"op": "add", "path": "/headline", "value": "Reading"}


def steady(document: dict[str, Any]) -> dict[str, Any]:
    """What two documents of one version have to agree in."""
    return {name: value for name, value in document.items() if name not in OUTSIDE}


async def test_its_agents_are_told_that_it_has_no_token(devices: Devices, stage: Stage) -> None:
    run = stage.registered(agents=["texter"])
    other = stage.running()
    asked = {
        "run.update": {"base_version": 1, "ops": [ADD]}, "heartbeat": {},
        "ack": {"work": "followup", "message_id": stage.followup(other)},
    }  # fmt: skip
    for who, code in (("lotse", "run_is_registered"), ("texter", "run_is_registered"), ("assistent", None)):
        device = await devices.enter(who, capabilities={"invocations": 0})
        for kind, members in asked.items():
            for invocation in ({}, {"invocation": other.token}, {"invocation": "nonsense"}):
                problem = await device.refused(kind, run_id=run["id"], **members, **invocation)
                assert problem["code"] == (code or ("invalid_token" if invocation else "validation_failed"))
                assert ("current" in problem) == (code is not None)
    assert stage.as_(OWNER).call("getRun", run_id=run["id"]).ok() == run


async def test_who_watches_it_hears_of_every_raise(devices: Devices, stage: Stage) -> None:
    run = stage.registered(agents=["texter"], user_id="alex", budget={"tokens": 10})
    alex, sam = await devices.enter("alex"), await devices.enter("sam")
    await alex.ask("focus", run_ids=[run["id"]])
    await sam.ask("focus", run_ids=[run["id"]])
    await alex.until(lambda: run["id"] in alex.documents, "the document")
    stage.as_("texter").call("updateRun", {"steps": 2}, run_id=run["id"]).ok()
    stage.as_("texter").call("recordRunStep", {"kind": "tool", "name": "x"}, run_id=run["id"], step_id=fresh()).ok()
    for tokens in (4, 6, 3):
        body = {"amount_micros": 5, "currency": "EUR", "tokens": tokens}
        stage.as_("lotse").call("recordSpend", body, run_id=run["id"], entry_id=fresh()).ok()
    last = stage.as_("alex").call("getRun", run_id=run["id"]).ok()
    assert (last["state"], last["state_reason"], last["cost"]["amount_micros"]) == ("failed", "budget_exhausted", 15)
    await alex.until(lambda: alex.documents[run["id"]]["version"] == last["version"], "the last version")
    assert steady(alex.documents[run["id"]]) == steady(last)
    assert not alex.gaps
    assert run["id"] not in str(sam.frames)
