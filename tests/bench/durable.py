"""What patches leave behind in the log and in messages: nothing."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Final

from tests.bench.crowd import gather
from tests.bench.live import invocation, over_livebox
from tests.bench.plan import Plan
from tests.bench.report import Findings, Row
from tests.bench.samples import Spread
from tests.bench.served import Served
from tests.bench.stage import AGENT, Stage, run_id

PATCHES: Final = 1000
_PACE: Final = 500.0
_COUNTED: Final = """
SELECT (SELECT count(*) FROM livebox.events e WHERE e.thread_id = r.thread_id),
       (SELECT sum(m.version) FROM livebox.messages m WHERE m.thread_id = r.thread_id)
  FROM livebox.runs r WHERE r.id = %(run)s AND r.state = 'completed'
"""


def measure(stage: Stage, server: Served, plan: Plan) -> Findings:
    """A run from start to end with 1,000 patches, and one with none."""
    events, revisions = [], []
    for _ in range(plan.rounds):
        patched, quiet = _left(stage, server, PATCHES), _left(stage, server, 0)
        events.append(patched[0] / quiet[0])
        revisions.append(patched[1] / quiet[1])
    what = f"of a run with {PATCHES:,} patches"
    rows = [
        Row(f"durable events {what}", "of one with none", Spread.of(events), at_most=1),
        Row(f"revisions of messages {what}", "of one with none", Spread.of(revisions), at_most=1),
    ]
    return Findings(rows, [])


def _left(stage: Stage, server: Served, patches: int) -> tuple[int, int]:
    """Events and revisions of messages in the thread of a run that has ended."""
    if patches:
        task = over_livebox(server, stage, watchers=1, count=patches, pace=_PACE)
        n = int(json.loads(task.first % {b"n": 0, b"base": 1})["run_id"].rpartition("-")[2])
        asyncio.run(gather(task))
    else:
        n = stage.running(1)
    headers = {
        "Authorization": f"Bearer {stage.token(AGENT)}",
        "Livebox-Invocation": invocation(server, stage, n),
        "Content-Type": "application/json",
    }
    body = json.dumps({"state": "completed"}).encode()
    url = f"http://127.0.0.1:{server.port}/v1/runs/{run_id(n)}/finish"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="POST"), timeout=30):
        ((events, revisions),) = stage.run(_COUNTED, {"run": run_id(n)})
    return int(events), int(revisions)
