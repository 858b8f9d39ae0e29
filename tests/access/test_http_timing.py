"""How long a refusal takes does not tell whether something is there. The only test of times among the fast ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import absent, fresh

pytestmark = pytest.mark.long

ROUND = 20
"""Samples of each kind that are taken before the medians are looked at again."""
ROUNDS = 40
LARGE = "x" * 19_000


@pytest.fixture(scope="module")
def large(stage: Stage) -> Mapping[str, str]:
    """Ids of what is large: a run with a long document and many steps, in a thread with many long messages."""
    stage.principal("person", "stranger")
    held = stage.running()
    run = held.run
    for number in range(40):
        stage.step(held, detail={"files": number, "text": LARGE[:4000]})
        stage.message(run["thread_id"], "robin", LARGE)
    document = json.dumps({"text": {"content": LARGE * 3}, "headline": "Reading"})
    stage.sql(
        "UPDATE livebox.runs SET document = %s, version = version + 1, version_reserved = version_reserved + 1"
        " WHERE id = %s",
        document,
        held.id,
    )
    shown = stage.as_("alex").call("getRun", run_id=held.id)
    assert len(shown.raw) > 100_000
    channel_id = stage.world.channels[ROOM]
    return {
        "run_id": held.id,
        "thread_id": run["thread_id"],
        "message_id": stage.message(run["thread_id"], "robin", LARGE)["id"],
        "channel_id": channel_id,
        "grant_id": stage.grant(stage.principal(), "read", channel_id=channel_id)["id"],
    }


# Operation -> the name of the id that is hidden or absent, and the body.
ASKED: Mapping[str, tuple[str, Any]] = {
    "getRun": ("run_id", None),
    "listRunSteps": ("run_id", None),
    "cancelRun": ("run_id", {}),
    "getThread": ("thread_id", None),
    "listThreadMessages": ("thread_id", None),
    "listThreadRuns": ("thread_id", None),
    "createMessage": ("thread_id", {"body": "Hello", "client_msg_id": fresh()}),
    "deleteThread": ("thread_id", None),
    "getMessage": ("message_id", None),
    "editMessage": ("message_id", {"body": "Hello"}),
    "deleteMessage": ("message_id", None),
    "updateChannel": ("channel_id", {"read_only": True}),
    "createThread": ("channel_id", {"title": "Mine"}),
    "revokeAccess": ("grant_id", None),
}


@pytest.mark.parametrize("operation", ASKED)
def test_hidden_takes_as_long_as_absent(stage: Stage, large: Mapping[str, str], operation: str) -> None:
    """The medians of interleaved samples come as near to each other as the configuration promises."""
    name, body = ASKED[operation]
    tolerance = stage.live.settings.number("authz.not_found_timing_tolerance")
    wire = stage.as_("stranger")
    hidden: list[float] = []
    nothing: list[float] = []
    gone = absent()  # one for all samples: what listens in this process takes longer over each path that is new
    for round_ in range(ROUNDS):
        for number in range(ROUND):
            pair = [(large[name], hidden), (gone, nothing)]
            for id_, samples in pair if number % 2 else reversed(pair):
                wire.call(operation, body, **{name: id_}).refused(404, "not_found")
                samples.append(wire.seconds)
        apart = abs(median(hidden) / median(nothing) - 1)
        if round_ and apart <= tolerance:
            return
    raise AssertionError(f"{median(hidden) * 1000:.2f} ms when hidden, {median(nothing) * 1000:.2f} ms when absent")


def test_a_hidden_place_in_a_filter_takes_as_long_as_none(stage: Stage, large: Mapping[str, str]) -> None:
    tolerance = stage.live.settings.number("authz.not_found_timing_tolerance")
    dm = stage.dm("alex", "sam")["id"]
    thread_id = stage.thread(dm, "alex")
    for _ in range(20):
        stage.message(thread_id, "alex", LARGE)
    hidden: list[float] = []
    nothing: list[float] = []
    gone = absent()
    for _ in range(ROUNDS):
        for _ in range(ROUND):
            for id_, samples in ((dm, hidden), (gone, nothing)):
                answer = stage.as_(OWNER).call("listThreads", query={"channel_id": id_})
                assert answer.ok() == {"items": []}
                samples.append(stage.as_(OWNER).seconds)
        if abs(median(hidden) / median(nothing) - 1) <= tolerance:
            return
    raise AssertionError(f"{median(hidden) * 1000:.2f} ms when hidden, {median(nothing) * 1000:.2f} ms when absent")
