"""Where things stand and what they are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.checks.tree import Tree

TOP = {
    "openapi.yaml", "asyncapi.yaml", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Makefile", ".ci",
    "generated", "handlers", "db", "livebox", "tests", "docs", "constraints.txt", "package.json",
}  # fmt: skip
NOT_A_NOUN = {"utils", "util", "common", "core", "base", "helpers", "helper", "misc"}
# Written by hand: a module is about 300 lines, and never longer than this.
LINES = 370
PACKAGES = ("generated", "handlers", "db", "livebox")


def problems(tree: Tree) -> Iterator[str]:
    """Each finding as `path:line: what`."""
    files = tree.files()
    for name in sorted({path.split("/")[0] for path in files}):
        if name not in TOP and not name.startswith("."):
            yield f"{name}:1: does not belong at the top"
    for package in PACKAGES:
        if f"{package}/README.md" not in files:
            yield f"{package}/README.md:1: is missing"
    for path in files:
        if path.endswith(".py"):
            yield from _module(tree, path)


def _module(tree: Tree, path: str) -> Iterator[str]:
    if set(PurePosixPath(path).with_suffix("").parts) & NOT_A_NOUN:
        yield f"{path}:1: a module is called after the noun it holds"
    lines = tree.lines(path)
    if len(lines) > LINES and path.startswith(("handlers/", "db/", "livebox/")):
        yield f"{path}:1: {len(lines)} lines; {LINES} are the most"
    if not path.startswith(PACKAGES):
        return
    text = "\n".join(lines)
    if path != "livebox/settings.py":
        for match in re.finditer(r"\bos\.(environ|getenv)\b|\bfrom os import .*\b(environ|getenv)\b", text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: the environment is read by livebox/settings.py only"
    if path.startswith("livebox/client/"):
        yield from _client(path, text)


def _client(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
        for name in names:
            if name.split(".")[0] in ("handlers", "db", "livebox") and not name.startswith("livebox.client"):
                yield f"{path}:{node.lineno}: the client imports generated/ only, not {name}"
