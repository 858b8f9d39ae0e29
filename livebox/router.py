"""From a path to what serves it: a tree of segments, walked once per request.

It does what aiohttp's dispatcher does for templates such as `/v1/runs/{run_id}`, but costs the same for the first and
the hundredth path, and tells an unknown path from a method that a known path does not take.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar
from urllib.parse import unquote

T = TypeVar("T")


_NO_PARAMETERS: Final[dict[str, str]] = {}


class _Node(Generic[T]):
    __slots__ = ("literal", "methods", "names", "parameter")

    def __init__(self) -> None:
        self.literal: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.methods: dict[str, T] = {}
        self.names: tuple[str, ...] = ()


class Router(Generic[T]):
    """Paths with what serves each of their methods."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, path: str, method: str, target: T) -> None:
        """Serve `method` of the template `path` by `target`. ValueError when something already does."""
        node = self._root
        names = []
        for segment in path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literal.setdefault(segment, _Node())
        if method in node.methods or (node.methods and node.names != tuple(names)):
            raise ValueError(f"{method} {path} is served twice")
        node.names = tuple(names)
        node.methods[method] = target

    def find(self, raw_path: str) -> tuple[dict[str, T], dict[str, str]] | None:
        """The methods of a path as it stands in the request, and its parameters decoded; None for an unknown path.

        Each segment is decoded by itself, so that an encoded slash stays within it. A parameter is never empty.
        """
        segments = raw_path.split("/")
        if segments[0]:
            return None
        if "%" in raw_path:
            segments = [unquote(segment, errors="replace") for segment in segments]
        node = self._root
        values = []
        for text in segments[1:]:
            below = node.literal.get(text)
            if below is None:
                below = node.parameter
                if below is None or not text:
                    return None
                values.append(text)
            node = below
        if not node.methods:
            return None
        return node.methods, dict(zip(node.names, values, strict=False)) if values else _NO_PARAMETERS
