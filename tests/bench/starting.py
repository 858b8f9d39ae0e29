"""How long `livebox serve` takes on a data folder that is there already, until it says that it is ready."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.bench.plan import Plan
from tests.bench.report import Findings, Row
from tests.bench.samples import Spread
from tests.bench.served import is_ready, served


def measure(plan: Plan) -> Findings:
    """Start to readiness, the database's start included; the folder was made and left by a start before."""
    with tempfile.TemporaryDirectory(prefix="livebox-bench-") as name:
        folder = Path(name) / "data"
        _start(folder)
        seconds = [_start(folder) for _ in range(plan.starts)]
    row = Row("start on an existing data folder", "the clock", Spread.of(seconds), at_most=2, unit=" s")
    return Findings([row], [])


def _start(folder: Path) -> float:
    begun = time.monotonic()
    with served(folder) as server:
        if not is_ready(server):
            raise RuntimeError("the server listens but is not ready")
        return time.monotonic() - begun
