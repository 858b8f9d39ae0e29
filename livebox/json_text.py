"""Reading JSON from outside: strict, bounded, and with a pointer to what is wrong.

A text that a native parser accepts may still hurt what comes after it: a duplicate member that two readers resolve
differently, a NUL or a lone surrogate that the database refuses, a number that other languages round, a null where
the contract has none. `read` finds all of that. Its fast path is one native decoding, one walk over the values and a
few byte searches; only a text that smells is looked at closely, by `explain`, which walks the text with an explicit
stack and so cannot be brought down by nesting.

Numbers: an integral number becomes an int however it was written (`1e2` is 100), within +-(2^53 - 1); others are
doubles. A negative zero with a fraction stays a float, so that where the contract wants an integer it is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

MAX_DEPTH: Final = 64
MAX_INTEGER: Final = 2**53 - 1
MAX_FINDINGS: Final = 20
MAX_POINTER: Final = 500


class Finding(NamedTuple):
    """One thing that is wrong, and where: `pointer` is an RFC 6901 pointer, empty for the document as a whole."""

    code: str
    pointer: str
    message: str


class JsonRefused(Exception):
    """The text is not JSON that we take; `findings` is never empty. `readable` is False when it is no JSON at all."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        self.readable = all(finding.code not in UNREADABLE for finding in findings)
        super().__init__(findings[0].message)


SYNTAX: Final = "malformed_json"
DEPTH: Final = "too_deep"
DUPLICATE: Final = "duplicate_key"
NULL: Final = "null_not_allowed"
NUMBER: Final = "invalid_number"
TEXT: Final = "invalid_text"
# What keeps a text from being one JSON document with one meaning; the rest are readable documents that we refuse.
UNREADABLE: Final = frozenset({SYNTAX, DEPTH, DUPLICATE})


def _number(literal: str) -> float | int:
    number = float(literal)
    if number.is_integer():
        if abs(number) > MAX_INTEGER:
            raise ValueError(literal)
        return int(number) if number or literal[0] != "-" else number
    if number - number != 0:
        raise ValueError(literal)
    return number


_decode: Final = msgspec.json.Decoder(float_hook=_number).decode
_member_ends: Final = re.compile(rb'"[ \t\r\n]*:').findall
_without_strings: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL).sub
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))
_SMELLS: Final = -(2**62)


def read(raw: bytes) -> Any:
    """The document in `raw` (UTF-8). Raises JsonRefused with every finding, the first ones when there are many."""
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise JsonRefused(explain(raw))
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise JsonRefused(explain(raw)) from None
    if _members(value) != len(_member_ends(raw)) or (b"\\" in raw and b"\\u0000" in raw):
        findings = explain(raw)
        if findings:
            raise JsonRefused(findings)
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


def explain(raw: bytes) -> list[Finding]:
    """What is wrong with `raw`, in the order of the text, at most MAX_FINDINGS; empty when nothing is."""
    # Bytes that are no UTF-8 become lone surrogates in the text, which no correct UTF-8 can hold.
    return _Scan(raw.decode("utf-8", "surrogateescape")).run()


_STRING: Final = r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"'
_TOKEN: Final = re.compile(
    rf"[ \t\r\n]*(?:([{{}}\[\],:])|{_STRING}|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(true|false|null))"
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NOT_FINITE: Final = re.compile(r"[ \t\r\n]*[+-]?(?:NaN|nan|Infinity|inf)")
_ESCAPED_UNIT: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_RAW_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# What may come next in a document.
_VALUE, _FIRST_VALUE, _FIRST_NAME, _NAME, _COLON, _COMMA, _END = range(7)
_WANTED: Final = (
    "a value",
    "a value or ]",
    "a member name or }",
    "a member name in double quotes",
    "a colon",
    "a comma or the closing bracket",
    "the end of the text",
)


class _Level:
    """One open object or array: `names` is None in an array; `at` is the member or index being read, if any yet."""

    __slots__ = ("at", "names")

    def __init__(self, is_object: bool) -> None:
        self.names: set[str] | None = set() if is_object else None
        self.at: str | int | None = None if is_object else 0


class _Scan:
    """One careful walk over a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.levels: list[_Level] = []
        self.findings: list[Finding] = []
        self.expected = _VALUE

    def run(self) -> list[Finding]:
        if self.text.startswith("\ufeff"):
            return [Finding(SYNTAX, "", "The text starts with a byte order mark.")]
        while len(self.findings) < MAX_FINDINGS:
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                if not self._finished():
                    self._syntax()
                break
            if not self._take(match):
                break
            self.at = match.end()
        return self.findings

    def _finished(self) -> bool:
        space = _SPACE.match(self.text, self.at)
        return self.expected == _END and space is not None and space.end() == len(self.text)

    def _take(self, match: re.Match[str]) -> bool:
        """Advance over one token; False ends the walk."""
        mark, string, number, word = match.groups()
        if mark is not None:
            return self._mark(mark)
        if string is not None:
            if self.expected in (_FIRST_NAME, _NAME):
                return self._name(string)
            taken = self._value()
            if taken:
                self._string(string)
        else:
            taken = self._value()
            if taken and number is not None:
                self._number(number)
            elif taken and word == "null":
                self._find(NULL, "null is not allowed; leave an absent value out.")
        if taken:
            self._closed()
        return taken

    def _mark(self, mark: str) -> bool:
        if mark in "{[":
            return self._value() and self._open(mark == "{")
        if mark in "}]":
            return self._close(mark)
        if mark == ":" and self.expected == _COLON:
            self.expected = _VALUE
            return True
        if mark == "," and self.expected == _COMMA:
            level = self.levels[-1]
            if level.names is None:
                assert isinstance(level.at, int)  # noqa: S101  # an array counts
                level.at += 1
            self.expected = _VALUE if level.names is None else _NAME
            return True
        return self._syntax()

    def _value(self) -> bool:
        return self.expected in (_VALUE, _FIRST_VALUE) or self._syntax()

    def _open(self, is_object: bool) -> bool:
        if len(self.levels) == MAX_DEPTH:
            self._find(DEPTH, f"The document is nested deeper than {MAX_DEPTH} levels.")
            return False
        self.levels.append(_Level(is_object))
        self.expected = _FIRST_NAME if is_object else _FIRST_VALUE
        return True

    def _close(self, mark: str) -> bool:
        empty = _FIRST_NAME if mark == "}" else _FIRST_VALUE
        if self.expected not in (empty, _COMMA) or (self.levels[-1].names is None) != (mark == "]"):
            return self._syntax()
        self.levels.pop()
        self._closed()
        return True

    def _closed(self) -> None:
        self.expected = _COMMA if self.levels else _END

    def _name(self, escaped: str) -> bool:
        level = self.levels[-1]
        text, wrong = _unescape(escaped)
        if wrong is not None:
            self._find(wrong[0], "A member name of this object " + wrong[1], parent=True)
            text = "\ufffd"
        elif level.names is not None and text in level.names:
            level.at = text
            self._find(DUPLICATE, "The member appears twice in its object.")
        level.at = text
        if level.names is not None:
            level.names.add(text)
        self.expected = _COLON
        return True

    def _string(self, escaped: str) -> None:
        _, wrong = _unescape(escaped)
        if wrong is not None:
            self._find(wrong[0], "The text " + wrong[1])

    def _number(self, literal: str) -> None:
        digits = literal.lstrip("-")
        if digits.isdigit():
            fits = len(digits) < len(str(MAX_INTEGER)) or (
                len(digits) == len(str(MAX_INTEGER)) and int(digits) <= MAX_INTEGER
            )
        else:
            try:
                _number(literal)
                fits = True
            except ValueError:
                fits = False
        if not fits:
            self._find(NUMBER, "The number is not within +-(2^53 - 1).")

    def _syntax(self) -> bool:
        where = f"at character {self._position()}"
        if _NOT_FINITE.match(self.text, self.at):
            self._find(SYNTAX, f"NaN and infinity are no JSON numbers ({where}).")
        elif _RAW_SURROGATE.search(self.text, self.at):
            self._find(SYNTAX, f"The text is not UTF-8 ({where} or after).")
        elif self.expected == _END:
            self.findings.append(Finding(SYNTAX, "", f"There is more text after the document ({where})."))
        else:
            self._find(SYNTAX, f"The text is not JSON: {_WANTED[self.expected]} is missing {where}.")
        return False

    def _position(self) -> int:
        space = _SPACE.match(self.text, self.at)
        return space.end() if space else self.at

    def _find(self, code: str, message: str, *, parent: bool = False) -> None:
        levels = self.levels[:-1] if parent else self.levels
        pointer = ""
        for level in levels:
            if level.at is None:
                break
            longer = f"{pointer}/{escape(str(level.at))}"
            if len(longer) > MAX_POINTER:
                break  # names the place around it
            pointer = longer
        self.findings.append(Finding(code, pointer, message))


def escape(token: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def _unescape(escaped: str) -> tuple[str, tuple[str, str] | None]:
    """The text of a string token, or what is wrong with it as (code, rest of a sentence)."""
    if _RAW_SURROGATE.search(escaped):
        return "", (SYNTAX, "is not UTF-8.")
    if "\\" not in escaped:
        return escaped, None
    high = -1  # where a low surrogate must come next
    for match in _ESCAPED_UNIT.finditer(escaped):
        unit = int(match[1], 16) if match[1] else -1
        if 0xDC00 <= unit <= 0xDFFF:
            if high != match.start():
                return "", (TEXT, "holds half of a surrogate pair.")
            high = -1
            continue
        if high >= 0:
            return "", (TEXT, "holds half of a surrogate pair.")
        if unit == 0:
            return "", (TEXT, "holds a NUL character.")
        if 0xD800 <= unit <= 0xDBFF:
            high = match.end()
    if high >= 0:
        return "", (TEXT, "holds half of a surrogate pair.")
    return str(msgspec.json.decode(f'"{escaped}"'.encode())), None
