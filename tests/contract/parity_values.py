"""Values from the schemas of the contract: those that fit, and those in which one constraint is broken.

Schemas are walked as they stand in `generated/openapi.json`; a keyword that
this cannot break raises, so that no new kind of constraint goes untested in silence.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final[dict[str, Any]] = json.loads((ROOT / "generated" / "openapi.json").read_bytes())
NO_NULL: Final = "no null"
"""A rule for whole bodies, which a schema says only where it gives a type."""

_ANNOTATIONS: Final = {"description", "default", "example", "examples", "title"}
_KNOWN: Final = {
    "type", "enum", "const", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "required", "not",
    "properties", "additionalProperties", "propertyNames", "minProperties", "maxProperties", "items", "minItems",
    "maxItems", "uniqueItems", "oneOf", "anyOf", "allOf", "unevaluatedProperties",
}  # fmt: skip
#: Texts of which one fits any schema of a text, likelier ones first.
_TEXTS: Final = (
    "abc",
    "0193a000-0000-7000-8000-0000000000a1",
    "2026-11-02T09:30:00Z",
    "USD",
    '"3"',
    "/headline",
    "add",
)
#: Texts of which one breaks any pattern.
_ODD: Final = ("!", " ", "\u0007", "Z", "\u202e", "\u00e9", "0")
_WRONG: Final[dict[str, tuple[Any, ...]]] = {
    "string": (7, ["x"]),
    "integer": ("7", 1.5, True),
    "number": ("7", True),
    "boolean": ("true", 1),
    "object": ([], "x"),
    "array": ({}, "x"),
}
_NO_TIMES: Final = ("yesterday", "2026-02-30T09:30:00Z", "2026-11-02T09:30:00")

Path_ = tuple[str | int, ...]


def node(pointer: str) -> tuple[str, Any]:
    """What stands at a pointer, and where it really stands, when that is a reference."""
    found: Any = DOCUMENT
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    if isinstance(found, dict) and "$ref" in found:
        assert not constraints(found) - {"$ref"}, f"{pointer} has more than a reference"
        return node(found["$ref"].removeprefix("#"))
    return pointer, found


def constraints(schema: dict[str, Any]) -> set[str]:
    """The keywords of a schema that decide what fits it."""
    return {key for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}


def step(pointer: str, *tokens: str | int) -> str:
    """A pointer below a pointer."""
    return pointer + "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


@cache
def oracle(pointer: str) -> jsonschema_rs.Draft202012Validator:
    """The schema at a pointer, compiled from the contract as it is written."""
    registry = jsonschema_rs.Registry([("urn:contract", DOCUMENT)])
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"urn:contract#{quote(pointer, safe='/~')}"}, registry=registry, validate_formats=True
    )


# values that fit


def whole(pointer: str) -> Any:
    """A value that fits the schema at a pointer, with every member that it may have."""
    pointer, schema = node(pointer)
    assert constraints(schema) <= _KNOWN, f"{pointer}: nothing is known of {sorted(constraints(schema) - _KNOWN)}"
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return (
                {**_object(pointer, schema), **whole(step(pointer, key, 0))}
                if "properties" in schema
                else whole(step(pointer, key, 0))
            )
    kind = schema.get("type", "object" if "properties" in schema or "allOf" in schema else "any")
    if kind == "object":
        return _object(pointer, schema)
    if kind == "array":
        return [whole(step(pointer, "items")) for _ in range(max(1, schema.get("minItems", 0)))]
    if kind == "string":
        return next(text for text in _texts(schema) if oracle(pointer).is_valid(text))
    return {"integer": schema.get("minimum", 1), "number": schema.get("minimum", 1), "boolean": True, "any": "abc"}[
        kind
    ]


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    yield from _TEXTS
    yield "a" * schema.get("minLength", 1)


def _object(pointer: str, schema: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for index, _ in enumerate(schema.get("allOf", [])):
        made |= whole(step(pointer, "allOf", index))
    made |= {name: whole(step(pointer, "properties", name)) for name in schema.get("properties", {})}
    if isinstance(schema.get("additionalProperties"), dict):
        name = whole(step(pointer, "propertyNames")) if "propertyNames" in schema else "abc"
        made[name] = whole(step(pointer, "additionalProperties"))
    if len(made) < schema.get("minProperties", 0):
        made |= {f"k{number}": 1 for number in range(schema["minProperties"])}
    return made


# values that do not


def broken(pointer: str, value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, str, Any]]:
    """(where, which constraint, what stands there instead) for each constraint that a value of this schema keeps."""
    pointer, schema = node(pointer)
    assert constraints(schema) <= _KNOWN, f"{pointer}: nothing is known of {sorted(constraints(schema) - _KNOWN)}"
    for kind in [schema["type"]] if "type" in schema else []:
        for wrong in _WRONG[kind]:
            yield path, step(pointer, "type"), wrong
    for key in ("enum", "const"):
        if key in schema:
            yield path, step(pointer, key), _other(schema[key], schema.get("maxLength", 9))
    if "not" in schema:
        yield path, step(pointer, "not"), schema["not"]["enum"][0]
    if isinstance(value, str) and not schema.keys() & {"enum", "const"}:
        yield from _broken_text(pointer, schema, value, path)
    if type(value) in (int, float):
        yield from ((path, step(pointer, key), schema[key] + by) for key, by in (("minimum", -1), ("maximum", 1))
                    if key in schema)  # fmt: skip
    if isinstance(value, list):
        yield from _broken_list(pointer, schema, value, path)
    if isinstance(value, dict):
        yield from _broken_object(pointer, schema, value, path)
    for key in ("oneOf", "anyOf", "allOf"):
        for index, _ in enumerate(schema.get(key, [])):
            below = step(pointer, key, index)
            yield from broken(below, value if key == "allOf" or index == 0 else whole(below), path)
    for key in ("oneOf", "anyOf"):
        if key in schema and isinstance(value, dict):
            branches = [whole(step(pointer, key, index)) for index, _ in enumerate(schema[key])]
            yield path, step(pointer, key), {name: member for branch in branches for name, member in branch.items()}


def _other(there: Any, most: int) -> Any:
    values = there if isinstance(there, list) else [there]
    if isinstance(values[0], bool):
        return not values[0]
    return "zzzzzzzzz"[:most] if isinstance(values[0], str) else max(values) + 1


def _broken_text(pointer: str, schema: dict[str, Any], value: str, path: Path_) -> Iterator[tuple[Path_, str, Any]]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1000)
    if least:
        yield path, step(pointer, "minLength"), value[: least - 1]
    if "maxLength" in schema and "format" not in schema:
        yield path, step(pointer, "maxLength"), value + value[-1] * (most + 1 - len(value))
    if "pattern" in schema:
        tries = [text for odd in _ODD for text in (value[:-1] + odd, odd * len(value), (value + odd)[:most])]
        yield (
            path,
            step(pointer, "pattern"),
            next(text for text in tries if least <= len(text) <= most and not re.search(schema["pattern"], text)),
        )
    if schema.get("format") == "date-time":
        yield from ((path, step(pointer, "format"), text) for text in _NO_TIMES)
    elif "format" in schema:
        raise AssertionError(f"{pointer}: nothing is known of the format {schema['format']}")


def _broken_list(
    pointer: str, schema: dict[str, Any], value: list[Any], path: Path_
) -> Iterator[tuple[Path_, str, Any]]:
    if schema.get("minItems"):
        yield path, step(pointer, "minItems"), value[: schema["minItems"] - 1]
    if "maxItems" in schema:
        yield path, step(pointer, "maxItems"), [_numbered(value[0], number) for number in range(schema["maxItems"] + 1)]
    if schema.get("uniqueItems"):
        yield path, step(pointer, "uniqueItems"), [value[0], value[0]]
    yield from _null(pointer, (*path, 0))
    yield from broken(step(pointer, "items"), value[0], (*path, 0))


def _numbered(value: Any, number: int) -> Any:
    """Another value of the same kind, where an id ends in a number."""
    return f"{value[:-4]}{number:04x}" if isinstance(value, str) and re.search("[0-9a-f]{4}$", value) else value


def _null(pointer: str, path: Path_) -> Iterator[tuple[Path_, str, Any]]:
    yield path, step(pointer, NO_NULL), None


def _broken_object(
    pointer: str, schema: dict[str, Any], value: dict[str, Any], path: Path_
) -> Iterator[tuple[Path_, str, Any]]:
    for name in schema.get("required", []):
        yield path, step(pointer, "required", name), {key: member for key, member in value.items() if key != name}
    extra = schema.get("additionalProperties", True)
    for key in ("additionalProperties", "unevaluatedProperties"):
        if schema.get(key) is False:
            yield path, step(pointer, key), {**value, "zz_unknown": 1}
    if schema.get("minProperties"):
        yield path, step(pointer, "minProperties"), dict([*value.items()][: schema["minProperties"] - 1])
    if "maxProperties" in schema and extra is not False:
        member = whole(step(pointer, "additionalProperties")) if isinstance(extra, dict) else 1
        names = (_key(pointer, schema, number) for number in range(schema["maxProperties"] + 1))
        yield path, step(pointer, "maxProperties"), dict.fromkeys(names, member)
    if "propertyNames" in schema:
        (name, member), *_ = value.items()
        for _, _, wrong in broken(step(pointer, "propertyNames"), name):
            if isinstance(wrong, str):
                yield path, step(pointer, "propertyNames"), {wrong: member}
    for name, member in value.items():
        below = step(pointer, "properties", name)
        if name not in schema.get("properties", {}):
            below = step(pointer, "additionalProperties")
            if not isinstance(extra, dict):
                continue
        yield from _null(below, (*path, name))
        yield from broken(below, member, (*path, name))


def _key(pointer: str, schema: dict[str, Any], number: int) -> str:
    base = whole(step(pointer, "propertyNames")) if "propertyNames" in schema else "k"
    return str(_numbered(base, number)) if len(base) > 10 else f"{base}{number}"


def put(value: Any, path: Path_, new: Any) -> Any:
    """A copy with `new` at a place."""
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed
