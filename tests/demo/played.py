"""`livebox demo` as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fixtures.serving import CHECKED

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120


class Demo:
    """A running `livebox demo`; its temporary folders are made in `temporary`."""

    def __init__(self, temporary: Path, *options: str, **variables: str) -> None:
        self.temporary = temporary
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("LIVEBOX_", "DATABASE_URL"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "livebox", "demo", *options],
            cwd=ROOT,
            env=clean | CHECKED | {"TMPDIR": str(temporary)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Reads its output up to a line in which the pattern is."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"{pattern} never came:\n{self.output}\n{self.process.communicate()[1]}")

    def end(self, number: int | None = None) -> int:
        """Its exit status, after a signal when one is given."""
        if number is not None:
            self.process.send_signal(number)
        rest, self.errors = self.process.communicate(timeout=PATIENCE)
        self.output += rest
        return self.process.returncode

    def agent(self) -> int:
        """The pid of the agent; what it prints must have got so far."""
        return int(self.until(r"Lotse runs as process (\d+)")[1])

    def clean(self) -> bool:
        """Whether no process of it and no file are left."""
        return not list(self.temporary.iterdir()) and not processes_with(str(self.temporary))


def processes_with(text: str) -> list[str]:
    """The command lines of all processes that have `text` in them."""
    lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in line:
                lines.append(line)
    return lines
