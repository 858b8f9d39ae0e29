"""Query strings and the scalars in them, read strictly: what is not exactly right is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import unquote_to_bytes

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from generated.field_errors import FieldError, field_error

_ESCAPES = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*").fullmatch
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,30}").fullmatch
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]").search


class Readable(Protocol):
    """What the readers look at: an aiohttp request, or one whose path another router took apart."""

    @property
    def match_info(self) -> Mapping[str, str]:
        """The parameters of the path, decoded."""

    @property
    def rel_url(self) -> URL:
        """The target of the request, its query still encoded."""

    @property
    def headers(self) -> CIMultiDict[str] | CIMultiDictProxy[str]:
        """The headers."""


def split_query(text: str, errors: list[FieldError]) -> dict[str, str]:
    """The parameters of a raw query string, decoded; `+` is a space, as HTML forms write it.

    Parameters that stand twice, are not UTF-8 or hold control characters are left out and added to `errors`.
    """
    query: dict[str, str] = {}
    for part in text.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        if "%" in part or "+" in part or not part.isascii():
            decoded = _decoded(name)
            if decoded is None:
                errors.append(field_error("unknown_parameter", "parameter", printable(name)))
                continue
            name, raw = decoded, value
            decoded = _decoded(raw)
            if decoded is None:
                errors.append(field_error("invalid_text", "parameter", name))
                continue
            value = decoded
        if name in query:
            errors.append(field_error("repeated_parameter", "parameter", printable(name)))
        else:
            query[name] = value
    return query


def _decoded(text: str) -> str | None:
    if not text.isascii() or _ESCAPES(text) is None:
        return None
    try:
        decoded = unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL(decoded) else decoded


def printable(name: str) -> str:
    """A parameter name that may be shown: short and without what could disturb a reader or a log."""
    return "".join(character if character.isprintable() else "?" for character in name[:64])


def unknown_parameters(query: dict[str, str], errors: list[FieldError]) -> None:
    """Adds an error for each parameter that is left in `query`, at most twenty."""
    errors.extend(field_error("unknown_parameter", "parameter", printable(name)) for name in list(query)[:20])


def is_text(value: str) -> bool:
    """Whether a parameter's value is free of control characters and lone surrogates."""
    return _CONTROL(value) is None


def integer(text: str) -> int | None:
    """An integer in its one decimal spelling, or None: no sign but `-`, no space, no leading zero."""
    return int(text) if _INTEGER(text) is not None else None


def boolean(text: str) -> bool | None:
    """`true` or `false`, or None."""
    return True if text == "true" else False if text == "false" else None
