"""A close look at a JSON text: everything that is wrong with it, each with its place.

It walks the text with an explicit stack, so no nesting can bring it down. `json_text` calls it only for texts that
smell: it takes a microsecond for each token.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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


SYNTAX: Final = "malformed_json"
DEPTH: Final = "too_deep"
DUPLICATE: Final = "duplicate_key"
NULL: Final = "null_not_allowed"
NUMBER: Final = "invalid_number"
TEXT: Final = "invalid_text"


def number(literal: str) -> float | int:
    """What a number literal means: an int where it is integral. Raises ValueError where others would round it."""
    value = float(literal)
    if value.is_integer():
        if abs(value) > MAX_INTEGER:
            raise ValueError(literal)
        return int(value) if value or literal[0] != "-" else value
    if value - value != 0:
        raise ValueError(literal)
    return value


def explain(raw: bytes, *, last_wins: bool = False) -> list[Finding]:
    """What is wrong with `raw`, in the order of the text, at most MAX_FINDINGS; empty when nothing is.

    With `last_wins` a member may stand twice in its object.
    """
    # Bytes that are no UTF-8 become lone surrogates in the text, which no correct UTF-8 can hold.
    return _Scan(raw.decode("utf-8", "surrogateescape"), last_wins).run()


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

    def __init__(self, text: str, last_wins: bool) -> None:
        self.text = text
        self.last_wins = last_wins
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
        mark, string, literal, word = match.groups()
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
            if taken and literal is not None:
                self._read_number(literal)
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
        elif level.names is not None and text in level.names and not self.last_wins:
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

    def _read_number(self, literal: str) -> None:
        digits = literal.lstrip("-")
        if digits.isdigit():
            fits = len(digits) < len(str(MAX_INTEGER)) or (
                len(digits) == len(str(MAX_INTEGER)) and int(digits) <= MAX_INTEGER
            )
        else:
            try:
                number(literal)
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
