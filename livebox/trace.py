"""The trace that a request belongs to (W3C Trace Context, level 1: the `traceparent` header)."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


class Trace(NamedTuple):
    """One span of a trace: 32 and 16 lower-case hex digits, and whether the caller records it."""

    trace_id: str
    span_id: str
    sampled: bool = False

    @classmethod
    def of(cls, traceparent: str | None) -> Trace:
        """The span of a request that came with this header; a new trace where it is absent or not valid."""
        match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent and len(traceparent) <= 512 else None
        if match is None or _invalid(match):
            digits = f"{random.getrandbits(192) | 1 << 191 | 1:048x}"  # ids are no secrets, but not all 0
            return cls(digits[:32], digits[32:])
        return cls(match[2], f"{random.getrandbits(64) | 1:016x}", bool(int(match[4], 16) & 1))

    @property
    def traceparent(self) -> str:
        """The header that names this span."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def _invalid(match: re.Match[str]) -> bool:
    version, trace_id, span_id, more = match[1], match[2], match[3], match[5]
    # Version ff is forbidden; version 00 has exactly four fields; later versions may append some.
    return version == "ff" or (version == "00" and bool(more)) or not trace_id.strip("0") or not span_id.strip("0")
