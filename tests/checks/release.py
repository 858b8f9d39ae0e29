"""The contract against what was released: a change that breaks somebody shows in the version."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checks.tree import Tree
from tests.compatibility import release


def problems(tree: Tree) -> Iterator[str]:
    """Each finding as `path:line: what`."""
    yield from release.problems(tree.root)
