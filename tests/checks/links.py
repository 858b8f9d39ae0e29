"""Links in Markdown files resolve: files exist, and so do the headings that a fragment names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from tests.checks.tree import Tree

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^ *\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def problems(tree: Tree) -> Iterator[str]:
    """Each dead link as `path:line: what`. Links to other hosts are not followed."""
    for path in tree.files(".md"):
        text = _without_code("\n".join(tree.lines(path)))
        for match in LINK.finditer(text):
            target = match[1] or match[2]
            if re.match(r"[a-z]+:", target):
                continue
            if wrong := _resolve(tree, path, target):
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {target}: {wrong}"


def _resolve(tree: Tree, path: str, target: str) -> str:
    name, _, fragment = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
    if file.startswith(("..", "/")):
        return "leads out of the project"
    if not (tree.root / file).exists():
        return "no such file"
    if fragment and file.endswith(".md") and fragment not in _anchors("\n".join(tree.lines(file))):
        return "no such heading"
    return ""


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", FENCE.sub("", text), re.MULTILINE)
    explicit = re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(explicit)


def _without_code(text: str) -> str:
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", "", text)
