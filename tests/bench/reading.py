"""getRun over HTTP against pgbench running the same read; and how alike the answers of hidden and absent runs are."""

from __future__ import annotations

import random
from typing import Final

from tests.bench import pgbench
from tests.bench.load import request
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread, median_rate, ratios
from tests.bench.served import Served
from tests.bench.stage import ASKER, Stage, literal, run_id

CALLERS: Final = 8
RUNS: Final = 2000
STRANGER: Final = "sam"
_ALONE: Final = "with the cores to itself (real-time priority, a quick run) this was 0.59 and met its goal"
_ABSENT: Final = "00000000-0009-7000-8000-"


def measure(stage: Stage, server: Served, plan: Plan) -> Findings:
    """Reads of a few thousand runs in any order."""
    first = stage.queued(RUNS)
    floor, over_http = [], []
    for _ in range(plan.rounds):
        floor.append(_by_pgbench(stage, first, plan.reads))
        over_http.append(_over_http(stage, server, first, plan.reads))
    rows = [
        Row(
            "getRun over HTTP, 8 callers",
            "pgbench, the same read",
            ratios(over_http, floor),
            at_least=0.35,
            note=_ALONE,
        ),
        _alike(stage, server, first, plan),
    ]
    details = [
        Detail("getRun: pgbench, 8 clients", median_rate(floor)),
        Detail("getRun: HTTP, 8 callers", median_rate(over_http)),
    ]
    return Findings(rows, details)


def _by_pgbench(stage: Stage, first: int, each: int) -> Rate:
    who = literal({"principal": stage.id(ASKER)})
    args = literal({"run_id": run_id(":run"), "limit": 50})
    statement = (
        f"\\set run random({first}, {first + RUNS - 1})\n"
        "SELECT code, body, version, resource_kind, resource_id, cursor::text, effects::text"
        f" FROM livebox.get_run({who}, {args});"
    )
    return pgbench.run(stage, statement, clients=CALLERS, each=each, first=first)


def _over_http(stage: Stage, server: Served, first: int, each: int) -> Rate:
    headers = {"Authorization": f"Bearer {stage.token(ASKER)}"}
    chosen = random.Random(first)
    requests = [
        [request("GET", f"/v1/runs/{run_id(first + chosen.randrange(RUNS))}", headers) for _ in range(each)]
        for _ in range(CALLERS)
    ]
    return server.measure(stage, requests)


def _alike(stage: Stage, server: Served, first: int, plan: Plan) -> Row:
    """One caller who may not see the runs asks for them and for runs that are not there."""
    headers = {"Authorization": f"Bearer {stage.token(STRANGER)}"}

    def asked(prefix: str) -> float:
        paths = [f"/v1/runs/{prefix}{first + n % RUNS}" for n in range(plan.reads)]
        return server.measure(stage, [[request("GET", path, headers) for path in paths]], 404).per_second

    hidden = run_id("")
    pairs = [(asked(_ABSENT), asked(hidden)) for _ in range(2 * plan.rounds)]
    spread = Spread.of([absent / seen for absent, seen in pairs])
    return Row("getRun of a hidden run, time to answer", "of one that is not there", spread)
