"""The run document on this side: patches applied to it, and the patch that leads from one document to another.

Of RFC 6902 there are `add`, `replace` and `remove`. Objects that only hold others (`plan`, `subagents`, ...) come with
the first `add` below them and go when they are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from generated.models import PatchOp
from generated.patchable_paths import PATCHABLE, PatchNode, find

_SERVER_CONTAINERS: Final = frozenset({("steps",), ("followups",)})


class Mismatch(ValueError):
    """The patch does not fit the document: it was made for another one."""


def members(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run document that its agent may patch."""
    return {name: document[name] for name in PATCHABLE if name in document}


def apply(document: Mapping[str, Any], ops: Iterable[PatchOp]) -> dict[str, Any]:
    """The document with the operations applied, one after the other. `document` stays as it is; what did not change
    is shared between both. Raises Mismatch when a place is not there."""
    changed = dict(document)
    for op in ops:
        path = _tokens(op["path"])
        _put(changed, path, 0, op)
    return changed


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[PatchOp]:
    """The smallest patch that leads from `old` to `new`, looking at patchable members only."""
    return list(_differences(PATCHABLE, old, new, ""))


def coarse(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[PatchOp]:
    """A patch from `old` to `new` with one operation for each member of the document that differs."""
    ops: list[PatchOp] = []
    for name in PATCHABLE:
        if name in new and (name not in old or old[name] != new[name]):
            ops.append({"op": "add", "path": f"/{name}", "value": new[name]})
        elif name in old and name not in new:
            ops.append({"op": "remove", "path": f"/{name}"})
    return ops


def without_empty(document: dict[str, Any]) -> None:
    """Take out the containers that hold nothing, in place: the server does not keep them either."""
    for name, node in PATCHABLE.items():
        if name in document and _emptied(node, document[name]):
            del document[name]


def _emptied(node: PatchNode, value: Any) -> bool:
    if not node.container or not isinstance(value, dict):
        return False
    for name, below in node.members.items():
        if name in value and _emptied(below, value[name]):
            del value[name]
    return not value


def _differences(
    nodes: Mapping[str, PatchNode], old: Mapping[str, Any], new: Mapping[str, Any], prefix: str
) -> Iterable[PatchOp]:
    for name, node in nodes.items():
        yield from _difference(node, old, new, name, prefix)


def _difference(
    node: PatchNode, old: Mapping[str, Any], new: Mapping[str, Any], name: str, prefix: str
) -> Iterable[PatchOp]:
    path = f"{prefix}/{_escaped(name)}"
    if name not in new:
        if name in old:
            yield {"op": "remove", "path": path}
        return
    after = new[name]
    if name not in old:
        yield {"op": "add", "path": path, "value": after}
        return
    before = old[name]
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        if node.each is not None:
            for key in dict.fromkeys((*before, *after)):
                yield from _difference(node.each, before, after, key, path)
            return
        if node.members:
            yield from _differences(node.members, before, after, path)
            return
    yield {"op": "replace", "path": path, "value": after}


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _tokens(path: str) -> list[str]:
    if not path.startswith("/"):
        raise Mismatch(f"not a place in the document: {path!r}")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _put(target: dict[str, Any], path: list[str], depth: int, op: PatchOp) -> None:
    """Carry out `op` below `target`, which is ours to change; objects on the way are copied."""
    name = path[depth]
    if depth == len(path) - 1:
        if op["op"] != "add" and name not in target:
            raise Mismatch(f"there is nothing at {op['path']}")
        if op["op"] == "remove":
            del target[name]
        else:
            target[name] = op["value"]
        return
    container = _is_container(path[: depth + 1])
    below = target.get(name, {} if container and op["op"] == "add" else None)
    if not isinstance(below, dict):
        raise Mismatch(f"there is nothing at {op['path']}")
    copied = dict(below)
    _put(copied, path, depth + 1, op)
    if not copied and container:
        del target[name]
    else:
        target[name] = copied


def _is_container(path: list[str]) -> bool:
    node = find(path)
    return node.container if node is not None else tuple(path) in _SERVER_CONTAINERS
