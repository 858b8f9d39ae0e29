"""What is measured live: a run that is patched and watched, over our gateway and over bare aiohttp."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from tests.bench.bare import Bare
from tests.bench.crowd import Party, Task
from tests.bench.served import Served
from tests.bench.stage import AGENT, ASKER, CLAIM, Stage, run_id

_HOUR: Final = 3600
_PATH: Final = "/v1/gateway"


def patch(run: str, op: str, token: str = "") -> bytes:
    """A frame with a patch of what changes most, a line and a number, as a template for `Task`."""
    frame = {
        "type": "run.update",
        "id": "p%(n)d",
        "run_id": run,
        **({"invocation": token} if token else {}),
        "base_version": "BASE",
        "ops": [
            {"op": op, "path": "/headline", "value": "Reading page %(n)d of the folder and noting what changed"},
            {"op": op, "path": "/metrics/output_tokens", "value": "N"},
        ],
    }
    return dumped(frame).replace(b'"BASE"', b"%(base)d").replace(b'"N"', b"%(n)d")


def dumped(value: Any) -> bytes:
    """JSON as clients send it."""
    return json.dumps(value, separators=(",", ":")).encode()


def over_livebox(
    server: Served, stage: Stage, *, watchers: int, count: int, window: int = 0, pace: float = 0.0, stuck: int = 0
) -> Task:
    """A fresh run, patched by its agent and watched by devices of somebody who may see it."""
    n = stage.running(1)
    run = run_id(n)
    device = Party(
        _PATH, (hello(stage.token(ASKER)), (dumped({"type": "focus", "id": "f", "run_ids": [run]}), _RESULT))
    )
    return Task(
        server.port,
        server.process.pid,
        Party(_PATH, (hello(stage.token(AGENT)),)),
        device,
        patch(run, "add", invocation(server, stage, n)),
        patch(run, "replace"),
        watchers,
        count,
        window,
        pace,
        stuck,
    )


def over_bare(
    server: Bare, name: str, *, watchers: int, count: int, window: int = 0, pace: float = 0.0, stuck: int = 0
) -> Task:
    """The same frames to one of the bare servers."""
    sender, watcher = Party(f"/{name}/patch" if watchers else f"/{name}"), Party(f"/{name}/watch")
    first, later = patch(run_id(1), "add"), patch(run_id(1), "replace")
    return Task(server.port, server.pid, sender, watcher, first, later, watchers, count, window, pace, stuck)


_RESULT: Final = b'"type":"result"'


def hello(token: str) -> tuple[bytes, bytes]:
    """The first message of a session, and what its answer holds."""
    return dumped({"type": "hello", "token": token}), b'"type":"ready"'


def invocation(server: Served, stage: Stage, n: int) -> str:
    """The token of the n-th run."""
    return server.invocations().mint(
        run_id=run_id(n),
        agent_id=stage.id(AGENT),
        jti=f"00000000-0005-7000-8000-{n}",
        claim_id=CLAIM,
        expires_at=time.time() + _HOUR,
    )
