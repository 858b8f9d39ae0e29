"""What the operations report about runs becomes metrics once, without ids, and refusals report nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec
import pytest

from livebox.telemetry import ActiveRuns, Telemetry
from tests.runs.stage import Outcome, Stage


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry(["runtime_error", "user_cancelled"])
    yield telemetry
    telemetry.close()


def counted(telemetry: Telemetry, outcome: Outcome) -> list[str]:
    """The samples of runs after the outcome was recorded."""
    telemetry.record(outcome.effects)
    lines = telemetry.exposition().decode().splitlines()
    return [line for line in lines if line.startswith("livebox_run_") and ("_count" in line or "_total" in line)]


async def test_a_run_is_measured_from_queue_to_end(stage: Stage, telemetry: Telemetry) -> None:
    await stage.queued()
    (work,) = await stage.claim("lotse")
    started = "\n".join(counted(telemetry, await stage.start(work)))
    assert 'outcome="started"' in started
    assert 'billing_mode="organization"' in started
    repeated = await stage.start(work)
    assert repeated.effects == []
    ended = await stage.finish(work, "failed", reason="runtime_error")
    samples = "\n".join(counted(telemetry, ended))
    assert 'reason="runtime_error"' in samples
    assert "livebox_run_duration" in samples
    for name in (work.run_id, stage.id("lotse"), stage.id("alex")):
        assert name not in samples
        assert name not in str([effect for effect in ended.effects if effect["kind"] == "run.transition"])


async def test_refusals_report_nothing(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.finish(work)
    refused = [
        await stage.start(work),
        await stage.finish(work, "failed", reason="runtime_error"),
        await stage.step(work),
        await stage.cancel("alex", work.run_id),
        await stage.cancel("robin", work.run_id),
        await stage.cancel("alex", str(uuid.uuid4())),
    ]
    assert {outcome.code for outcome in refused} == {"run_ended", "not_found"}
    assert [outcome.effects for outcome in refused] == [[]] * len(refused)
    assert message["trigger_state"] == "received"


async def test_gauge_counts_by_agent_and_state(stage: Stage, telemetry: Telemetry) -> None:
    await stage.working()
    await stage.queued()
    await stage.queued()
    await stage.queued("owner", "Marketing/General", "texter")
    answer = await stage.db.readers.call("count_active_runs", None, {})
    rows = msgspec.json.decode(answer.body or b"", type=list[ActiveRuns])
    assert [tuple(row) for row in rows] == [("lotse", "queued", 2), ("lotse", "running", 1), ("texter", "queued", 1)]
    telemetry.active(rows)
    assert 'agent="lotse",state="queued"' in telemetry.exposition().decode().replace(" ", "")
