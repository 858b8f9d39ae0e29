"""The first frames of a session, and where it goes on from."""

from __future__ import annotations

from tests.fixtures.stage import Stage
from tests.gateway.device import Devices


async def test_hello_is_answered_by_ready(devices: Devices, stage: Stage) -> None:
    run = stage.running().run
    device = await devices.connect()
    ready = await device.ask("hello", token=stage.live.tokens["alex"])
    assert ready["type"] == "ready"
    assert ready["principal"]["handle"] == "alex"
    assert run["id"] in [found["id"] for found in ready["active_runs"]]
    assert ready["seq"] == stage.as_("alex").call("getSnapshot").ok()["seq"]
    assert device.socket.protocol == "livebox.v1"


async def test_events_follow_as_they_happen(devices: Devices, stage: Stage) -> None:
    alex = await devices.enter("alex")
    thread_id = stage.thread()
    message = stage.message(thread_id)
    event = await alex.event("message.created", thread_id=thread_id)
    assert event["payload"]["message"]["id"] == message["id"]


async def test_a_focused_thread_shows_its_run(devices: Devices, stage: Stage) -> None:
    held = stage.running()
    alex = await devices.enter("alex")
    answer = await alex.ask("focus", thread_ids=[held.run["thread_id"]])
    assert answer["type"] == "result", answer
    assert answer["thread_ids"] == [held.run["thread_id"]]
    assert alex.documents[held.id]["state"] == "running"
    lotse = await devices.enter("lotse")
    version = alex.documents[held.id]["version"]
    op = {"op": "add", "path": "/headline", "value": "Reading"}
    patched = await lotse.ask("run.update", run_id=held.id, invocation=held.token, base_version=version, ops=[op])
    assert patched["type"] == "result", patched
    await alex.until(lambda: alex.documents[held.id]["version"] == patched["version"])
    assert alex.documents[held.id]["headline"] == "Reading"
    assert not alex.gaps
