"""How much is measured."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """``rounds`` of everything; the rest are operations per caller and round, or sizes."""

    rounds: int
    transitions: int  # per caller, of 32
    reads: int  # per caller, of 8
    requests: int  # per caller, of 8, of the HTTP layer
    growth: tuple[tuple[int, int], ...]  # (runs of a thread, events of the log)
    samples: int  # calls of each operation per size and round
    starts: int
    patches: int  # of one run, to 10 watchers
    devices: int  # of the fan-out
    fanned: int  # patches to all of them
    seconds: float  # of patches at a pace
    stuck_seconds: float  # of patches while a device is stuck
    sessions: int  # and runs, of which the memory is measured


FULL = Plan(
    rounds=5,
    transitions=100,
    reads=2000,
    requests=3000,
    growth=((100, 10_000), (1_000, 50_000), (10_000, 200_000), (100_000, 1_000_000)),
    samples=40,
    starts=5,
    patches=20_000,
    devices=1000,
    fanned=400,
    seconds=10,
    stuck_seconds=20,
    sessions=1000,
)
QUICK = Plan(
    rounds=2,
    transitions=30,
    reads=400,
    requests=1000,
    growth=((100, 10_000), (1_000, 30_000), (10_000, 100_000)),
    samples=25,
    starts=2,
    patches=5000,
    devices=1000,
    fanned=100,
    seconds=4,
    stuck_seconds=4,
    sessions=400,
)
