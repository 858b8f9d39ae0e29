"""What breaks the contract is refused by the mock exactly as production refuses it: status, code and places."""

from __future__ import annotations

import json
from typing import Any

from livebox.bodies import Bodies
from livebox.mock.rest import Rest
from livebox.mock.server import Mock
from livebox.responses import Reply
from tests.contract.parity_corpus import corpus
from tests.contract.parity_readers import MAX_BODY, edge, incoming
from tests.mock.unseen import unseen

TOLD = ("Allow", "Accept", "WWW-Authenticate", "Content-Type")


def told(reply: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    """What a client learns from a refusal, without what names the single request."""
    assert isinstance(reply, Reply)
    problem = json.loads(reply.body)
    del problem["request_id"]
    return reply.status, problem, {name: reply.headers[name] for name in TOLD if name in reply.headers}


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
