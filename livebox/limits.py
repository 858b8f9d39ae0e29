"""Rate limits: token buckets per principal and class, and per peer for failed authentication.

Each bucket is one number, the time at which it will be full again (the generic cell rate algorithm). A bucket that is
full says nothing and is forgotten, so the memory of a limit is bounded by how many callers were active lately.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import Final

MAX_BUCKETS: Final = 100_000
_SWEEP: Final = 10_000


class Limit:
    """`burst` requests at once and `rate` a second from then on, for each key. `clock` gives monotonic seconds."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._interval = 1 / rate
        self._slack = (burst - 1) * self._interval
        self._clock = clock
        self._full_at: dict[Hashable, float] = {}
        self._sweep_at = _SWEEP

    def take(self, key: Hashable) -> float:
        """Take one token: 0 when it was there, else the seconds until the next one (and none is taken)."""
        now = self._clock()
        full_at = self._full_at.get(key, 0.0)
        if full_at < now:
            full_at = now
        wait = full_at - now - self._slack
        # Rounding must not refuse the last token of a burst.
        if wait > 1e-9:
            return wait
        if len(self._full_at) >= self._sweep_at:
            self._forget(now)
        self._full_at[key] = full_at + self._interval
        return 0.0

    def wait(self, key: Hashable) -> float:
        """What `take` would answer, without taking."""
        now = self._clock()
        wait = max(self._full_at.get(key, now), now) - now - self._slack
        return wait if wait > 1e-9 else 0.0

    def _forget(self, now: float) -> None:
        full_at = {key: at for key, at in self._full_at.items() if at > now}
        if len(full_at) >= MAX_BUCKETS:
            # More callers at once than we keep: those nearest to full lose the least by being forgotten.
            kept = sorted(full_at, key=full_at.__getitem__)[len(full_at) // 2 :]
            full_at = {key: full_at[key] for key in kept}
        self._full_at = full_at
        self._sweep_at = max(_SWEEP, 2 * len(full_at))


def retry_after(seconds: float) -> str:
    """The Retry-After header (RFC 9110, 10.2.3) for a wait: whole seconds, at least one."""
    return str(max(1, math.ceil(seconds)))
