"""What Livebox measures about itself: OpenTelemetry instruments, shown as Prometheus text.

Facts about runs come from the answers of the SQL layer, after their commit and once; a replayed batch brings none.
Attributes are closed sets (a state, a reason of the table, an operation of the contract); an id is never one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from generated.gateway_messages import CLOSES
from livebox import log

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_OUTCOMES: Final = {"running": "started", "failed": "failed", "cancelled": "cancelled"}
_BILLING_MODES: Final = frozenset({"personal", "organization"})
_AUTHZ_REASONS: Final = frozenset({"filter_mismatch", "trigger_decision_mismatch", "unexpected_denial"})

_CLOSE_CODES: Final = frozenset({1000, *(close.code for close in CLOSES.values())})

_RUN_SECONDS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
_START_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300)
_WAIT_SECONDS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_HTTP_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)


class ActiveRuns(NamedTuple):
    """How many runs of one agent are in one active state."""

    agent: str
    state: str
    runs: int


class Telemetry:
    """The instruments of one server. `reasons` are the codes of the run reason table."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self._reasons = frozenset(reasons)
        self._active: Sequence[ActiveRuns] = ()
        self._registry = CollectorRegistry()
        self._requests = _Requests()
        self._registry.register(self._requests)
        self._patches = _Patches()
        self._registry.register(self._patches)
        reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=self._registry)
        self._provider = MeterProvider([reader], Resource.get_empty(), shutdown_on_exit=False)
        meter = self._provider.get_meter("livebox")

        def histogram(name: str, unit: str, text: str, bounds: Sequence[float]) -> Any:
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self._start = histogram("livebox.run.start.latency", "s", "Time a run was queued", _START_SECONDS)
        self._duration = histogram("livebox.run.duration", "s", "Time from a run's start to its end", _RUN_SECONDS)
        self._batch = histogram("livebox.lane.batch_size", "1", "Operations that one commit grouped", _BATCH_SIZES)
        self._wait = histogram("livebox.lane.wait", "s", "Time an operation waited for its batch", _WAIT_SECONDS)
        self._finished = meter.create_counter("livebox.run.finished", "1", "Runs that ended")
        self._turns = meter.create_counter("livebox.job.turns", "1", "Turns of what runs by itself")
        self._authz = meter.create_counter("livebox.authz.errors", "1", "Rights decisions that contradict each other")
        self._lag = histogram("livebox.event.lag", "s", "Age of an event when it is handed to sessions", _WAIT_SECONDS)
        self._closes = meter.create_counter("livebox.gateway.closes", "1", "Sessions of the gateway that ended")
        self._dropped = meter.create_counter("livebox.gateway.dropped_patches", "1", "Frames that slow devices missed")
        self._sessions: Callable[[], int] = int
        self._watched: Callable[[], int] = int
        meter.create_observable_gauge(
            "livebox.gateway.sessions", [lambda _: [Observation(self._sessions())]], "1", "Open sessions"
        )
        meter.create_observable_gauge(
            "livebox.run.watchers", [lambda _: [Observation(self._watched())]], "1", "Sessions that look at a run"
        )
        meter.create_observable_gauge("livebox.run.active", [self._observe], "1", "Runs that have not ended")

    def record(self, effects: Iterable[Mapping[str, Any]]) -> None:
        """Count the facts of one committed answer. Call it once per answer, never for a refusal."""
        for effect in effects:
            match effect.get("kind"):
                case "run.transition":
                    self._transition(effect)
                case "authz.error":
                    reason = effect.get("reason")
                    self._authz.add(1, {"reason": reason if reason in _AUTHZ_REASONS else OTHER})
                case "log":
                    log.fact(effect)
                case "invocation" | "consequence" | "run.raised" | "run.live":  # for the handler, a job, the live plane
                    pass
                case _:
                    log.logger("telemetry").warning("unknown_effect")

    def request(self, operation: str, status: int, seconds: float) -> None:
        """Count one answered request; `operation` is an operationId, or `other` for an unknown route."""
        self._requests.add(operation, status, seconds)

    def patched(self, outcome: str) -> None:
        """Count one patch of live content; `outcome` is `applied` or the problem code of its refusal."""
        self._patches.add(outcome)

    def batch(self, size: int, waits: Iterable[float]) -> None:
        """Count one committed batch of the write lane; `waits` are the seconds that its operations waited for it."""
        self._batch.record(size)
        for seconds in waits:
            self._wait.record(seconds)

    def turn(self, job: str, ok: bool) -> None:
        """Count one turn of a job; `job` is one of the few that this process has."""
        self._turns.add(1, {"job": job, "outcome": "done" if ok else "failed"})

    def observe_gateway(self, sessions: Callable[[], int], watched: Callable[[], int]) -> None:
        """Whom the gauges ask: how many sessions are open, and how many look at a run, once for each run."""
        self._sessions, self._watched = sessions, watched

    def gateway_closed(self, code: int) -> None:
        """Count a session that ended with this close code; one that the contract does not name is `other`."""
        self._closes.add(1, {"code": str(code) if code in _CLOSE_CODES else OTHER})

    def patches_dropped(self, count: int) -> None:
        """Count frames that were left out for a device that is behind."""
        self._dropped.add(count)

    def event_lag(self, seconds: float) -> None:
        """Record how old an event was when it was handed to the sessions, by the clock of the database."""
        self._lag.record(max(0.0, seconds))

    def active(self, rows: Iterable[ActiveRuns]) -> None:
        """Set what the gauge of active runs shows; taken from one grouped query just before `exposition`."""
        self._active = tuple(rows)

    def exposition(self) -> bytes:
        """Everything measured, as Prometheus text (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Release the instruments."""
        self._provider.shutdown()

    def _transition(self, effect: Mapping[str, Any]) -> None:
        before, after = effect.get("from"), str(effect.get("to"))
        if before == "queued" and after in _OUTCOMES and "queued_s" in effect:
            mode = effect.get("billing_mode")
            attributes = {"outcome": _OUTCOMES[after], "billing_mode": mode if mode in _BILLING_MODES else OTHER}
            self._start.record(effect["queued_s"], attributes)
        if after in _ENDED:
            labels = {"state": after}
            if "duration_s" in effect:
                self._duration.record(effect["duration_s"], labels)
            if after != "completed":
                reason = effect.get("reason")
                labels = {**labels, "reason": reason if reason in self._reasons else OTHER}
            self._finished.add(1, labels)

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(row.runs, {"agent": row.agent, "state": row.state}) for row in self._active]


class _Requests:
    """The request histogram. An OpenTelemetry instrument costs 6 us a record, which is felt at this rate; this 0.5."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], tuple[list[int], list[float]]] = {}

    def add(self, operation: str, status: int, seconds: float) -> None:
        series = self._series.get((operation, status))
        if series is None:
            series = self._series[operation, status] = ([0] * (len(_HTTP_SECONDS) + 1), [0.0])
        series[0][bisect_left(_HTTP_SECONDS, seconds)] += 1
        series[1][0] += seconds

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(
            "livebox_http_duration_seconds", "Time to answer a request", labels=["operation", "status"]
        )
        bounds = [*map(str, _HTTP_SECONDS), "+Inf"]
        for (operation, status), (counts, total) in sorted(self._series.items()):
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([operation, str(status)], buckets=buckets, sum_value=total[0])
        return [family]


class _Patches:
    """The counter of patches, as cheap as they are many."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, outcome: str) -> None:
        self._counts[outcome] = self._counts.get(outcome, 0) + 1

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily("livebox_run_patch", "Patches of live content", labels=["outcome"])
        for outcome, count in sorted(self._counts.items()):
            family.add_metric([outcome], count)
        return [family]
