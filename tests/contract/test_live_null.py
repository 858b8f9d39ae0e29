"""There is no null: every operation with a body refuses one wherever it stands, and says where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from generated.operations import OPERATIONS
from tests.fixtures.scenarios import SCENARIOS
from tests.fixtures.stage import Stage
from tests.fixtures.wire import walk

WITH_BODY = [operation.id for operation in OPERATIONS.values() if operation.has_body]
DEPTHS = range(1, 11)


def nested(depth: int, *, lists: bool) -> tuple[Any, str]:
    """A null below so many members or list elements, and its pointer from there."""
    value: Any = None
    for _ in range(depth - 1):
        value = [value] if lists else {"a": value}
    return value, ("/0" if lists else "/a") * (depth - 1)


def with_nulls(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Bodies with one null, as JSON, and where it stands."""
    yield "null", ""
    yield json.dumps([None]), "/0"
    for pointer, _ in list(walk(body))[1:]:
        copy = json.loads(json.dumps(body))
        at: Any = copy
        *path, last = pointer.split("/")[1:]
        for token in path:
            at = at[int(token)] if isinstance(at, list) else at[token]
        at[int(last) if isinstance(at, list) else last] = None
        yield json.dumps(copy), pointer
    for depth in DEPTHS:
        for lists in (False, True):
            value, pointer = nested(depth, lists=lists)
            yield json.dumps({**body, "x": value}), "/x" + pointer
            yield json.dumps({"a~b/c": value}), "/a~0b~1c" + pointer
    name = next(iter(body), "x")
    yield json.dumps({**body, name: {"deep": [{"er": None}]}}), f"/{name}/deep/0/er"


@pytest.mark.parametrize("operation", WITH_BODY)
def test_null_is_refused_and_named(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    wire = stage.as_(ask.by)
    body = ask.body or {}
    number = 0
    last = stage.sql("SELECT coalesce(max(seq), 0) FROM livebox.events")
    for raw, pointer in with_nulls(body):
        answer = wire.call(operation, headers=ask.headers, query=ask.query, raw=raw.encode(), **ask.path)
        answer.refused(400, "validation_failed")
        assert ("null_not_allowed", pointer) in answer.errors(), raw
        number += 1
    assert number > 4 * len(DEPTHS)
    assert stage.sql("SELECT coalesce(max(seq), 0) FROM livebox.events") == last
    if operation != "cancelRun":
        ask.at(wire).ok()  # nothing of it was applied: the request still works


def test_null_in_what_an_agent_keeps_with_a_step(stage: Stage) -> None:
    held = stage.running()
    for depth in DEPTHS:
        for lists in (False, True):
            value, pointer = nested(depth, lists=lists)
            answer = stage.as_("lotse").call(
                "recordRunStep",
                {"kind": "tool", "name": "x", "detail": {"kept": 1, "n": value}},
                headers=held.headers,
                run_id=held.id,
                step_id=held.id,
            )
            assert answer.refused(400, "validation_failed").errors() == [("null_not_allowed", "/detail/n" + pointer)]
    assert stage.as_("alex").call("listRunSteps", run_id=held.id).ok() == {"items": []}
