"""What a running server measures, as its /metrics says it."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.server import Live
from tests.fixtures.stage import Stage

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def own_stage(own_live: Live) -> Iterator[Stage]:
    """The world of a server of this test's own, that has measured nothing of runs yet."""
    stage = Stage(own_live)
    yield stage
    stage.close()


def measured(live: Live) -> dict[tuple[str, ...], float]:
    """Every sample: (name, label, value, label, value, ...) -> number."""
    with urllib.request.urlopen(f"{live.url}/metrics", timeout=60) as answer:  # noqa: S310 - http, our own server
        text = answer.read().decode()
    assert UUID.search(text) is None
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [part for item in sorted(sample.labels.items()) if item[1] for part in item]
            found[sample.name, *labels] = sample.value
    return found


def gauges(live: Live) -> dict[tuple[str, str], float]:
    """The gauge of active runs by agent and state."""
    return {(key[2], key[4]): value for key, value in measured(live).items() if key[0] == "livebox_run_active"}


def test_a_run_is_measured_from_its_queue_to_its_end(own_stage: Stage, own_live: Live) -> None:
    assert gauges(own_live) == {}
    own_stage.queued()
    own_stage.queued(agent="texter")
    held = own_stage.running()
    assert gauges(own_live) == {("lotse", "queued"): 1, ("lotse", "running"): 1, ("texter", "queued"): 1}

    again = own_stage.as_("lotse").call("startRun", {}, headers=held.headers, run_id=held.id)
    assert again.ok()["state"] == "running"
    end = {"state": "failed", "reason": "runtime_error"}
    for _ in range(2):
        own_stage.as_("lotse").call("finishRun", end, headers=held.headers, run_id=held.id).ok()
    own_stage.as_("lotse").call("startRun", {}, headers=held.headers, run_id=held.id)  # refused: it has ended

    assert gauges(own_live) == {("lotse", "queued"): 1, ("texter", "queued"): 1}
    found = measured(own_live)
    start = ("billing_mode", "organization", "outcome", "started")
    assert found["livebox_run_start_latency_seconds_count", *start] == 1
    assert found["livebox_run_duration_seconds_count", "state", "failed"] == 1
    ends = {key: value for key, value in found.items() if key[0] == "livebox_run_finished_total"}
    assert ends == {("livebox_run_finished_total", "reason", "runtime_error", "state", "failed"): 1}


def test_a_run_that_never_started_has_waited_and_not_lasted(own_stage: Stage, own_live: Live) -> None:
    run = own_stage.queued()
    for _ in range(2):
        own_stage.as_("alex").call("cancelRun", run_id=run["id"]).ok()
    found = measured(own_live)
    waited = ("billing_mode", "organization", "outcome", "cancelled")
    assert found["livebox_run_start_latency_seconds_count", *waited] == 1
    assert found["livebox_run_finished_total", "reason", "user_cancelled", "state", "cancelled"] == 1
    assert not [key for key in found if key[0].startswith("livebox_run_duration")]


def test_requests_and_batches_are_counted(own_stage: Stage, own_live: Live) -> None:
    before = measured(own_live)
    run = own_stage.queued()
    for _ in range(3):
        own_stage.as_("owner").call("getRun", run_id=run["id"]).ok()
    own_stage.as_("robin").call("getRun", run_id="01933b7e-0000-7000-8000-0000000000ff")
    after = measured(own_live)
    seconds = "livebox_http_duration_seconds_count"
    ok, hidden = (seconds, "operation", "getRun", "status", "200"), (seconds, "operation", "getRun", "status", "404")
    assert after[ok] - before.get(ok, 0) == 4
    assert after[hidden] - before.get(hidden, 0) == 1
    batches, operations = ("livebox_lane_batch_size_count",), ("livebox_lane_wait_seconds_count",)
    # One thread and one message, each a batch of its own: nobody else is writing.
    assert after[batches] - before.get(batches, 0) == 2
    assert after[operations] - before.get(operations, 0) == 2
