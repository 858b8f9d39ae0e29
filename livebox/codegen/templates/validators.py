"""Compiled schemas: bodies, parameters, responses and gateway frames, all over one registry."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from generated.field_errors import Explainer, FieldError, field_error

WHOLE_NUMBER = "urn:livebox:whole-number"
_SCHEMAS = "urn:livebox:schemas"

#: Every schema of both documents; see `make generate` for how it differs from them.
DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parent / "schemas.json").read_bytes())

_REGISTRY = jsonschema_rs.Registry(
    [
        (_SCHEMAS, DOCUMENT),
        # In draft 4, unlike later ones, 1.0 is not an integer.
        (WHOLE_NUMBER, {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}),
    ]
)
_EXPLAINER = Explainer(DOCUMENT)
_TIME = re.compile(
    r"(?!0000|0001-01-01|9999-12-31)[0-9]{4}-.{14}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
).fullmatch
_CALENDAR = jsonschema_rs.Draft202012Validator({"format": "date-time"}, validate_formats=True).is_valid


def is_time(text: str) -> bool:
    """Whether `text` is an RFC 3339 time with an offset and at most nine decimals, in UTC of the years 1 to 9999."""
    return _TIME(text) is not None and _CALENDAR(text)


class Checker:
    """One compiled schema. Calling it gives the errors of a value, pointers beginning with `at`."""

    __slots__ = ("_validator", "is_valid")

    def __init__(self, pointer: str) -> None:
        self._validator = jsonschema_rs.Draft202012Validator(
            {"$ref": f"{_SCHEMAS}#{pointer}"},
            registry=_REGISTRY,
            formats={"date-time": is_time},
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),  # linear time
        )
        self.is_valid = self._validator.is_valid

    def __call__(self, value: object, at: str = "") -> list[FieldError]:
        """The errors of a body or of a part of one; none when it is valid."""
        try:
            if self.is_valid(value):
                return []
            return _EXPLAINER.explain(self._validator.iter_errors(value), at)
        except UnicodeEncodeError:  # a lone surrogate, which no schema can see
            return [field_error("invalid_text", "pointer", at)]

    def parameter(self, value: object, name: str) -> list[FieldError]:
        """The errors of the parameter `name`."""
        try:
            return _EXPLAINER.explain_parameter(self._validator.iter_errors(value), name)
        except UnicodeEncodeError:
            return [field_error("invalid_text", "parameter", name)]


@cache
def checker(pointer: str) -> Checker:
    """The compiled schema at a pointer in `schemas.json`, such as `/schemas/Run`. Raises KeyError without one."""
    node: Any = DOCUMENT
    for token in pointer.split("/")[1:]:
        node = node[token.replace("~1", "/").replace("~0", "~")]
    return Checker(pointer)


#: By operationId, for the operations that take a body.
BODY_ERRORS: dict[str, Checker] = {name: checker(f"/bodies/{name}") for name in DOCUMENT["bodies"]}


def response_errors(operation: str, status: int, value: object) -> list[FieldError]:
    """The errors of a JSON answer; `invalid_value` at the root for a status that the operation does not declare."""
    responses = DOCUMENT["responses"][operation]
    key = str(status) if str(status) in responses else "default"
    if key not in responses:
        return [field_error("invalid_value", "pointer", "")]
    return checker(f"/responses/{operation}/{key}")(value)


def frame_errors(message: str, value: object) -> list[FieldError]:
    """The errors of a gateway frame that is called `message`. Raises KeyError for an unknown name."""
    return checker(f"/messages/{message}")(value)
