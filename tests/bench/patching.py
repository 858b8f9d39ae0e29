"""A patch that is sent to ten watchers: over our gateway, over bare aiohttp, and over what people would pick."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.bench import peers
from tests.bench.bare import Bare
from tests.bench.crowd import Task, gather
from tests.bench.live import over_bare, over_livebox
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread, median_rate
from tests.bench.served import Served
from tests.bench.stage import Stage

WATCHERS: Final = 10
_WHAT: Final = "patch over the gateway to 10 watchers, under load"
WINDOW: Final = 200
"""Patches that are under way at most: enough to keep any of them busy."""


def measure(stage: Stage, server: Served, plain: Bare, plan: Plan) -> Findings:
    """By patches per CPU second of the server; the peers where Node and their packages are there."""
    found: dict[str, list[Rate]] = {}

    def note(name: str, task: Task) -> None:
        outcome = asyncio.run(gather(task))
        found.setdefault(name, []).append(Rate(outcome.accepted / outcome.seconds, outcome.per_patch))

    with peers.serving() as others:
        for _ in range(plan.rounds):
            note("echo", over_bare(plain, "echo", watchers=0, count=plan.patches, window=WINDOW))
            for name in ("plain", "joined"):
                note(name, over_bare(plain, name, watchers=WATCHERS, count=plan.patches, window=WINDOW))
            note("Livebox", over_livebox(server, stage, watchers=WATCHERS, count=plan.patches, window=WINDOW))
            for name, peer in others.items():
                found.setdefault(name, []).append(
                    peer.measure(watchers=WATCHERS, count=plan.patches // 2, window=WINDOW)
                )
    ours = found["Livebox"]
    rows = [
        Row(_WHAT, "bare aiohttp, an echo of the same frames", _by_cpu(ours, found["echo"]), at_least=0.35),
        Row(_WHAT, "bare aiohttp that parses, applies and broadcasts", _by_cpu(ours, found["plain"])),
        Row(_WHAT, "the same, joining writes", _by_cpu(ours, found["joined"])),
        *(
            Row("deliveries to 10 watchers", name, _by_cpu(ours, found[name]), at_least=goal)
            for name, goal in peers.GOALS.items()
            if name in found
        ),
    ]
    return Findings(
        rows, [Detail(f"patch to 10 watchers: {name}", median_rate(rates)) for name, rates in found.items()]
    )


def _by_cpu(candidate: list[Rate], floor: list[Rate]) -> Spread:
    return Spread.of([theirs.server_cpu / ours.server_cpu for ours, theirs in zip(candidate, floor, strict=True)])
