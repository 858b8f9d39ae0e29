"""Rules of the SQL layer that its text shows: one clock, one function per file, a comment on every object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.checks.tree import Tree

# The only source of time is livebox.clock(); its own definition is the one place that reads the server's clock.
TIME = re.compile(
    r"\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(\s*\)"
    r"|\b(current_timestamp|current_date|current_time|localtimestamp|localtime)\b",
    re.IGNORECASE,
)
CLOCK = re.compile(r"FUNCTION\s+livebox\.clock\s*\(\s*\).*?AS\s+(\$\w*\$|').*?\1", re.IGNORECASE | re.DOTALL)
TOO_NEW = re.compile(r"\b(uuidv7|uuidv4|uuid_extract_timestamp|json_table|random_normal)\s*\(", re.IGNORECASE)
FUNCTION = re.compile(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\s+(?:(\w+)\.)?(\w+)", re.IGNORECASE)
CREATED = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+|UNIQUE\s+|CONSTRAINT\s+|UNLOGGED\s+)*"
    r"(TABLE|TYPE|DOMAIN|FUNCTION|PROCEDURE|VIEW|SEQUENCE|INDEX|TRIGGER|SCHEMA)\s+"
    r"(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?:livebox\.)?(\w+)",
    re.IGNORECASE,
)
COMMENTED = re.compile(r"\bCOMMENT\s+ON\s+(\w+)\s+(?:livebox\.)?(\w+)", re.IGNORECASE)


def problems(tree: Tree) -> Iterator[str]:
    """Each finding as `path:line: what`."""
    created: dict[tuple[str, str], str] = {}
    commented: set[tuple[str, str]] = set()
    for path in tree.files(".sql"):
        if not path.startswith("db/"):
            continue
        text = without_comments("\n".join(tree.lines(path)))
        outside_clock = CLOCK.sub(lambda match: "\n" * match[0].count("\n"), without_texts(text))
        yield from _forbidden(path, outside_clock)
        if path.startswith("db/functions/"):
            yield from _one_function(path, text)
        bare = without_bodies(text)
        for match in CREATED.finditer(bare):
            created.setdefault((match[1].upper(), match[2].lower()), f"{path}:{_line(bare, match.start())}")
        commented |= {(match[1].upper(), match[2].lower()) for match in COMMENTED.finditer(bare)}
    for (kind, name), place in created.items():
        if (kind, name) not in commented:
            yield f"{place}: {kind.lower()} {name} has no COMMENT ON"


def _forbidden(path: str, text: str) -> Iterator[str]:
    for match in TIME.finditer(text):
        yield f"{path}:{_line(text, match.start())}: {match[0]} (time comes from livebox.clock() only)"
    for match in TOO_NEW.finditer(text):
        yield f"{path}:{_line(text, match.start())}: {match[0]}) is not in PostgreSQL 15"


def _one_function(path: str, text: str) -> Iterator[str]:
    names = [match[2] for match in FUNCTION.finditer(without_bodies(text))]
    if names != [PurePosixPath(path).stem]:
        yield f"{path}:1: defines {', '.join(names) or 'nothing'}; a file defines the one function it is named after"


def without_comments(text: str) -> str:
    """The SQL with its comments blanked; lines stay where they are. Strings are kept."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("'") else "\n" * match[0].count("\n")

    return re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)


def without_texts(text: str) -> str:
    """The SQL with strings blanked that are no code: those outside dollar quotes, except a function's body."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match["code"] or match["body"] else "''" + "\n" * match[0].count("\n")

    pattern = r"(?P<code>(?P<quote>\$\w*\$).*?(?P=quote))|(?P<body>\bAS\s+'(?:[^']|'')*')|'(?:[^']|'')*'"
    return re.sub(pattern, blank, text, flags=re.DOTALL | re.IGNORECASE)


def without_bodies(text: str) -> str:
    """The SQL with strings and dollar-quoted bodies blanked."""
    return re.sub(
        r"'(?:[^']|'')*'|(\$\w*\$).*?\1", lambda match: "''" + "\n" * match[0].count("\n"), text, flags=re.DOTALL
    )


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
