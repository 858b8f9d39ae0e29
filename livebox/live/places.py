"""The places of a run document that a patch may touch, and what a value is like when it is kept there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from generated.patchable_paths import PATCHABLE, PatchNode
from generated.validators import DOCUMENT, checker, is_time
from livebox.live.times import in_utc

TIME: Final = "/schemas/Time"

NOTHING: Final = object()
"""In the place of a value of which nothing is kept."""


class Place(NamedTuple):
    """Where a path leads: its tokens, the node at each, and how many keys the object around it may have.

    `shaped`: a value there may hold times or empty containers, which are not kept as they come.
    """

    tokens: tuple[str, ...]
    nodes: tuple[PatchNode, ...]
    most: int
    shaped: bool


@lru_cache(maxsize=8192)
def locate(path: str) -> Place | None:
    """Where a JSON pointer (RFC 6901) leads in the run document; None where nothing may be patched."""
    if not path.startswith("/"):
        return None
    tokens = []
    for text in path[1:].split("/"):
        if "~" in text:
            if "~" in text.replace("~0", "").replace("~1", ""):
                return None
            text = text.replace("~1", "/").replace("~0", "~")
        tokens.append(text)
    below: Mapping[str, PatchNode] = PATCHABLE
    each: PatchNode | None = None
    keys = ""
    nodes: list[PatchNode] = []
    for token in tokens:
        node = below.get(token)
        if node is None:
            if each is None or not checker(keys).is_valid(token):
                return None
            node = each
        nodes.append(node)
        below, each, keys = node.members, node.each, node.keys
    around = nodes[-2] if len(nodes) > 1 else None
    most = _most(around.schema) if around is not None and around.each is not None else 0
    return Place(tuple(tokens), tuple(nodes), most, _is_shaped(nodes[-1]))


@lru_cache(maxsize=256)
def _most(schema: str) -> int:
    """How many keys an object of this schema may have; 0 when nothing is said."""
    node: Any = DOCUMENT
    for token in schema.split("/")[1:]:
        node = node[token]
    while "$ref" in node:
        pointer = node["$ref"].partition("#")[2]
        node = DOCUMENT
        for token in pointer.split("/")[1:]:
            node = node[token]
    return int(node.get("maxProperties", 0))


def kept(value: Any, node: PatchNode) -> Any:
    """The value with its times in UTC, and without containers that are empty; `NOTHING` when that is all of it."""
    if node.schema == TIME:
        return in_utc(value) if isinstance(value, str) and is_time(value) else value
    if type(value) is not dict or not _is_shaped(node):
        return value
    left = {}
    for name, below in value.items():
        child = node.members.get(name, node.each)
        stays = below if child is None else kept(below, child)
        if stays is not NOTHING:
            left[name] = stays
    return NOTHING if not left and node.container else left


def _is_shaped(node: PatchNode) -> bool:
    """Is this a time or an object that goes when it is empty, or is any such thing below it?"""
    if node.schema == TIME or node.container:
        return True
    return any(map(_is_shaped, node.members.values())) or (node.each is not None and _is_shaped(node.each))
