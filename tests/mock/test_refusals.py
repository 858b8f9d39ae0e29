"""What breaks the contract is refused by the mock exactly as production refuses it: status, code and places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from livebox.bodies import Bodies
from livebox.mock.rest import Rest
from livebox.mock.server import Mock
from livebox.responses import Reply
from tests.contract.parity_corpus import Case, corpus
from tests.contract.parity_readers import MAX_BODY, edge, incoming
from tests.mock.unseen import unseen

TOLD = ("Allow", "Accept", "WWW-Authenticate", "Content-Type")


def told(reply: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    """What a client learns from a refusal, without what names the single request."""
    assert isinstance(reply, Reply)
    problem = json.loads(reply.body)
    del problem["request_id"]
    headers = reply.headers
    return reply.status, problem, {name: headers[name] for name in TOLD if name in headers}


async def test_every_broken_request_is_refused_as_in_production() -> None:
    production, mock = edge(), Mock(Rest(Bodies(MAX_BODY, 1.0)), None)
    different = []
    refused = 0
    with unseen():
        for case in corpus():
            ours = await production.handle(incoming(case))
            played = await mock.handle(incoming(case))
            if case.valid:
                if played.status >= 400:
                    different.append((case.name, played.status, getattr(played, "body", b"")))
                continue
            refused += 1
            if told(ours) != told(played):
                different.append((case.name, told(ours), told(played)))
    assert different == []
    assert refused > 1000


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
async def test_odd_targets_are_refused_as_in_production(method: str) -> None:
    production, mock = edge(), Mock(Rest(Bodies(MAX_BODY, 1.0)), None)
    run = "/v1/runs/01933b7e-0000-7000-8000-000000000051"
    targets = [
        "/v1/runs/%2F", "/v1/runs/a%2Fb", "/v1/runs/", "/v1/runs", f"/{run}", f"{run}/", run.upper(), f"{run}%00",
        "/v1/runs/%ff", "/v1/runs/%zz", "/v1", "*", "/v1/active-runs?%ff=1", "/v1/active-runs?limit=01",
        "/v1/active-runs?limit=+1", "/v1/active-runs?limit=", "/v1/active-runs?cursor=%00", "/v1/active-runs?a&a",
        "/v1/events?after=9007199254740992", "/v1/events?after=-0",
    ]  # fmt: skip
    with unseen():
        for target in targets:
            case = Case("odd", "odd", False, method, target, {"Authorization": "Bearer token"}, None)
            ours, played = await production.handle(incoming(case)), await mock.handle(incoming(case))
            assert told(ours) == told(played), target
