"""What was released: a copy of the contract of each version, and whether the next version says enough of what changed.

`docs/contract/<version>/` holds both documents as they were released. They are committed, so that a checkout without
tags and without history can still be held against them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from livebox.codegen.documents import ASYNCAPI, OPENAPI, DocumentError, Documents, load
from tests.compatibility.contracts import compare
from tests.compatibility.report import ADDITIVE, BREAKING, worst

FOLDER = "docs/contract"
CHANGELOG = "CHANGELOG.md"
_HEADING = re.compile(r"^## \[(\d+)\.(\d+)\.(\d+)\]", re.MULTILINE)

Version = tuple[int, int, int]


def written(version: Version) -> str:
    """`1.2.3`."""
    return ".".join(map(str, version))


def read(text: str) -> Version:
    """The three numbers of a version. Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text)
    if not found:
        raise ValueError(f"{text!r} is no version of three numbers")
    return int(found[1]), int(found[2]), int(found[3])


def released(root: Path) -> list[Version]:
    """The versions that CHANGELOG.md tells of, the oldest first."""
    text = (root / CHANGELOG).read_text(encoding="utf-8")
    return sorted((int(a), int(b), int(c)) for a, b, c in _HEADING.findall(text))


def kept(root: Path) -> list[Version]:
    """The versions whose contract is kept, the oldest first."""
    folder = root / FOLDER
    names = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return sorted(read(name) for name in names)


def enough(old: Version, new: Version, level: str) -> bool:
    """Whether going from `old` to `new` says that something of this level has changed (semantic versioning)."""
    if level not in (BREAKING, ADDITIVE):
        return new >= old
    if new[0] > old[0]:
        return True
    if new[0] != old[0]:
        return False
    if new[0] == 0:  # nothing is promised yet: the second number says what breaks, the third what is new
        return new[1] > old[1] or (level == ADDITIVE and new > old)
    return level == ADDITIVE and new[1] > old[1]


def problems(root: Path) -> Iterator[str]:
    """Where versions, copies and contract do not fit together, each as `path:line: what`."""
    try:
        documents = load(root)
        now = read(documents.openapi["info"]["version"])
        versions, copies = released(root), kept(root)
    except (DocumentError, ValueError) as error:
        yield f"{OPENAPI}:1: {error}"
        return
    for file, said in _versions(root, documents):
        if said != written(now):
            yield f"{file}:1: says version {said}, {OPENAPI} says {written(now)}"
    for version in versions:
        if version not in copies:
            yield f"{CHANGELOG}:1: {written(version)} is released, {FOLDER}/{written(version)} is not there"
    for version in copies:
        if version not in versions:
            yield f"{FOLDER}/{written(version)}/{OPENAPI}:1: {CHANGELOG} knows no such version"
    if copies:
        yield from _bump(root, copies[-1], now, documents)


def _bump(root: Path, last: Version, now: Version, documents: Documents) -> Iterator[str]:
    changes = compare(load(root / FOLDER / written(last)), documents)
    level = worst(changes)
    if not enough(last, now, level):
        first = f", such as {changes[0].pointer}: {changes[0].message}" if changes else ""
        yield (
            f"{OPENAPI}:1: {level or 'nothing'} since {written(last)}{first}; "
            f"the version {written(now)} does not say so (see docs/compatibility.md)"
        )


def _versions(root: Path, documents: Documents) -> Iterator[tuple[str, str]]:
    yield ASYNCAPI, documents.asyncapi["info"]["version"]
    project = root / "pyproject.toml"
    if project.is_file():
        yield "pyproject.toml", tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]


def keep(root: Path) -> str:
    """Copy the contract as that of its version; gives the folder. What was kept once never changes: FileExistsError."""
    version = load(root).openapi["info"]["version"]
    folder = root / FOLDER / written(read(version))
    wanted = {file: (root / file).read_bytes() for file in (OPENAPI, ASYNCAPI)}
    if folder.is_dir() and any((folder / file).read_bytes() != content for file, content in wanted.items()):
        raise FileExistsError(f"{FOLDER}/{version} holds another contract; what was released does not change")
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in wanted.items():
        (folder / file).write_bytes(content)
    return f"{FOLDER}/{version}"
