"""Metrics, logs and trace context: counted once, closed attributes, no secrets, no ids."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from livebox import log
from livebox.telemetry import ActiveRuns, Telemetry
from livebox.trace import Trace


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry(["stale", "user_cancelled"])
    yield made
    made.close()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    log.configure("info", "json", stream)
    yield stream
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def samples(telemetry: Telemetry, name: str) -> list[tuple[dict[str, str], float]]:
    text = telemetry.exposition().decode()
    return [
        ({name: value for name, value in sample.labels.items() if value}, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


def transition(**members: Any) -> dict[str, Any]:
    return {"kind": "run.transition", **members}


def test_leaving_queued_measures_the_start(telemetry: Telemetry) -> None:
    start = {"from": "queued", "billing_mode": "personal", "queued_s": 2.5}
    telemetry.record([transition(to="queued"), transition(to="running", **start)])
    telemetry.record([transition(to="failed", reason="stale", **start)])
    telemetry.record([transition(**{"from": "running"}, to="waiting_input")])
    telemetry.record([transition(**{"from": "waiting_input"}, to="running")])
    assert samples(telemetry, "livebox_run_start_latency_seconds_sum") == [
        ({"billing_mode": "personal", "outcome": "started"}, 2.5),
        ({"billing_mode": "personal", "outcome": "failed"}, 2.5),
    ]


def test_an_end_is_counted_with_a_reason_of_the_table_or_other(telemetry: Telemetry) -> None:
    for state, reason in (("completed", None), ("failed", "stale"), ("failed", "made up"), ("cancelled", None)):
        effect = transition(**{"from": "running"}, to=state, duration_s=4)
        telemetry.record([effect | ({"reason": reason} if reason else {})])
    assert samples(telemetry, "livebox_run_finished_total") == [
        ({"state": "completed"}, 1),
        ({"reason": "stale", "state": "failed"}, 1),
        ({"reason": "other", "state": "failed"}, 1),
        ({"reason": "other", "state": "cancelled"}, 1),
    ]
    durations = {labels["state"]: count for labels, count in samples(telemetry, "livebox_run_duration_seconds_count")}
    assert durations == {"completed": 1, "failed": 2, "cancelled": 1}


def test_a_run_that_never_started_has_no_duration(telemetry: Telemetry) -> None:
    telemetry.record([transition(**{"from": "queued"}, to="cancelled", reason="user_cancelled", queued_s=1)])
    assert samples(telemetry, "livebox_run_duration_seconds_count") == []
    assert samples(telemetry, "livebox_run_finished_total") == [({"reason": "user_cancelled", "state": "cancelled"}, 1)]


def test_the_gauge_shows_the_last_query_only(telemetry: Telemetry) -> None:
    telemetry.active([ActiveRuns("lotse", "queued", 2), ActiveRuns("texter", "running", 1)])
    assert len(samples(telemetry, "livebox_run_active")) == 2
    telemetry.active([ActiveRuns("lotse", "running", 3)])
    assert samples(telemetry, "livebox_run_active") == [({"agent": "lotse", "state": "running"}, 3)]


def test_requests_fill_a_histogram(telemetry: Telemetry) -> None:
    for seconds in (0.0005, 0.001, 0.03, 60):
        telemetry.request("getRun", 200, seconds)
    telemetry.request("other", 404, 0.001)
    name = "livebox_http_duration_seconds"
    assert samples(telemetry, f"{name}_count") == [
        ({"operation": "getRun", "status": "200"}, 4),
        ({"operation": "other", "status": "404"}, 1),
    ]
    buckets = {
        labels["le"]: count for labels, count in samples(telemetry, f"{name}_bucket") if labels["operation"] == "getRun"
    }
    assert (buckets["0.001"], buckets["0.025"], buckets["0.05"], buckets["+Inf"]) == (2, 2, 3, 4)


def test_a_batch_is_counted_once_and_each_wait(telemetry: Telemetry) -> None:
    telemetry.batch(3, [0.001, 0.002, 0.003])
    assert samples(telemetry, "livebox_lane_batch_size_sum") == [({}, 3)]
    assert samples(telemetry, "livebox_lane_batch_size_count") == [({}, 1)]
    assert samples(telemetry, "livebox_lane_wait_seconds_count") == [({}, 3)]


def test_rights_errors_are_counted_and_logged_without_ids(telemetry: Telemetry, lines: io.StringIO) -> None:
    secret = "0193a000-0000-7000-8000-00000000abcd"
    telemetry.record(
        [
            {"kind": "authz.error", "reason": "filter_mismatch", "run_id": secret},
            {"kind": "authz.error", "reason": secret},
            {"kind": "log", "level": "error", "event": "filter_mismatch", "reason": "denied", "run": secret},
            {"kind": "log", "level": "error", "event": f"about {secret}", "reason": secret},
        ]
    )
    assert samples(telemetry, "livebox_authz_errors_total") == [
        ({"reason": "filter_mismatch"}, 1),
        ({"reason": "other"}, 1),
    ]
    assert secret not in telemetry.exposition().decode() + lines.getvalue()
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(line["event"], line["level"], line.get("reason")) for line in logged] == [
        ("filter_mismatch", "error", "denied"),
        ("unnamed_fact", "error", None),
    ]


def test_what_is_for_handlers_is_not_counted_and_what_nobody_knows_is_told(
    telemetry: Telemetry, lines: io.StringIO
) -> None:
    before = telemetry.exposition()
    telemetry.record([{"kind": "invocation", "position": 0, "jti": "x"}])
    assert (telemetry.exposition(), lines.getvalue()) == (before, "")
    telemetry.record([{"kind": "made up", "id": "x"}])
    (line,) = lines.getvalue().splitlines()
    assert json.loads(line)["event"] == "unknown_effect"
    assert telemetry.exposition() == before


def test_two_servers_in_one_process_count_apart(telemetry: Telemetry) -> None:
    other = Telemetry([])
    other.request("getRun", 200, 0.1)
    assert samples(telemetry, "livebox_http_duration_seconds_count") == []
    other.close()


SECRETS = (
    "Bearer abc.def-123",
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
    "lbx_0123456789abcdef0123456789abcdef",
    "postgresql://livebox:sesame@db.example.com/livebox",
    "host=db.example.com password=sesame dbname=livebox",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_line_holds_no_secret_wherever_it_stands(secret: str, lines: io.StringIO) -> None:
    part = log.logger("test")
    part.error(f"went wrong with {secret} here")
    part.error("nested", context={"inner": [secret]})
    logging.getLogger("aiohttp.server").error("library says %s", secret)
    try:
        raise ValueError(f"failed on {secret}")
    except ValueError:
        part.exception("raised")
    text = lines.getvalue()
    assert text.count("\n") == 4
    assert text.count("********") == 4
    for piece in (secret, "sesame", "abc.def-123"):
        assert piece not in text


@pytest.mark.parametrize("name", ["token", "Authorization", "invocation_jwt", "db_password", "client_secret", "cookie"])
def test_a_member_with_a_telling_name_is_masked(name: str, lines: io.StringIO) -> None:
    log.logger("test").info("line", **{name: "open sesame"})
    assert "sesame" not in lines.getvalue()


def test_lines_are_json_with_the_ids_of_their_request(lines: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1", trace_id="t1"):
        log.logger("test").info("inside\n\u202e", count=1)
    log.logger("test").debug("too fine")
    (line,) = lines.getvalue().splitlines()
    assert json.loads(line).items() >= {"request_id": "r1", "trace_id": "t1", "event": "inside\n\u202e"}.items()


def test_a_trace_goes_on_with_a_span_of_ours() -> None:
    came = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    trace = Trace.of(came)
    assert trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert trace.span_id != "b7ad6b7169203331"
    assert trace.sampled
    assert Trace.of(trace.traceparent).trace_id == trace.trace_id
    assert not Trace.of(came[:-2] + "00").sampled
    assert Trace.of("01" + came[2:] + "-later").trace_id == trace.trace_id


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-" + "a" * 10_000,
    ],
)
def test_a_bad_header_starts_a_new_trace(header: str | None) -> None:
    first, second = Trace.of(header), Trace.of(header)
    assert first.trace_id != second.trace_id
    assert "0af7651916cd43dd8448eb211c80319c" not in first.traceparent


def test_turns_of_jobs_are_counted_by_outcome(telemetry: Telemetry) -> None:
    for job, ok in (("reaper", True), ("reaper", True), ("reaper", False), ("life", True)):
        telemetry.turn(job, ok)
    assert sorted(samples(telemetry, "livebox_job_turns_total"), key=str) == [
        ({"job": "life", "outcome": "done"}, 1.0),
        ({"job": "reaper", "outcome": "done"}, 2.0),
        ({"job": "reaper", "outcome": "failed"}, 1.0),
    ]
