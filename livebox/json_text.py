"""Reading JSON from outside: strict, bounded, and with a pointer to what is wrong.

A text that a native parser accepts may still hurt what comes after it: a duplicate member that two readers resolve
differently, a NUL or a lone surrogate that the database refuses, a number that other languages round, a null where
the contract has none. `read` finds all of that. Its fast path is one native decoding, one walk over the values and a
few byte searches; only a text that smells is looked at closely, by `json_scan`.

Numbers: an integral number becomes an int however it was written (`1e2` is 100), within +-(2^53 - 1); others are
doubles. A negative zero with a fraction stays a float, so that where the contract wants an integer it is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from livebox.json_scan import DEPTH, DUPLICATE, MAX_DEPTH, MAX_INTEGER, SYNTAX, Finding, explain, number

# What keeps a text from being one JSON document with one meaning; the rest are readable documents that we refuse.
UNREADABLE: Final = frozenset({SYNTAX, DEPTH, DUPLICATE})


class JsonRefused(Exception):
    """The text is not JSON that we take; `findings` is never empty. `readable` is False when it is no JSON at all.

    `value` is the document as it was read, where it could be.
    """

    def __init__(self, findings: list[Finding], value: Any = None) -> None:
        self.value = value
        self.findings = findings = findings or [Finding(SYNTAX, "", "The text is not JSON.")]
        self.readable = all(finding.code not in UNREADABLE for finding in findings)
        super().__init__(findings[0].message)


_decode: Final = msgspec.json.Decoder(float_hook=number).decode
_member_ends: Final = re.compile(rb'"[ \t\r\n]*:').findall
_without_strings: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL).sub
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))
_SMELLS: Final = -(2**62)
_DIGITS: Final = bytes(0x30 if byte in b"0123456789" else 0x20 for byte in range(256))
_LONG: Final = b"0" * 16  # digits of the smallest integer that may be too large


def read(raw: bytes, *, last_wins: bool = False) -> Any:
    """The document in `raw` (UTF-8). Raises JsonRefused with every finding, the first ones when there are many.

    Where a member stands twice in its object the text is refused; with `last_wins` the last one counts.
    """
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise JsonRefused(explain(raw, last_wins=last_wins))
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise JsonRefused(explain(raw, last_wins=last_wins)) from None
    if last_wins and b"null" not in raw and b"\\u0000" not in raw and _LONG not in raw.translate(_DIGITS):
        return value
    if _members(value) != len(_member_ends(raw)) or (b"\\" in raw and b"\\u0000" in raw):
        findings = explain(raw, last_wins=last_wins)
        if findings:
            raise JsonRefused(findings, value)
    return value


def _depth(raw: bytes) -> int:
    """How deep a text is nested, or more for one that is no JSON. Asked before the native parser, which recurses."""
    depth = deepest = 0
    for mark in _without_strings(b"", raw).translate(None, _NO_BRACKETS):
        if mark in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _members(value: Any) -> int:
    """How many object members `value` holds, at all depths; fewer than none when it also holds what is not allowed."""
    kind = type(value)
    if kind is dict:
        count, elements = len(value), value.values()
    elif kind is list:
        count, elements = 0, value
    else:
        count, elements = 0, (value,)
    for element in elements:
        kind = type(element)
        if kind is dict or kind is list:
            count += _members(element)
        elif (kind is int and not -MAX_INTEGER <= element <= MAX_INTEGER) or element is None:
            return _SMELLS
    return count
