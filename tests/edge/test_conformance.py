"""Responses are held against the contract; what was seen to fit is known again, and nothing else is."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from livebox import conformance
from livebox.conformance import Conformance, Seen
from tests.fixtures.server import Clients, Got


def findings(checks: Conformance, path: str, got: Got, value: Any) -> list[str]:
    """What is wrong with an answer that has another body."""
    return checks.findings(Seen("GET", path, got.status, got.headers, json.dumps(value).encode()))


async def test_what_does_not_fit_is_found_each_time(clients: Clients) -> None:
    got = await clients["owner"].get("/v1/channels")
    checks = Conformance()
    for _ in range(2):
        assert findings(checks, "/v1/channels", got, got.json) == []
        for number, item in enumerate(got.json["items"]):
            for member in item:
                wrong = deepcopy(got.json)
                wrong["items"][number][member] = 7.5
                assert findings(checks, "/v1/channels", got, wrong), member


async def test_what_fits_one_schema_is_not_known_to_fit_another(clients: Clients) -> None:
    checks = Conformance()
    spaces, channels = [await clients["owner"].get(path) for path in ("/v1/spaces", "/v1/channels")]
    for _ in range(2):
        assert findings(checks, "/v1/spaces", spaces, spaces.json) == []
        assert findings(checks, "/v1/channels", channels, channels.json) == []
        assert findings(checks, "/v1/channels", channels, spaces.json)
        assert findings(checks, "/v1/spaces", spaces, channels.json)


async def test_what_is_known_again_has_a_bound(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[int] = []

    class Bounded(set):  # type: ignore[type-arg]
        def add(self, one: object) -> None:
            super().add(one)
            added.append(len(self))

    monkeypatch.setattr(conformance, "FITTING_MAX", 2)
    monkeypatch.setattr(conformance, "set", Bounded, raising=False)
    got = await clients["owner"].get("/v1/channels")
    checks = Conformance()
    for _ in range(2):
        assert findings(checks, "/v1/channels", got, got.json) == []
        assert findings(checks, "/v1/channels", got, {"items": [{}]})
    assert max(added) == 2
