"""JSON lines, read so that each line that is none is named by its number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from livebox.importing.findings import Findings

MAX_LINE: Final = 4 * 1024 * 1024  # bytes
MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Line:
    """One JSON object, without the members that are null, and where it stands (`runs.jsonl:12`)."""

    where: str
    members: dict[str, Any]


class _Unreadable(ValueError):
    """The text says why."""


def read_lines(file: BinaryIO, name: str, findings: Findings) -> Iterator[Line]:
    """The lines of a file; empty ones are passed over, those that cannot be read are told as `bad_json`."""
    number = 0
    while raw := file.readline(MAX_LINE + 1):
        number += 1
        where = f"{name}:{number}"
        try:
            if len(raw) > MAX_LINE:
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(MAX_LINE)
                raise _Unreadable(f"longer than {MAX_LINE} bytes")
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                yield Line(where, _object(text))
        except (ValueError, RecursionError) as error:
            findings.add("bad_json", _why(error), where=where)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise _Unreadable("no object")
    _check(value, 0)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise _Unreadable("a member stands twice")
    return {name: value for name, value in pairs if value is not None}


def _no_constant(name: str) -> Any:
    raise _Unreadable(f"{name} is no number")


def _check(value: Any, depth: int) -> None:
    """Raises when text cannot be sent or kept, or when it goes too deep."""
    if depth > MAX_DEPTH:
        raise _Unreadable(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise _Unreadable("text with NUL or half a character")
    elif isinstance(value, dict):
        for name, member in value.items():
            _check(name, depth)
            _check(member, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)


def _why(error: ValueError | RecursionError) -> str:
    if isinstance(error, _Unreadable):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "no UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deep or a number too long"
