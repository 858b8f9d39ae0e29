"""Which folder a message asks about, and where it really is: below the root that the agent may read, or refused."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from livebox.printable import printable

_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_PATH = re.compile(r"(?<!\S)(\S*/\S*|\.{1,2})(?=[,;:!?]?(?:\s|$))")
_LAST_WORD = re.compile(r"\b(?:folder|directory)\s+(\S+)\s*$", re.IGNORECASE | re.MULTILINE)
_TRAILING: Final = ",;:!?)"
_DEPTH: Final = 6  # levels below the root in which a folder is looked for by its name
_BREADTH: Final = 2000  # folders of one level


class FolderRefused(Exception):
    """The folder cannot be read; the text tells the person why, in words that name nothing outside the root."""


def folder_asked(text: str) -> str:
    """The folder that a message names: what is quoted, else what looks like a path, else a last word after "folder".

    "." (the root itself) when it names none.
    """
    if quoted := _QUOTED.search(text):
        return next(group for group in quoted.groups() if group is not None).strip() or "."
    found = _PATH.search(text)
    if found is not None:
        return found[1].rstrip(_TRAILING) or "."
    found = _LAST_WORD.search(text)
    return (found[1].rstrip(_TRAILING + ".") or ".") if found is not None else "."


def namesakes(root: Path, asked: str, ignored: Collection[str], most: int = 9) -> list[str]:
    """Where below `root` there are folders with the name `asked`, when it is a name that the root itself does not have.

    Links are not followed; at most `most` paths, the highest first.
    """
    if not re.fullmatch(r"[^/\\\0]+", asked) or asked.startswith((".", "~")):
        return []
    try:
        if (root / asked).exists():
            return []
    except (OSError, ValueError):  # a name that cannot be
        return []
    found: list[str] = []
    level = [root]
    for _ in range(_DEPTH):
        below: list[Path] = []
        for folder in level:
            try:
                entries = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue
            below += [folder / name for name in entries if name not in ignored]
        found += [path.relative_to(root).as_posix() for path in below if path.name == asked]
        level = below[:_BREADTH]
        if len(found) >= most or not level:
            break
    return found[:most]


def resolve(root: Path, asked: str) -> Path:
    """The real path of the folder `asked`, symbolic links followed, which is `root` or lies below it.

    Raises FolderRefused for anything else: an absolute path, a way up, a link that leads outside, something that does
    not exist or is no folder. Whether something exists outside of the root is not told.
    """
    name = printable(asked)
    if "\0" in asked:
        raise FolderRefused("The name of the folder is not valid.")
    if asked.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:[\\/]", asked):
        raise FolderRefused(f"{name} is not a path below the folder that I may read.")
    if ".." in re.split(r"[\\/]", asked):
        raise FolderRefused(f"{name} leads out of the folder that I may read.")
    base = root.resolve()
    try:
        path = (base / asked).resolve()
        inside = path.is_relative_to(base)
        exists, is_folder = inside and path.exists(), inside and path.is_dir()
    except (OSError, RuntimeError) as wrong:  # a name that is too long, links that go in a circle
        raise FolderRefused(f"The folder {name} cannot be reached.") from wrong
    if not inside:
        raise FolderRefused(f"{name} leads out of the folder that I may read.")
    if not exists:
        raise FolderRefused(f"The folder {name} does not exist.")
    if not is_folder:
        raise FolderRefused(f"{name} is not a folder.")
    return path
