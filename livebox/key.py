"""A configuration key: its name, unit, default, bounds and what for; and how a text is read as a value of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "LIVEBOX_"

Value = int | float | str | bool

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", re.ASCII)
_SECONDS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d+)(B|KiB|MiB|GiB)?", re.ASCII)
_BYTES = {None: 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("is not a duration such as 30, 500ms, 15m, 24h or 7d")
    seconds = float(match[1]) * _SECONDS[match[2]]
    return int(seconds) if seconds.is_integer() else seconds


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("is not a size such as 65536, 64KiB or 1MiB")
    return int(match[1]) * _BYTES[match[2]]


def _count(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise ValueError("is not a whole number")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII):
        raise ValueError("is not a number")
    return float(text)


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("is not 1 or 0")
    return _FLAGS[text.lower()]


def _text(text: str) -> str:
    return text


# unit -> how a variable's text becomes the value
_READERS: Final[Mapping[str, Callable[[str], Value]]] = {
    "s": _duration,
    "bytes": _size,
    "count": _count,
    "1/s": _number,
    "ratio": _number,
    "flag": _flag,
    "text": _text,
    "path": _text,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key.

    `unit` says how it is read (`s`, `bytes`, `count`, `1/s`, `ratio`, `flag`, `text`, `path`); numbers lie within
    `minimum` and `maximum`, both inclusive; a text with `choices` is one of them. An empty text means: not set.
    """

    name: str
    unit: str
    default: Value
    purpose: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    variable_name: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return self.variable_name or PREFIX + self.name.upper().replace(".", "_")

    def bound(self, value: float) -> str:
        """A bound of this key with its unit, for people."""
        number = int(value) if float(value).is_integer() else value
        return f"{number}{'' if self.unit in ('count', 'ratio') else f' {self.unit}'}"

    def read(self, text: str) -> Value:
        """The value that `text` means; ValueError says what is wrong with it, without repeating a secret."""
        value = _READERS[self.unit](text.strip())
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise ValueError when `value` is out of this key's type or bounds."""
        if self.unit in ("text", "path"):
            if not isinstance(value, str):
                raise ValueError("is not a text")
            if self.choices and value not in self.choices:
                raise ValueError(f"is not one of {', '.join(self.choices)}")
            return
        if self.unit == "flag":
            if not isinstance(value, bool):
                raise ValueError("is not true or false")
            return
        if isinstance(value, (bool, str)) or (self.unit in ("count", "bytes") and not isinstance(value, int)):
            raise ValueError("is not a number of the right kind")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"is {value}, below its minimum {self.bound(self.minimum)}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"is {value}, above its maximum {self.bound(self.maximum)}")
