"""docs/guarantees.md lists each guard that is taken away, its place and the test that then fails."""

from __future__ import annotations

import re
from pathlib import Path

from tests.jobs.test_consequence_guards import GUARDS as CONSEQUENCES
from tests.jobs.test_watch_guards import GUARDS as DEADLINES
from tests.runs.test_lifecycle_guards import GUARDS as LIFECYCLE

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
ROW = re.compile(r"^\| ([^|`]+) \| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)


def test_every_guard_and_no_other_is_listed() -> None:
    held = [(name, guard.function, guard.test) for guards in (LIFECYCLE, DEADLINES) for name, guard in guards.items()]
    held += [(name, guard.function, guard.test.__name__) for name, guard in CONSEQUENCES.items()]
    assert ROW.findall(PAGE.read_text(encoding="utf-8")) == held
