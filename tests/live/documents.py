"""Random live content, edits of it and a plain reading of RFC 6902, to hold patches and differences against."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from generated.patchable_paths import PATCHABLE, PatchNode
from generated.validators import DOCUMENT

KEYS = ("a", "b", "0", "-", "01", "x_y", "Z-9")
STATES = ("queued", "running", "waiting_tool", "terminal")
UUID = "0193a000-0000-4000-8000-0000000000b1"
TIME = "2026-11-02T09:30:00.000000Z"

counts = st.integers(0, 2**53 - 1)
names = st.text("abcäß /~", min_size=1, max_size=6).filter(lambda text: text.strip())
progress = st.one_of(st.integers(0, 1), st.floats(0, 1, allow_nan=False))

# schema pointer -> values that it takes
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "/schemas/Headline": names,
    "/schemas/LiveText/properties/content": st.text('ab\n"\\é', max_size=20),
    "/schemas/LiveText/properties/format": st.sampled_from(["plain", "markdown"]),
    "/schemas/WaitingOn": st.sampled_from(["model", "tool", "child", "provider_retry", "rate_limit"]),
    "/schemas/Name": names,
    "/schemas/Title": names,
    "/schemas/Time": st.sampled_from([TIME, "2026-11-02T11:30:00.5+02:00"]),
    "/schemas/Progress": progress,
    "/schemas/UnitState": st.sampled_from(["queued", "running", "waiting_tool", "paused"]),
    "/schemas/Count": counts,
    "/schemas/Uuid": st.just(UUID),
    "/schemas/LiveMetrics/properties/context_used_percent": st.one_of(st.integers(0, 100), st.floats(0, 100)),
    "/schemas/Money/properties/amount_micros": counts,
    "/schemas/Money/properties/currency": st.sampled_from(["EUR", "USD"]),
    "/schemas/Money/properties/is_estimate": st.booleans(),
    "/schemas/ApiRetry/properties/attempt": st.integers(1, 9),
    "/schemas/ApiRetry/properties/max_attempts": st.integers(1, 9),
}


def values(node: PatchNode) -> st.SearchStrategy[Any]:
    """Values that a place takes, made from its node."""
    if node.each is not None:
        return st.dictionaries(st.sampled_from(KEYS), values(node.each), max_size=3)
    if node.members:
        needed = {name: values(below) for name, below in node.members.items() if below.required}
        others = {name: values(below) for name, below in node.members.items() if not below.required}
        return st.fixed_dictionaries(needed, optional=others)
    return VALUES[node.schema] if node.schema in VALUES else _enumerated(node.schema)


PLAIN: dict[str, list[Any]] = {
    "/schemas/LiveText/properties/content": ["", "a", 'é\n"\\'],
    "/schemas/LiveText/properties/format": ["plain", "markdown"],
    "/schemas/WaitingOn": ["model", "tool"],
    "/schemas/Time": [TIME, "2026-11-02T11:30:00.5+02:00"],
    "/schemas/Progress": [0, 1, 0.5, 1e-7],
    "/schemas/UnitState": ["queued", "running"],
    "/schemas/Count": [0, 1, 2**53 - 1],
    "/schemas/Uuid": [UUID],
    "/schemas/LiveMetrics/properties/context_used_percent": [0, 1, 14.5, 100],
    "/schemas/Money/properties/amount_micros": [0, 1],
    "/schemas/Money/properties/currency": ["EUR", "USD"],
    "/schemas/Money/properties/is_estimate": [True, False],
    "/schemas/ApiRetry/properties/attempt": [1, 2],
    "/schemas/ApiRetry/properties/max_attempts": [1, 2],
    "/schemas/LivePlan/properties/items/additionalProperties/properties/ordinal": [0, 1],
}


def some(rng: random.Random, node: PatchNode) -> Any:
    """A value that a place takes, quicker than `values`."""
    if node.each is not None:
        return {key: some(rng, node.each) for key in rng.sample(KEYS, rng.randrange(3))}
    if node.members:
        names = [name for name, below in node.members.items() if below.required or rng.random() < 0.3]
        return {name: some(rng, node.members[name]) for name in names}
    if node.schema in PLAIN:
        return rng.choice(PLAIN[node.schema])
    schema: Any = _schema(node.schema)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("type") == "integer" or "minimum" in schema:
        return rng.randrange(1, 9)
    return rng.choice(["a", "b c", "é/~"])


def _schema(pointer: str) -> Any:
    schema: Any = DOCUMENT
    for token in pointer.split("/")[1:]:
        schema = schema[token]
    return schema


def _enumerated(pointer: str) -> st.SearchStrategy[Any]:
    schema = _schema(pointer)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "integer":
        return st.integers(max(schema.get("minimum", 0), 0), 9)
    return names


def places() -> list[tuple[tuple[str, ...], tuple[PatchNode, ...]]]:
    """Every place that a patch may touch, keys filled in: its tokens, and the node at each."""
    found: list[tuple[tuple[str, ...], tuple[PatchNode, ...]]] = []

    def walk(tokens: tuple[str, ...], nodes: tuple[PatchNode, ...], node: PatchNode) -> None:
        found.append((tokens, (*nodes, node)))
        for name, below in node.members.items():
            walk((*tokens, name), (*nodes, node), below)
        if node.each is not None:
            for key in KEYS[:3]:
                walk((*tokens, key), (*nodes, node), node.each)

    for name, node in PATCHABLE.items():
        walk((name,), (), node)
    return found


def pointer(tokens: Iterable[str]) -> str:
    """The JSON pointer of these tokens."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def rfc6902(document: Any, ops: Iterable[Mapping[str, Any]]) -> Any:
    """The operations applied to a copy, to the letter: a target that must be there and is not raises KeyError."""
    root = copy.deepcopy(document)
    for op in ops:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in op["path"].split("/")[1:]]
        parent = root
        for token in tokens[:-1]:
            parent = parent[token]
        name = tokens[-1]
        assert isinstance(parent, dict)
        if op["op"] in ("remove", "replace") and name not in parent:
            raise KeyError(op["path"])
        if op["op"] == "remove":
            del parent[name]
        else:
            assert op["op"] in ("add", "replace")
            parent[name] = copy.deepcopy(op["value"])
    return root
