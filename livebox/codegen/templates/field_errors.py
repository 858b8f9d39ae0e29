"""Where a request breaks the contract, and how: schema violations as codes with RFC 6901 pointers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from jsonschema_rs import ValidationError

#: Code -> the sentence for it. The codes are those of the contract's FieldError.
MESSAGES: dict[str, str] = {
    "bad_time": "This is not an RFC 3339 time with an offset and at most nine decimals.",
    "blank": "This must not be blank.",
    "duplicate_item": "This holds an entry twice.",
    "duplicate_key": "This member stands twice.",
    "field_write_once": "This is written once and not changed.",
    "invalid_number": "This number cannot be kept exactly.",
    "invalid_text": "This holds characters that are not allowed here.",
    "invalid_value": "This does not go together with the rest.",
    "malformed_id": "This is not an id: a UUID in lower case.",
    "malformed_json": "This is not JSON.",
    "not_allowed_value": "This is none of the allowed values.",
    "null_not_allowed": "This must not be null; leave it out instead.",
    "out_of_range": "This is outside the allowed range.",
    "patch_op_forbidden": "A patch may only add, replace and remove.",
    "patch_path_forbidden": "A patch may not touch this path.",
    "patch_target_missing": "There is nothing here to replace or remove.",
    "pattern_mismatch": "This does not have the form that the contract says.",
    "repeated_parameter": "This parameter may stand only once.",
    "required": "This is required.",
    "too_deep": "This is nested too deep.",
    "too_few": "This has too few entries.",
    "too_long": "This is too long.",
    "too_many": "This has too many entries.",
    "too_short": "This is too short.",
    "unknown_field": "This is not a member here.",
    "unknown_parameter": "This is not a parameter here.",
    "unknown_reference": "This names nothing that can be used here.",
    "wrong_type": "This has another type than the contract says.",
}

#: The longest pointer that is told, in characters.
MAX_POINTER = 4000
#: How many errors one request is told about.
MAX_ERRORS = 20

_CODES = {
    "additionalProperties": "unknown_field",
    "unevaluatedProperties": "unknown_field",
    "falseSchema": "unknown_field",
    "required": "required",
    "type": "wrong_type",
    "pattern": "pattern_mismatch",
    "format": "pattern_mismatch",
    "const": "not_allowed_value",
    "enum": "not_allowed_value",
    "minimum": "out_of_range",
    "maximum": "out_of_range",
    "exclusiveMinimum": "out_of_range",
    "exclusiveMaximum": "out_of_range",
    "multipleOf": "out_of_range",
    "maxLength": "too_long",
    "minLength": "too_short",
    "maxItems": "too_many",
    "maxProperties": "too_many",
    "minItems": "too_few",
    "minProperties": "too_few",
    "contains": "too_few",
    "additionalItems": "too_many",
    "unevaluatedItems": "too_many",
    "uniqueItems": "duplicate_item",
    "oneOfMultipleValid": "invalid_value",
    "not": "invalid_value",
}
_FORMATS = {"uuid": "malformed_id", "date-time": "bad_time"}
_OF_TEXT = frozenset({"pattern", "format", "minLength", "maxLength"})
#: Space in the eyes of a reader: Unicode's spaces, the zero-width ones and the control characters.
_SPACES = ((0x00, 0x20), (0x7F, 0xA0), (0x61C, 0x61C), (0x1680, 0x1680), (0x2000, 0x200F), (0x2028, 0x202F))
_WIDE_SPACES = ((0x205F, 0x2069), (0x3000, 0x3000), (0xFEFF, 0xFEFF))
_BLANK = "".join(chr(code) for first, last in _SPACES + _WIDE_SPACES for code in range(first, last + 1))
#: Control characters and those that turn the direction of text around.
_UNWANTED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]").search
#: Of several errors at one place the first of these is told, then any other.
_RANK = {code: rank for rank, code in enumerate(("null_not_allowed", "wrong_type", "required", "too_long", "blank"))}

Path = tuple[str | int, ...]


class FieldError(NamedTuple):
    """One wrong input: `where` says whether `name` is a JSON pointer into the body or the name of a parameter."""

    code: str
    where: Literal["pointer", "parameter"]
    name: str
    message: str


def field_error(code: str, where: Literal["pointer", "parameter"], name: str) -> FieldError:
    """An error with its code's sentence."""
    return FieldError(code, where, name, MESSAGES[code])


def pointer(path: Iterable[str | int]) -> str:
    """The RFC 6901 pointer of a path; one that is absurdly long is cut."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in path)[:MAX_POINTER]


class Explainer:
    """Turns violations of the schemas in one document into field errors.

    `document` is read for `x-error-code` and `x-write-once` beside the keyword that failed.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def explain(self, violations: Iterable[ValidationError], at: str = "") -> list[FieldError]:
        """One error for each wrong place, at most MAX_ERRORS; `at` is put in front of the pointers."""
        found: dict[Path, str] = {}
        for code, path in self._flat(violations):
            if path not in found or _RANK.get(code, 9) < _RANK.get(found[path], 9):
                found[path] = code
        told = [path for path in found if not (found[path] == "unknown_field" and _has_deeper(found, path))]
        return [field_error(found[path], "pointer", at + pointer(path)) for path in told[:MAX_ERRORS]]

    def explain_parameter(self, violations: Iterable[ValidationError], name: str) -> list[FieldError]:
        """The same for the value of a parameter, which has a name and no pointer; the first error is enough.

        Without a violation the text itself was refused.
        """
        errors = self.explain(violations) or [field_error("invalid_text", "pointer", "")]
        return [errors[0]._replace(where="parameter", name=name)]

    def _flat(self, violations: Iterable[ValidationError]) -> Iterator[tuple[str, Path]]:
        for violation in violations:
            yield from self._codes(violation, tuple(violation.instance_path))

    def _codes(self, violation: ValidationError, path: Path) -> Iterator[tuple[str, Path]]:
        kind: Any = violation.kind
        name: str = kind.name
        if violation.instance is None:
            yield "null_not_allowed", path
        elif name in ("additionalProperties", "unevaluatedProperties"):
            once = self._node(violation).get("x-write-once", ())
            for member in kind.unexpected:
                yield "field_write_once" if member in once else "unknown_field", (*path, member)
        elif name == "required":
            yield "required", (*path, kind.property)
        elif name == "propertyNames":
            yield self._code(kind.error), (*path, kind.error.instance)
        elif name in ("oneOf", "anyOf") and hasattr(kind, "context"):
            yield from self._branches(kind.context, path)
        else:
            yield self._code(violation), path

    def _code(self, violation: ValidationError) -> str:
        kind: Any = violation.kind
        name: str = kind.name
        if name in _OF_TEXT:
            declared = self._node(violation).get("x-error-code")
            if declared in MESSAGES:
                return str(declared)
        text: Any = violation.instance
        if name in ("pattern", "minLength") and isinstance(text, str):
            if not text.strip(_BLANK):
                return "blank"
            if _UNWANTED(text):
                return "invalid_text"
        if name == "format":
            return _FORMATS.get(kind.format, "pattern_mismatch")
        return _CODES.get(name, "invalid_value")

    def _node(self, violation: ValidationError) -> dict[str, Any]:
        """The schema that holds the keyword which failed; empty when it is not in the document."""
        node: Any = self._document
        for token in violation.schema_path[:-1]:
            try:
                node = node[token]
            except (KeyError, IndexError, TypeError):
                return {}
        return node if isinstance(node, dict) else {}

    def _branches(self, branches: list[list[ValidationError]], path: Path) -> Iterator[tuple[str, Path]]:
        """The errors of the alternative that was most likely meant: right type, right tag, fewest errors.

        Where none is nearer than the others, what all of them complain of says most: a tag that is missing or unknown.
        """
        if not all(branches):  # several alternatives are valid at once
            yield "invalid_value", path
            return
        distances = [_distance(branch, path) for branch in branches]
        if len(set(distances)) == 1:
            first, *others = ([*self._flat(branch)] for branch in branches)
            shared = [error for error in first if all(error in other for other in others)]
            if shared:
                yield from shared
                return
        nearest = min(range(len(branches)), key=lambda index: (distances[index], len(branches[index])))
        yield from self._flat(branches[nearest])


def _distance(branch: list[ValidationError], path: Path) -> tuple[bool, bool]:
    """Whether an alternative wants another type at `path`, and whether a tag below it has another value."""
    wrong_type = any(error.kind.name == "type" and tuple(error.instance_path) == path for error in branch)
    return wrong_type, any(error.kind.name in ("const", "enum") for error in branch)


def _has_deeper(found: dict[Path, str], path: Path) -> bool:
    """Whether something below `path` is wrong too; then `path` itself is known."""
    return any(len(other) > len(path) and other[: len(path)] == path for other in found)
