"""Every operation does what it is there for, over the wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generated.operations import OPERATIONS
from tests.fixtures.scenarios import SCENARIOS, Ask
from tests.fixtures.stage import Stage

BUILT = [(operation, build) for operation, builders in SCENARIOS.items() for build in builders]


def test_every_operation_and_every_success_of_it_has_a_scenario() -> None:
    assert set(SCENARIOS) == set(OPERATIONS)
    assert {name: len(builders) for name, builders in SCENARIOS.items()} == {
        name: len(operation.success) for name, operation in OPERATIONS.items()
    }


@pytest.mark.parametrize(("operation", "build"), BUILT, ids=[name for name, _ in BUILT])
def test_success(stage: Stage, operation: str, build: Callable[[Stage], Ask]) -> None:
    ask = build(stage)
    assert ask.operation == operation
    answer = ask.at(stage.as_(ask.by))
    assert answer.status == ask.expected, answer
    assert answer.status in OPERATIONS[operation].success
    if OPERATIONS[operation].method == "GET" and operation != "getMetrics":
        again = ask.at(stage.as_(ask.by))
        assert again.raw == answer.raw or operation == "getSnapshot"
        head = stage.as_(ask.by).send("HEAD", _target(ask), headers=ask.headers)
        assert (head.status, head.raw) == (200, b"")
        if operation != "getSnapshot":
            assert head.headers.get("content-length") == answer.headers["content-length"]
        if "etag" in answer.headers:
            assert ask.at(stage.as_(ask.by), headers={"If-None-Match": answer.headers["etag"]}).status == 304


def _target(ask: Ask) -> str:
    query = "&".join(f"{name}={value}" for name, value in ask.query.items())
    return OPERATIONS[ask.operation].path.format(**ask.path) + (f"?{query}" if query else "")
