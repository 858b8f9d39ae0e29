"""Two contracts compared, and where they come from: this folder, another one, or a revision of git."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from livebox.codegen.documents import ASYNCAPI, OPENAPI, DocumentError, Documents, escape, load
from tests.compatibility.frames import Frames
from tests.compatibility.operations import Operations
from tests.compatibility.report import DOCS, Change, Report
from tests.compatibility.schemas import Schemas
from tests.compatibility.view import Reader

#: What says something to people and nothing to programs.
PROSE = frozenset({"title", "summary", "description", "example", "examples", "tags", "info", "externalDocs", "meaning",
                   "deprecated", "$comment", "links"})  # fmt: skip
#: Members whose own members have names that somebody chose.
NAMED = frozenset({"properties", "patternProperties", "schemas", "responses", "parameters", "headers", "requestBodies",
                   "securitySchemes", "messages", "channels", "operations", "paths", "content",
                   "x-problem-codes", "x-close-codes"})  # fmt: skip


def compare(old: Documents, new: Documents) -> list[Change]:
    """All changes from `old` to `new`, the worst first; none exactly where both are equal."""
    report = Report()
    before, after = Reader(old), Reader(new)
    schemas = Schemas(before, after, report)
    Operations(before, after, schemas, report).compare()
    Frames(before, after, schemas, report).compare()
    for file in (OPENAPI, ASYNCAPI):
        for pointer, prose in list(_differences(old.named(file), new.named(file), f"{file}#", named=False)):
            if prose:
                report.add(DOCS, "prose", "says it in other words", pointer)
            elif not report.tells_of(pointer):
                report.add(DOCS, "form", "is written otherwise and changes nothing that is sent", pointer)
    return report.changes()


def _differences(old: Any, new: Any, pointer: str, *, named: bool) -> Iterator[tuple[str, bool]]:
    """Where two values differ, as deep as possible, and whether it is prose there."""
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            here = f"{pointer}/{escape(key)}"
            if not named and key in PROSE:
                if old.get(key) != new.get(key):
                    yield here, True
            elif key not in old or key not in new:
                yield here, False
            else:
                # `properties: {properties: ...}` is a member of that name, and so on.
                yield from _differences(old[key], new[key], here, named=not named and key in NAMED)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and all(
        isinstance(item, dict) for item in (*old, *new)
    ):  # fmt: skip
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, f"{pointer}/{index}", named=False)
    else:
        yield pointer, False


def at_revision(root: Path, revision: str) -> Documents:
    """The contract of a git revision. Raises DocumentError when git does not know it or it has no contract."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (OPENAPI, ASYNCAPI):
            shown = subprocess.run(
                ["git", "show", "--end-of-options", f"{revision}:{file}"], cwd=root, capture_output=True
            )
            if shown.returncode:
                raise DocumentError(f"git has no {file} at {revision!r}: {shown.stderr.decode().strip()}")
            (Path(folder) / file).write_bytes(shown.stdout)
        return load(Path(folder))
