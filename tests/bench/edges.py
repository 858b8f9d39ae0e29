"""What the edge costs: reading JSON safely against reading it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from livebox import json_text
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, Spread

_TEXT: Final = "Please look at the folder and say what is in it. "
_STEP: Final = {"path": "docs/a-page.md", "lines": 120, "todo": False, "share": 0.25, "languages": ["md", "py"]}
BODIES: Final = {
    "a message, 0.1 KB": {"body": _TEXT, "client_msg_id": "01900000-0000-7000-8000-000000000001"},
    "a step, 4 KB": {"kind": "tool", "name": "read", "detail": {"files": [_STEP] * 38}},
    "a text, 64 KB": {"body": _TEXT * 1300},
}
_SLICE: Final = 0.05  # seconds of one timing


def measure(plan: Plan) -> Findings:
    """Each body by both readers, in turns."""
    rows, details = [], []
    for name, body in BODIES.items():
        raw = json.dumps(body).encode()
        pairs = [(_rate(json_text.read, raw), _rate(msgspec.json.decode, raw)) for _ in range(4 * plan.rounds)]
        spread = Spread.of([plain / safe for safe, plain in pairs])
        rows.append(Row(f"reading JSON safely: {name}, time", "msgspec.json.decode", spread))
        details.append(Detail(f"reading JSON safely: {name}", Rate(Spread.of([safe for safe, _ in pairs]).median)))
    return Findings(rows, details)


def _rate(read: Callable[[bytes], Any], raw: bytes) -> float:
    count, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < _SLICE:
        for _ in range(20):
            read(raw)
        count += 20
    return count / spent
