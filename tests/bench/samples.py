"""What a measurement gives: completions per caller, their rate while all callers were at work, ratios over rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

WARM_UP: Final = 0.2
"""Share of each caller's operations that is not counted: sessions fill their caches in it."""


class Rate(NamedTuple):
    """Operations per second, and the CPU seconds that server and database used per operation (0: not measured)."""

    per_second: float
    server_cpu: float = 0.0
    database_cpu: float = 0.0


def rate(completions: Sequence[Sequence[float]]) -> float:
    """Operations per second from the moment all callers are warm until the first one is done.

    ``completions``: for each caller the times (seconds) at which its operations were answered, in order.
    """
    start = max(times[int(len(times) * WARM_UP)] for times in completions)
    end = min(times[-1] for times in completions)
    if end <= start:
        raise ValueError("the callers did not work at the same time: give them more operations")
    return sum(start < at <= end for times in completions for at in times) / (end - start)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The number that this share of at least one ordered number does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Spread(NamedTuple):
    """Median, least and greatest of some numbers."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """The spread of at least one number."""
        return cls(statistics.median(numbers), min(numbers), max(numbers))


def ratios(candidate: Sequence[Rate], floor: Sequence[Rate]) -> Spread:
    """The candidate's rate over the floor's, round by round: what loads the machine loads both of a round."""
    return Spread.of([ours.per_second / theirs.per_second for ours, theirs in zip(candidate, floor, strict=True)])


def server_ratios(candidate: Sequence[Rate], floor: Sequence[Rate]) -> Spread:
    """The same by operations per CPU second of the server: the rates of servers that have a core for themselves."""
    return Spread.of([theirs.server_cpu / ours.server_cpu for ours, theirs in zip(candidate, floor, strict=True)])


def median_rate(rates: Sequence[Rate]) -> Rate:
    """The median of each member."""
    members: Any = zip(*rates, strict=True)
    return Rate(*(statistics.median(member) for member in members))
