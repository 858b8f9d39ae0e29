"""`python -m livebox.codegen`: write `generated/` and the reference pages, or check that they are as they should be."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from livebox.codegen.documents import DocumentError, load
from livebox.codegen.output import differences, files, write
from livebox.codegen.reasons import ReasonsError
from livebox.codegen.reasons import page as reasons
from livebox.codegen.reference_pages import pages as reference
from livebox.codegen.state_diagram import DiagramError
from livebox.codegen.state_diagram import pages as diagram


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done or nothing to do, 1 the output differs (`--check`), 2 the documents are wrong."""
    parser = argparse.ArgumentParser(prog="python -m livebox.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; list what differs and exit with 1")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the folder of the documents")
    options = parser.parse_args(arguments)
    try:
        documents = load(options.root)
        wanted = files(documents)
        if (options.root / "db" / "migrations").is_dir():
            wanted |= diagram(options.root) | reasons(options.root) | reference(documents)
    except (DocumentError, DiagramError, ReasonsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.check:
        lines = differences(options.root, wanted)
        print("\n".join(lines) or "everything is up to date")
        return 1 if lines else 0
    changed = write(options.root, wanted)
    print("\n".join(changed) or "everything is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
