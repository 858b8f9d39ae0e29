"""Configuration: read from the environment once, checked as a whole, immutable from then on.

A key `run.claim_lease` is set by the variable `LIVEBOX_RUN_CLAIM_LEASE`. Nothing else in Livebox reads the
environment.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from livebox.key import PREFIX, Key, Value
from livebox.keys import FITTING, FRACTIONS, KEYS, ORDERED

MASK: Final = "********"


class SettingsError(Exception):
    """The configuration is wrong; `problems` names every key that is, each with its bound."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Settings:
    """The effective configuration of one process; immutable. Read it with the accessor of the key's type."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = MappingProxyType(dict(values))

    @classmethod
    def load(
        cls, environment: Mapping[str, str] | None = None, overrides: Mapping[str, Value] | None = None
    ) -> Settings:
        """Read `environment` (the process's own by default); `overrides` by key name win over it.

        Raises SettingsError with all problems at once: a bad value, a bound, keys that contradict each other, and
        any `LIVEBOX_*` variable that is none of ours.
        """
        variables = os.environ if environment is None else environment
        values, problems = _read(variables, overrides or {})
        problems += _unknown(variables)
        if not problems:
            problems += _contradictions(values)
        if problems:
            raise SettingsError(problems)
        return cls(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def integer(self, name: str) -> int:
        """A count or a size in bytes."""
        value = self._values[name]
        assert isinstance(value, int)  # noqa: S101  # the declaration of the key says so
        return value

    def number(self, name: str) -> float:
        """Seconds, a rate or a ratio."""
        value = self._values[name]
        assert isinstance(value, (int, float))  # noqa: S101
        return value

    def text(self, name: str) -> str:
        """A text or a path; empty when not set."""
        value = self._values[name]
        assert isinstance(value, str)  # noqa: S101
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._values[name] is True

    def limits(self, names: Iterable[str]) -> dict[str, Value]:
        """The named keys with their values, as SQL functions take them in `args.limits`."""
        return {name: self._values[name] for name in names}

    def shown(self) -> dict[str, Value]:
        """All keys with their effective values, secrets masked."""
        return {name: _masked(KEYS[name], value) for name, value in self._values.items()}

    def __repr__(self) -> str:
        return f"Settings({self.shown()!r})"


def _masked(key: Key, value: Value) -> Value:
    if key.secret and value:
        return MASK
    if isinstance(value, str):
        # The password part of a database URL or connection string is as secret as a key of its own.
        value = re.sub(r"(://[^:/@\s]*:)[^@\s]*@", rf"\1{MASK}@", value)
        value = re.sub(r"(password=)('[^']*'|\S+)", rf"\1{MASK}", value)
    return value


def _read(variables: Mapping[str, str], overrides: Mapping[str, Value]) -> tuple[dict[str, Value], list[str]]:
    values: dict[str, Value] = {}
    problems = [f"{name}: there is no such key{_hint(name, KEYS)}" for name in overrides if name not in KEYS]
    for key in KEYS.values():
        try:
            if key.name in overrides:
                key.check(overrides[key.name])
                values[key.name] = overrides[key.name]
            elif key.variable in variables:
                values[key.name] = key.read(variables[key.variable])
            else:
                values[key.name] = key.default
        except ValueError as wrong:
            problems.append(f"{key.name} ({key.variable}) {wrong}")
    return values, problems


def _unknown(variables: Mapping[str, str]) -> list[str]:
    known = {key.variable for key in KEYS.values()}
    return [
        f"{name}: there is no such variable{_hint(name, known)}"
        for name in sorted(variables)
        if name.startswith(PREFIX) and name not in known
    ]


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def _contradictions(values: Mapping[str, Value]) -> list[str]:
    def number(name: str) -> float:
        return float(values[name])

    above = [
        f"{small} ({values[small]}) must not be above {large} ({values[large]})"
        for small, large in ORDERED
        if number(small) > number(large)
    ]
    return above + [
        f"{small} ({values[small]}) must be at most {FRACTIONS[parts]} of {large} ({values[large]})"
        for small, parts, large in FITTING
        if number(small) * parts > number(large)
    ]
