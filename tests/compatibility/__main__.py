"""`python -m tests.compatibility`: what has changed in the contract since a revision of git or a release.

Exit status: 0 nothing breaks, 1 something does, 2 the two could not be compared.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from livebox.codegen.documents import DocumentError, Documents, load
from tests.compatibility.contracts import at_revision, compare
from tests.compatibility.release import FOLDER, keep, kept, written
from tests.compatibility.report import BREAKING, as_json, as_text, worst

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__)
    parser.add_argument(
        "--base", default="", help="a git revision, or a folder with both documents; else the last release"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--keep", action="store_true", help="keep the contract as that of its version, for a release")
    options = parser.parse_args(arguments)
    try:
        if options.keep:
            print(keep(root))
            return 0
        base, old = _base(root, options.base)
        changes = compare(old, load(root))
    except (DocumentError, FileExistsError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(as_json(base, changes) if options.json else as_text(changes))
    return 1 if worst(changes) == BREAKING else 0


def _base(root: Path, name: str) -> tuple[str, Documents]:
    """The name of what is compared with, and its contract."""
    if not name:
        versions = kept(root)
        if not versions:
            raise ValueError("nothing has been released yet; name a revision of git: make contract-diff BASE=HEAD~1")
        name = f"{FOLDER}/{written(versions[-1])}"
    return name, load(root / name) if (root / name).is_dir() else at_revision(root, name)


if __name__ == "__main__":
    sys.exit(main())
