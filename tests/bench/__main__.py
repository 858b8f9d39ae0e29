"""`python -m tests.bench`: measures everything and writes docs/performance.md; with --quick or --only it just prints."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg2

from db.embedded import Server
from tests.bench import (
    delivering,
    durable,
    edges,
    footprint,
    growth,
    layer,
    patching,
    reading,
    report,
    starting,
    transition,
)
from tests.bench.bare import bare
from tests.bench.machine import description, load
from tests.bench.plan import FULL, QUICK, Plan
from tests.bench.report import Findings
from tests.bench.served import served
from tests.bench.stage import Stage, embedded

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
TEMPLATE = "livebox"

Part = Callable[[Server, Stage, Plan], Findings]


def _transition(server: Server, template: Stage, plan: Plan) -> Findings:
    stage, unlocked = template.copy("transition"), template.copy("unlocked")
    unlocked.run("CREATE OR REPLACE FUNCTION livebox.lock_log() RETURNS void LANGUAGE sql VOLATILE AS 'SELECT'")
    with served(server.folder.parent / "served", stage.dsn) as running:
        return transition.measure(stage, unlocked, running, plan)


def _reading(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("reading")
    with served(server.folder.parent / "served", stage.dsn) as running:
        return reading.measure(stage, running, plan)


def _patching(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("patching")
    with served(server.folder.parent / "served", stage.dsn) as running, bare() as plain:
        return patching.measure(stage, running, plain, plan)


def _delivering(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("delivering")
    with served(server.folder.parent / "served", stage.dsn) as running, bare() as plain:
        return delivering.latency(stage, running, plain, plan)


def _stuck(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("stuck")
    with served(server.folder.parent / "served", stage.dsn) as running:
        return delivering.stuck(stage, running, plan)


def _fan_out(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("fan_out")
    with served(server.folder.parent / "served", stage.dsn) as running, bare() as plain:
        return delivering.fan_out(stage, running, plain, plan)


def _durable(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("durable")
    with served(server.folder.parent / "served", stage.dsn) as running:
        return durable.measure(stage, running, plan)


def _memory(server: Server, template: Stage, plan: Plan) -> Findings:
    stage = template.copy("memory")
    return footprint.measure(stage, lambda: served(server.folder.parent / "served", stage.dsn), plan)


PARTS: dict[str, Part] = {
    "transition": _transition,
    "reading": _reading,
    "layer": lambda _server, _template, plan: layer.measure(plan),
    "patch": _patching,
    "latency": _delivering,
    "fan-out": _fan_out,
    "stuck": _stuck,
    "durable": _durable,
    "memory": _memory,
    "growth": lambda _server, template, plan: growth.measure(template.copy, plan),
    "start": lambda _server, _template, plan: starting.measure(plan),
    "edge": lambda _server, _template, plan: edges.measure(plan),
}


def main() -> int:
    """Measure what was asked for; the exit status is 0 also when a goal is missed: the page says so."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds; prints, writes no page")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part to measure; prints, writes no page")
    parser.add_argument("--page", type=Path, help="write the page there whatever was measured")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else FULL
    if asked.rounds:
        plan = plan._replace(rounds=asked.rounds)

    begun, busy = time.monotonic(), load()
    findings = []
    with embedded() as server:
        template = Stage(server, TEMPLATE)
        template.prepare()
        version = _version(template)
        for name in asked.only or PARTS:
            print(f"{name} ...", flush=True)
            found = PARTS[name](server, template, plan)
            print(*(f"  {line}" for line in report.lines(found)), sep="\n", flush=True)
            findings.append(found)
    print(f"{time.monotonic() - begun:.0f} s")
    page = asked.page or (None if asked.only or asked.quick else PAGE)
    if page is not None:
        machine = [*description(version), ("load before", busy), ("load after", load())]
        cores = len(os.sched_getaffinity(0))
        disturbed = report.BUSY.format(load=busy, cores=cores) if float(busy) > cores / 2 else ""
        page.write_text(report.page(machine, plan.rounds, findings, disturbed))
    return 0


def _version(stage: Stage) -> str:
    with closing(psycopg2.connect(stage.dsn)) as connection:
        number: int = connection.server_version
    return f"{number // 10000}.{number % 100} (embedded)"


if __name__ == "__main__":
    sys.exit(main())
