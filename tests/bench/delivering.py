"""Patches as devices see them: how late they are, what one that is stuck costs the others, what a large crowd costs."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.bench.bare import Bare
from tests.bench.crowd import Outcome, gather
from tests.bench.live import over_bare, over_livebox
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread, median_rate
from tests.bench.served import Served
from tests.bench.stage import Stage

WATCHERS: Final = 100
PACE: Final = 100.0
CROWD: Final = 20
FAST: Final = 2000.0
WINDOW: Final = 40
"""Patches under way to the large crowd when it is under load."""
MIB: Final = 2**20
CAP: Final = 4.0
"""MiB of `gateway.send_queue_hard_bytes`."""
_FEW: Final = 5


def latency(stage: Stage, server: Served, plain: Bare, plan: Plan) -> Findings:
    """From patch to device, 100 watchers and 100 patches a second."""
    count = int(PACE * plan.seconds)
    ours, theirs = [], []
    for _ in range(plan.rounds):
        theirs.append(asyncio.run(gather(over_bare(plain, "plain", watchers=WATCHERS, count=count, pace=PACE))))
        ours.append(asyncio.run(gather(over_livebox(server, stage, watchers=WATCHERS, count=count, pace=PACE))))
    against = "bare aiohttp that parses, applies and broadcasts"
    what = "patch to device, 100 watchers, 100 patches/s"
    rows = [
        Row(f"{what}, 99th percentile", against, _later(ours, theirs, 1), at_most=2),
        Row(f"{what}, median", against, _later(ours, theirs, 0)),
        *(
            Row(f"{what}, 99th percentile, {name}", "the clock", Spread.of(_ms(outcomes, 1)), unit=" ms")
            for name, outcomes in (("Livebox", ours), ("bare", theirs))
        ),
    ]
    return Findings(rows, [])


def stuck(stage: Stage, server: Served, plan: Plan) -> Findings:
    """2,000 patches a second to 20 devices of which one reads nothing, and to 19."""
    count = int(FAST * plan.stuck_seconds)
    with_it, without = [], []
    for _ in range(plan.rounds):
        task = over_livebox(server, stage, watchers=CROWD - 1, count=count, pace=FAST)
        without.append(asyncio.run(gather(task)))
        task = over_livebox(server, stage, watchers=CROWD, count=count, pace=FAST, stuck=1)
        with_it.append(asyncio.run(gather(task)))
    seconds = f"{plan.stuck_seconds:g} s"
    what = f"one stuck device among 20, 2,000 patches/s, {seconds}"
    grown = [(outcome.memory[1] - outcome.memory[0]) / MIB for outcome in with_it]
    rows = [
        Row(f"{what}: the others' 99th percentile", "without it", _later(with_it, without, 1), at_most=1.2),
        Row(f"{what}: memory of the server", "the cap of one device", Spread.of(grown), at_most=CAP, unit=" MiB"),
        Row(f"{what}: the others' 99th percentile", "the clock", Spread.of(_ms(with_it, 1)), unit=" ms"),
    ]
    return Findings(rows, [])


def fan_out(stage: Stage, server: Served, plain: Bare, plan: Plan) -> Findings:
    """One patch to a large crowd, by deliveries per CPU second: each patch alone, and many under way."""
    found: dict[str, list[Rate]] = {}
    for _ in range(plan.rounds):
        for name, window, count in (("one by one", 1, plan.fanned), ("under load", WINDOW, _FEW * plan.fanned)):
            task = over_bare(plain, "plain", watchers=plan.devices, count=max(_FEW, count // _FEW), window=window)
            _add(found, f"bare, {name}", asyncio.run(gather(task)))
            task = over_livebox(server, stage, watchers=plan.devices, count=count, window=window)
            _add(found, f"Livebox, {name}", asyncio.run(gather(task)))
    rows = []
    for name, goal in (("one by one", 1.5), ("under load", 6)):
        pairs = zip(found[f"Livebox, {name}"], found[f"bare, {name}"], strict=True)
        spread = Spread.of([theirs.server_cpu / ours.server_cpu for ours, theirs in pairs])
        what = f"fan-out of a patch to {plan.devices:,} devices, {name}"
        rows.append(Row(what, "an aiohttp `send_str` loop", spread, at_least=goal))
    return Findings(rows, [Detail(f"delivery of a patch: {name}", median_rate(rates)) for name, rates in found.items()])


def _add(found: dict[str, list[Rate]], name: str, outcome: Outcome) -> None:
    rate = Rate(outcome.deliveries / outcome.seconds, outcome.per_delivery)
    found.setdefault(name, []).append(rate)


def _later(candidate: list[Outcome], floor: list[Outcome], which: int) -> Spread:
    pairs = zip(candidate, floor, strict=True)
    return Spread.of([ours.latencies[which] / theirs.latencies[which] for ours, theirs in pairs])


def _ms(outcomes: list[Outcome], which: int) -> list[float]:
    return [outcome.latencies[which] * 1000 for outcome in outcomes]
