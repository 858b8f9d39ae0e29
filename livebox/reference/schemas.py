"""Schemas as tables: what a value may be, in words, with links to the schemas that have a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from livebox.reference.markup import code, inline, prose, table, tag

Schema = Mapping[str, Any]
_RANGES = (
    ("minLength", "maxLength", "{} to {} characters", "up to {} characters", "at least {} characters"),
    ("minItems", "maxItems", "{} to {} items", "up to {} items", "at least {} items"),
    ("minProperties", "maxProperties", "{} to {} members", "up to {} members", "at least {} members"),
    ("minimum", "maximum", "{} to {}", "up to {}", "from {}"),
)


def anchor(name: str) -> str:
    """The fragment of a named schema."""
    return f"schema-{name}"


def kind(schema: Schema) -> str:
    """What a value may be, as markup of one line."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return tag("a", escape(name), href=f"#{anchor(name)}")
    for keyword, word in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
        if keyword in schema:
            return word.join(kind(part) for part in schema[keyword])
    if "const" in schema:
        return code(_text(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(_text(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object by name of {kind(schema['additionalProperties'])}"
    if schema.get("properties"):
        return "object with " + ", ".join(code(name) for name in schema["properties"])
    return escape(str(schema.get("type", "any value")))


def bounds(schema: Schema) -> str:
    """Its limits, as markup of one line; lengths of listed values say nothing."""
    if "enum" in schema or "const" in schema:
        return ""
    said = []
    for low, high, both, most, least in _RANGES:
        if low in schema and high in schema:
            same = schema[low] == schema[high] and low != "minimum"
            said.append(both.format(schema[low], schema[high]) if not same else both[6:].format(schema[low]))
        elif high in schema:
            said.append(most.format(schema[high]))
        elif low in schema:
            said.append(least.format(schema[low]))
    if "format" in schema:
        said.append(escape(str(schema["format"])))
    if schema.get("uniqueItems"):
        said.append("no item twice")
    if "pattern" in schema:
        said.append(code(schema["pattern"]))
    if "default" in schema:
        said.append(f"default {code(_text(schema['default']))}")
    return ", ".join(said)


def whole(schema: Schema) -> str:
    """A named schema: its description, its limits and its members."""
    parts = [prose(schema.get("description", ""))]
    if not schema.get("properties"):
        limits = bounds(schema)
        parts.append(tag("p", kind(schema), f" ({limits})" if limits else ""))
    parts.append(table("Members", ("member", "type", "limits", "meaning"), _members(schema)))
    return "\n".join(part for part in parts if part)


def _members(schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    for name, member in schema.get("properties", {}).items():
        required = "" if name in schema.get("required", ()) else tag("span", " optional", class_="quiet")
        notes = inline(" ".join(str(member.get("description", "")).split()))
        if member.get("x-patchable"):
            notes += " " + tag("span", "Agents may patch it.", class_="quiet")
        yield code(name) + required, kind(member), bounds(member), notes
        if member.get("type") == "object" or "properties" in member:
            for inner, *cells in _members(member):
                yield (code(f"{name}.") + inner, *cells)  # type: ignore[misc]


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
