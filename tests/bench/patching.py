"""A patch that is sent to ten watchers: over our gateway, over bare aiohttp, and over what people would pick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tests.bench import peers
from tests.bench.bare import Bare
from tests.bench.crowd import Task, gather
from tests.bench.live import over_bare, over_livebox
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread, median_rate, server_ratios
from tests.bench.served import Served
from tests.bench.stage import Stage

WATCHERS: Final = 10
PACE: Final = 4000.0
"""Patches a second that come one by one, as those of agents do."""
WINDOW: Final = 200
"""Patches that are under way at most when as many come as are taken."""
_ECHO: Final = "bare aiohttp, an echo of the same frames"
_BURSTS: Final = "200 under way"
_SHAPES: Final = {"4,000/s one by one": (PACE, 0), _BURSTS: (0.0, WINDOW)}
_BURST: Final = (
    "no agent sends so: it waits for what its patches are acknowledged as. Here one read brings many frames and an echo"
    " of them leaves in one write, so that the floor makes hardly any system calls; what is left of ours is checking and"
    " applying, about 20 microseconds of Python"
)

Make = Callable[[int, float, int], Task]


def measure(stage: Stage, server: Served, plain: Bare, plan: Plan) -> Findings:
    """By patches per CPU second of the server; the peers where Node and their packages are there."""
    ways: dict[str, Make] = {
        "echo": lambda count, pace, window: over_bare(plain, "echo", watchers=0, count=count, pace=pace, window=window),
        "plain": lambda count, pace, window: over_bare(
            plain, "plain", watchers=WATCHERS, count=count, pace=pace, window=window
        ),
        "joined": lambda count, pace, window: over_bare(
            plain, "joined", watchers=WATCHERS, count=count, pace=pace, window=window
        ),
        "Livebox": lambda count, pace, window: over_livebox(
            server, stage, watchers=WATCHERS, count=count, pace=pace, window=window
        ),
    }
    found: dict[str, list[Rate]] = {}
    with peers.serving() as others:
        for _ in range(plan.rounds):
            for shape, (pace, window) in _SHAPES.items():
                for name, make in ways.items():
                    outcome = asyncio.run(gather(make(plan.patches, pace, window)))
                    rate = Rate(outcome.accepted / outcome.seconds, outcome.per_patch)
                    found.setdefault(f"{name}, {shape}", []).append(rate)
            for name, peer in others.items():
                rate = peer.measure(watchers=WATCHERS, count=plan.patches // 2, window=WINDOW)
                found.setdefault(name, []).append(rate)
    rows = [row for shape in _SHAPES for row in _rows(found, shape)]
    ours = found[f"Livebox, {_BURSTS}"]
    rows += [
        Row("deliveries of patches to 10 watchers", name, server_ratios(ours, found[name]), at_least=goal)
        for name, goal in peers.GOALS.items()
        if name in found
    ]
    details = [Detail(f"patch to 10 watchers: {name}", median_rate(rates)) for name, rates in found.items()]
    return Findings(rows, details)


def _rows(found: dict[str, list[Rate]], shape: str) -> list[Row]:
    def against(name: str) -> Spread:
        return server_ratios(found[f"Livebox, {shape}"], found[f"{name}, {shape}"])

    what = f"patch over the gateway to 10 watchers, {shape}"
    return [
        Row(what, _ECHO, against("echo"), at_least=0.35, note=_BURST if shape == _BURSTS else ""),
        Row(what, "bare aiohttp that parses, applies and broadcasts", against("plain")),
        Row(what, "the same, joining writes", against("joined")),
    ]
