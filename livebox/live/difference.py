"""What changed between two documents, as operations of RFC 6902 that lead from one to the other.

Only `add`, `replace` and `remove`, by name in objects: what is in a list is told by the list as a whole. Equal means
equal as JSON: 1 and 1.0 are, 1 and true are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

DEPTH: Final = 3
"""How deep single members are told, in tokens: deeper ones are small, and their names are not ours."""

VOLATILE: Final = frozenset({"claimed_at", "last_heartbeat_at", "last_progress_at", "document_as_of", "version"})
"""Members of a run document that say nothing of its content: a difference does not tell them."""


def difference(
    old: Mapping[str, Any], new: Mapping[str, Any], *, ignored: frozenset[str] = VOLATILE
) -> list[dict[str, Any]]:
    """Operations that make `new` out of `old`, but for the members named in `ignored`."""
    ops: list[dict[str, Any]] = []
    _compare(old, new, "", 1, ignored, ops)
    return ops


def _compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    at: str,
    depth: int,
    ignored: frozenset[str],
    ops: list[dict[str, Any]],
) -> None:
    gone = (name for name in old if name not in new and name not in ignored)
    ops.extend({"op": "remove", "path": at + _token(name)} for name in gone)
    for name, value in new.items():
        if name in ignored:
            continue
        if name not in old:
            ops.append({"op": "add", "path": at + _token(name), "value": value})
            continue
        before = old[name]
        if same(before, value):
            continue
        if depth < DEPTH and isinstance(before, dict) and isinstance(value, dict):
            _compare(before, value, at + _token(name), depth + 1, frozenset(), ops)
        else:
            ops.append({"op": "replace", "path": at + _token(name), "value": value})


def same(one: Any, other: Any) -> bool:
    """Are these the same JSON value?"""
    if one is other:
        return True
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(name in other and same(value, other[name]) for name, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def laid_over(document: dict[str, Any], ops: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A copy of the document with these operations done as far as they go: what is not there is made, or left."""
    root = dict(document)
    for op in ops:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in op["path"][1:].split("/")]
        parent = root
        for token in tokens[:-1]:
            child = parent.get(token)
            child = parent[token] = dict(child) if isinstance(child, dict) else {}
            parent = child
        if op["op"] == "remove":
            parent.pop(tokens[-1], None)
        else:
            parent[tokens[-1]] = op["value"]
    return root


def _token(name: str) -> str:
    return f"/{name.replace('~', '~0').replace('/', '~1')}"
