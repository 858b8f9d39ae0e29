"""The files of a working copy that belong to the project."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Tree:
    """Committed (or staged) files under `root`; every file where `root` is no git working copy."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def files(self, *suffixes: str) -> list[str]:
        """Paths relative to the root, sorted; only those that end with one of `suffixes`, when given."""
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "ls-files", "-z"], cwd=self.root, check=True, capture_output=True, text=True
            )
            paths = [path for path in listed.stdout.split("\0") if path]
        else:
            paths = [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]
        return sorted(
            path for path in paths if (self.root / path).is_file() and (not suffixes or path.endswith(suffixes))
        )

    def text(self, path: str) -> str | None:
        """The file's text; None when it is not UTF-8."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return None

    def lines(self, path: str) -> list[str]:
        """The file's lines; none for a binary file."""
        return (self.text(path) or "").splitlines()
