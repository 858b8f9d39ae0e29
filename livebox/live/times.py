"""Times in live content, as all times go out: UTC with `Z` and microseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch
_PARTS: Final = re.compile(r"(\d{4}-\d\d-\d\d).(\d\d:\d\d):(\d\d)(?:\.(\d+))?(.+)", re.ASCII).fullmatch


def in_utc(text: str) -> str:
    """An RFC 3339 time in UTC; one of more than six decimals is rounded. `text` is valid by the contract."""
    if _UTC(text) and text[17:19] != "60":
        return text
    found = _PARTS(text)
    if found is None:
        raise ValueError("no time of RFC 3339")
    day, minute, second, fraction, offset = found.groups()
    at = datetime.fromisoformat(f"{day}T{minute}:00{offset.upper()}")
    whole = timedelta(seconds=int(second), microseconds=round(int((fraction or "0").ljust(9, "0")) / 1000))
    return (at + whole).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
