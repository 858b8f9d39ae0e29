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


FULL = Plan(5, 100, 2000, 3000, ((100, 10_000), (1_000, 50_000), (10_000, 200_000), (100_000, 1_000_000)), 40, 5)
QUICK = Plan(2, 30, 400, 1000, ((100, 10_000), (1_000, 30_000), (10_000, 100_000)), 25, 2)
