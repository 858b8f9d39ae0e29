"""A durable transition: through the write lane and over HTTP, against pgbench running the same function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import uvloop

from db import Caller
from db.lane import Lane
from tests.bench import pgbench
from tests.bench.load import request
from tests.bench.machine import family_cpu
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, median_rate, rate, ratios
from tests.bench.served import Served
from tests.bench.stage import AGENT, CLAIM, Stage, literal, run_id, start_args

MANY: Final = 32
FEW: Final = 8
_HOUR: Final = 3600

_ALONE: Final = (
    "with the cores to itself (real-time priority, one round of full size) this was 0.98 and missed its goal, in a quick"
    " run 1.25; over HTTP it was 0.73 with 8 and 0.93 with 32 callers. The lane is one session and so one core, pgbench"
    " has them all. About a quarter of what the session does for a transition is PostgreSQL reading the checks of runs,"
    " messages and events anew for each statement (measured by dropping them); they stay, because they hold whoever writes"
)

Measure = Callable[[Stage, int, int, int], Rate]


def measure(stage: Stage, unlocked: Stage, server: Served, plan: Plan) -> Findings:
    """Rows of the lane and of HTTP. ``unlocked`` is a database like ``stage`` whose log has no lock."""
    over_http = _Agent(server, stage)
    parts: dict[str, tuple[Stage, Measure, int]] = {
        "pgbench, 32 clients": (stage, _by_pgbench, MANY),
        "lane, 32 callers": (stage, _by_lane, MANY),
        "HTTP, 32 callers": (stage, over_http.start, MANY),
        "pgbench, 8 clients": (stage, _by_pgbench, FEW),
        "HTTP, 8 callers": (stage, over_http.start, FEW),
        "pgbench without the log's lock, 32 clients": (unlocked, _by_pgbench, MANY),
        "pgbench without the log's lock, 8 clients": (unlocked, _by_pgbench, FEW),
    }
    rates: dict[str, list[Rate]] = {name: [] for name in parts}
    for _ in range(plan.rounds):
        for name, (where, run, callers) in parts.items():
            each = plan.transitions * MANY // callers
            rates[name].append(_checked(where, run, callers, each))
    floors = {callers: rates[f"pgbench, {callers} clients"] for callers in (FEW, MANY)}
    bare = {callers: rates[f"pgbench without the log's lock, {callers} clients"] for callers in (FEW, MANY)}
    lane = rates["lane, 32 callers"]
    http = {callers: rates[f"HTTP, {callers} callers"] for callers in (FEW, MANY)}
    same, without = "pgbench, the same function", "pgbench, the same without the lock of the log"
    rows = [
        Row("transition through the lane, 32 callers", same, ratios(lane, floors[MANY]), at_least=1.2, note=_ALONE),
        *(
            Row(f"transition over HTTP, {callers} callers", same, ratios(http[callers], floors[callers]), at_least=0.6)
            for callers in (FEW, MANY)
        ),
        Row("transition through the lane, 32 callers", without, ratios(lane, bare[MANY])),
        *(
            Row(f"transition over HTTP, {callers} callers", without, ratios(http[callers], bare[callers]))
            for callers in (FEW, MANY)
        ),
    ]
    return Findings(rows, [Detail(f"transition: {name}", median_rate(found)) for name, found in rates.items()])


def _checked(stage: Stage, run: Measure, callers: int, each: int) -> Rate:
    first = stage.queued(callers * each)
    found = run(stage, callers, each, first)
    if stage.started(first, callers * each) != callers * each:
        raise RuntimeError("not every run was started")
    return found


def _by_pgbench(stage: Stage, callers: int, each: int, first: int) -> Rate:
    who, args = literal({"principal": stage.id(AGENT)}), literal(start_args(":n"))
    statement = (
        "SELECT code, body, version, resource_kind, resource_id, cursor::text, effects::text"
        f" FROM livebox.perform('start_run', {who}, {args});"
    )
    return pgbench.run(stage, statement, clients=callers, each=each, first=first)


def _by_lane(stage: Stage, callers: int, each: int, first: int) -> Rate:
    postmaster = stage.server.postmaster()
    assert postmaster is not None
    before, before_database = time.process_time(), family_cpu(postmaster)
    completions = uvloop.run(_submit(stage, callers, each, first))
    used, used_database = time.process_time() - before, family_cpu(postmaster) - before_database
    return Rate(rate(completions), used / (callers * each), used_database / (callers * each))


async def _submit(stage: Stage, callers: int, each: int, first: int) -> list[list[float]]:
    lane, who = Lane(stage.dsn), Caller(stage.id(AGENT))
    completions: list[list[float]] = [[] for _ in range(callers)]

    async def call(number: int) -> None:
        for n in range(first + number * each, first + (number + 1) * each):
            answer = await lane.submit("start_run", who, start_args(n))
            assert answer.code == "ok", answer
            completions[number].append(time.time())

    await lane.start()
    try:
        await asyncio.gather(*(call(number) for number in range(callers)))
    finally:
        await lane.stop()
    return completions


class _Agent:
    """Starts runs over HTTP as the agent that holds them."""

    def __init__(self, server: Served, stage: Stage) -> None:
        self._server = server
        self._invocations = server.invocations()
        self._bearer = f"Bearer {stage.token(AGENT)}"

    def start(self, stage: Stage, callers: int, each: int, first: int) -> Rate:
        """The rate of startRun."""
        requests = [
            [self._request(stage, n) for n in range(first + number * each, first + (number + 1) * each)]
            for number in range(callers)
        ]
        return self._server.measure(stage, requests)

    def _request(self, stage: Stage, n: int) -> bytes:
        token = self._invocations.mint(
            run_id=run_id(n),
            agent_id=stage.id(AGENT),
            jti=start_args(n)["invocation"]["jti"],
            claim_id=CLAIM,
            expires_at=time.time() + _HOUR,
        )
        headers = {"Authorization": self._bearer, "Livebox-Invocation": token}
        return request("POST", f"/v1/runs/{run_id(n)}/start", headers, b"{}")
