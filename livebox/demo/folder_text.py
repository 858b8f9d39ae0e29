"""What was read in a folder, in words for people."""

from __future__ import annotations

from typing import Final

from livebox.demo.folder_report import File, Lines, Listing, Todo, ranked
from livebox.printable import printable

_LANGUAGES: Final = 8
_WORDS: Final = {
    "binary": "binary",
    "ignored_folders": "folders of tools",
    "links": "links",
    "over_the_limit": "beyond my limit",
    "special": "special files",
    "too_deep": "folders that are too deep",
    "too_large": "too large",
    "unreadable": "unreadable",
}


def report(folder: str, listing: Listing, lines: Lines, largest: list[File], todos: tuple[int, list[Todo]]) -> str:
    """The answer for people, as Markdown."""
    count, first = todos
    parts = [f"**{counted(len(listing.files), 'file')}** in `{folder}`, {size(sum(f.size for f in listing.files))}"]
    parts[0] += "." if listing.complete else " - and more: I stopped at my limit."
    if lines.lines:
        parts += ["", "Lines by language:"]
        top = ranked(lines.lines)[:_LANGUAGES]
        parts += [f"- {name}: {number:,} in {counted(lines.files[name], 'file')}" for name, number in top]
    if largest:
        parts += ["", "Largest files:", *(f"- `{printable(file.path)}`, {size(file.size)}" for file in largest)]
    parts += ["", f"{counted(count, 'TODO')}{':' if first else '.'}"]
    parts += [f"- `{todo.path}:{todo.line}` {todo.text}" for todo in first]
    left_out = listing.skipped + lines.skipped
    if left_out:
        reasons = ", ".join(f"{number:,} {_WORDS[reason]}" for reason, number in sorted(left_out.items()))
        parts += ["", f"Left out: {reasons}."]
    return "\n".join(parts)


def headline(listing: Listing, lines: Lines, todos: int) -> str:
    """The report in one line."""
    top = ", ".join(f"{name} {number:,}" for name, number in ranked(lines.lines)[:3])
    facts = [counted(len(listing.files), "file"), counted(lines.lines.total(), "line"), counted(todos, "TODO")]
    return ", ".join(facts) + (f" ({top})" if top else "")


def size(number: int) -> str:
    """A number of bytes for people."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
