"""`python -m tests.checks`: run every check on this working copy; exits 1 when one finds something."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checks import api_rules, committed, links, names, release, sql
from tests.checks.tree import Tree

CHECKS = (api_rules, committed, links, names, release, sql)


def main() -> int:
    """Print the findings of all checks; the exit status."""
    tree = Tree(Path(__file__).resolve().parents[2])
    found = [problem for check in CHECKS for problem in check.problems(tree)]
    print(*found, sep="\n") if found else print("checks: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
