"""A change of rights is answered when the local feed has come to it; if that takes too long, nothing live is shown."""

from __future__ import annotations

import asyncio

import pytest

from generated.operations import OPERATIONS
from livebox.context import Context
from livebox.world import OWNER
from tests.fixtures.waiting import eventually
from tests.gateway.work_stand import Stand
from tests.runs.conftest import stage
from tests.runs.stage import Stage

__all__ = ["stage"]

PATIENCE = "livebox.context.FEED_PATIENCE"


def grant(stand: Stand, who: str = OWNER) -> Context:
    """Giving Sam a right, as somebody."""
    return Context(stand.plant, OPERATIONS["grantAccess"], stand.stage.caller(who), {})


def request(stand: Stand) -> dict[str, str]:
    channels = stand.stage.world.channels
    return {"principal_id": stand.stage.id("sam"), "channel_id": channels["Support/Escalation"], "level": "read"}


async def test_it_is_answered_when_open_sessions_have_it(stage: Stage) -> None:
    stand = Stand(stage)
    stand.plant.feed = stand.feed
    position = stage.sql("SELECT livebox.last_seq() AS seq")[0]["seq"]
    answering = asyncio.create_task(grant(stand).write("grant_access", {}, request(stand)))
    await eventually(lambda: stage.sql("SELECT 1 FROM livebox.events WHERE seq > %s", position) != [], "the commit")
    await eventually(lambda: stand.feed._waiting, "the wait for the feed")
    assert not answering.done()
    await stand.feed.start(position)
    assert (await answering).code == "created"
    assert not stand.feed.lagging
    await stand.feed.stop()


async def test_if_that_takes_too_long_nothing_may_be_shown(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATIENCE, 0.01)
    stand = Stand(stage)
    stand.plant.feed = stand.feed
    position = stage.sql("SELECT livebox.last_seq() AS seq")[0]["seq"]
    stand.feed.position = position
    assert (await grant(stand).write("grant_access", {}, request(stand))).code == "created"
    assert stand.feed.lagging
    await stand.feed.start(position)
    await eventually(lambda: not stand.feed.lagging, "the feed")
    await stand.feed.stop()


async def test_refusals_and_messages_wait_for_nothing(stage: Stage) -> None:
    stand = Stand(stage)
    stand.plant.feed = stand.feed
    assert (await grant(stand, "sam").write("grant_access", {}, request(stand))).code == "not_found"
    say = Context(stand.plant, OPERATIONS["createMessage"], stage.caller("alex"), {})
    parameters = {"thread_id": stage.world.threads["Support/General"]}
    body = {"body": "x", "client_msg_id": "1"}
    limits = ("event.body_max_bytes", "run.followups_max")
    assert (await say.write("create_message", parameters, body, limits=limits)).code == "created"
    assert not stand.feed.lagging
