"""Reading a folder for real: its files, its lines by language, its largest files, its TODOs.

Symbolic links in the folder are counted and never followed, so nothing outside of it is read and no circle is walked.
Every folder and file is opened relative to its parent's descriptor, so that one which is swapped for a link meanwhile
is not followed either. What cannot be read is counted and does not end the reading.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from livebox.demo.languages import language
from livebox.printable import printable

#: Folders that tools fill and people do not mean when they ask about a project.
IGNORED: Final = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".livebox"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache", ".schemathesis"}
)
#: The words count where a comment, a list item or a line begins with them, not inside of a sentence.
MARK: Final = re.compile(rb"(?m)(?:^|[#/*;%>-])[ \t]*(?:TODO|FIXME|XXX)\b")
_SNIFFED: Final = 8192  # bytes: a NUL among them makes a file binary
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Stopped(Exception):
    """The reading was asked to stop."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read at most: entries walked, bytes read in one pass, bytes of one file, depth, items in lists."""

    entries: int = 50_000
    bytes_read: int = 256 * 1024**2
    file_bytes: int = 4 * 1024**2
    depth: int = 40
    listed: int = 5
    languages: int = 15


class File(NamedTuple):
    """One regular file: its path from the folder and its size in bytes."""

    path: str
    size: int


@dataclass(slots=True)
class Listing:
    """What is in the folder; `complete` is False when a bound ended the walk."""

    files: list[File] = field(default_factory=list)
    folders: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    complete: bool = True

    def detail(self) -> dict[str, Any]:
        """For the step: counts, and why things were left out."""
        return _present(
            {
                "files": len(self.files),
                "folders": self.folders,
                "bytes": sum(file.size for file in self.files),
                "skipped": dict(sorted(self.skipped.items())),
                "complete": self.complete,
            }
        )


@dataclass(slots=True)
class Lines:
    """Lines and files by language, largest first, and the paths of the text files in which they are."""

    lines: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    text: list[File] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def detail(self, bounds: Bounds) -> dict[str, Any]:
        """For the step: the languages by lines, and the files that were not counted, by reason."""
        languages = [
            {"name": name, "files": self.files[name], "lines": lines}
            for name, lines in ranked(self.lines)[: bounds.languages]
        ]
        left_out = len(self.lines) - len(languages)
        return _present(
            {
                "lines": self.lines.total(),
                "languages": languages,
                "more_languages": left_out or None,
                "skipped": dict(sorted(self.skipped.items())),
            }
        )


def together(parts: Iterable[Lines]) -> Lines:
    """What several readers found."""
    whole = Lines()
    for part in parts:
        whole.lines += part.lines
        whole.files += part.files
        whole.text += part.text
        whole.skipped += part.skipped
    return whole


class Todo(NamedTuple):
    """A line that somebody wants to come back to."""

    path: str
    line: int
    text: str


class FolderReader:
    """Reads one folder, phase by phase. `folder` is a resolved path; `stopped` is asked between files.

    `files_read` and `bytes_read` count, over all phases, what was read so far; another thread may look at them.
    """

    def __init__(self, folder: Path, bounds: Bounds | None = None, stopped: Callable[[], bool] = lambda: False) -> None:
        self.bounds = bounds or Bounds()
        self._folder = folder
        self._stopped = stopped
        self.files_read = 0
        self.bytes_read = 0

    def listing(self) -> Listing:
        """All regular files. OSError when the folder itself cannot be opened."""
        listing = Listing()
        self._walk(os.open(self._folder, _FOLDER_FLAGS), "", 0, listing)
        listing.files.sort()
        return listing

    def lines(self, files: list[File]) -> Lines:
        """Lines by language of the text files among `files`."""
        found = Lines()
        for file, content in self._contents(files, found.skipped):
            name = language(file.path.rsplit("/", 1)[-1], content[:_SNIFFED])
            found.lines[name] += content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
            found.files[name] += 1
            found.text.append(file)
        return found

    def largest(self, files: list[File]) -> list[File]:
        """The largest files, at most `bounds.listed`; of equal ones the first by path."""
        return sorted(files, key=lambda file: (-file.size, file.path))[: self.bounds.listed]

    def todos(self, text: list[File]) -> tuple[int, list[Todo]]:
        """How many lines of these text files ask to be come back to (`MARK`), and the first `bounds.listed`."""
        count, first = 0, list[Todo]()
        for file, content in self._contents(text, Counter()):
            if MARK.search(content) is None:
                continue
            for number, line in enumerate(content.split(b"\n"), 1):
                if MARK.search(line):
                    count += 1
                    if len(first) < self.bounds.listed:
                        first.append(
                            Todo(printable(file.path), number, printable(line.decode("utf-8", "replace").strip(), 120))
                        )
        return count, first

    def _walk(self, descriptor: int, prefix: str, depth: int, listing: Listing) -> None:
        """Add what is in the open folder to `listing`; closes the descriptor."""
        try:
            with os.scandir(descriptor) as entries:
                names = sorted(entry.name for entry in islice(entries, self.bounds.entries + 1))
            for name in names:
                self._check_stop()
                if len(listing.files) + listing.folders + listing.skipped.total() >= self.bounds.entries:
                    listing.complete = False
                    return
                self._entry(descriptor, name, prefix, depth, listing)
        finally:
            os.close(descriptor)

    def _entry(self, parent: int, name: str, prefix: str, depth: int, listing: Listing) -> None:
        try:
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                listing.files.append(File(prefix + name, about.st_size))
            elif stat.S_ISLNK(about.st_mode):
                listing.skipped["links"] += 1
            elif not stat.S_ISDIR(about.st_mode):
                listing.skipped["special"] += 1
            elif name in IGNORED:
                listing.skipped["ignored_folders"] += 1
            elif depth >= self.bounds.depth:
                listing.skipped["too_deep"] += 1
                listing.complete = False
            else:
                child = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
                listing.folders += 1
                self._walk(child, f"{prefix}{name}/", depth + 1, listing)
        except OSError:  # no right to open it, or it went away
            listing.skipped["unreadable"] += 1

    def _contents(self, files: list[File], skipped: Counter[str]) -> Iterator[tuple[File, bytes]]:
        """The content of each text file within the bounds; why others are left out goes into `skipped`."""
        total = 0
        for file in files:
            self._check_stop()
            if file.size > self.bounds.file_bytes:
                skipped["too_large"] += 1
                continue
            if total + file.size > self.bounds.bytes_read:
                skipped["over_the_limit"] += 1
                continue
            try:
                with self._opened(file.path) as descriptor:
                    content = _read(descriptor, self.bounds.file_bytes)
            except OSError:
                skipped["unreadable"] += 1
                continue
            total += len(content)
            self.files_read += 1
            self.bytes_read += len(content)
            if b"\0" in content[:_SNIFFED]:
                skipped["binary"] += 1
                continue
            yield file, content

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, reached folder by folder without following a link."""
        *folders, name = path.split("/")
        parent = os.open(self._folder, _FOLDER_FLAGS)
        try:
            for folder in folders:
                child = os.open(folder, _FOLDER_FLAGS, dir_fd=parent)
                os.close(parent)
                parent = child
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("no longer a regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    def _check_stop(self) -> None:
        if self._stopped():
            raise Stopped


def _read(descriptor: int, limit: int) -> bytes:
    """At most `limit` bytes of a file that may be growing."""
    chunks: list[bytes] = []
    left = limit
    while left and (chunk := os.read(descriptor, min(left, 1024**2))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """Names with their counts, largest first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _present(detail: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty or absent; zero and False stay."""
    return {name: value for name, value in detail.items() if value is not None and value not in ({}, [])}
