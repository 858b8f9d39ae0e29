"""Schemas as they hold together: references followed, `allOf` put together, siblings of `$ref` kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from livebox.codegen.documents import Documents, escape, is_reference, resolve

ALL_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
SAME = ("pattern", "format", "multipleOf", "uniqueItems")
#: Keywords that are compared whole: who changes one has to think for himself.
OPAQUE = ("not", "if", "then", "else", "contains", "dependentRequired", "dependentSchemas", "patternProperties",
          "prefixItems", "unevaluatedItems", "minContains", "maxContains", "readOnly", "writeOnly", "nullable",
          "discriminator", "contentEncoding", "contentMediaType", "x-error-code")  # fmt: skip


class Part(NamedTuple):
    """One schema object and where it stands."""

    pointer: str
    """Such as `openapi.yaml#/components/schemas/Name`."""
    schema: Any


Node = tuple[Part, ...]
"""Schemas that hold together."""


def below(part: Part, *tokens: str) -> Part:
    """What stands under a part."""
    pointer, value = part.pointer, part.schema
    for token in tokens:
        pointer, value = f"{pointer}/{escape(token)}", value[token]
    return Part(pointer, value)


class Reader:
    """Follows references in one pair of documents."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def follow(self, part: Part) -> Part:
        """The object itself behind any chain of references."""
        while is_reference(part.schema):
            part = self.target(part)
        return part

    def target(self, part: Part) -> Part:
        """What the `$ref` of a part names."""
        file = part.pointer.partition("#")[0]
        name, value = resolve(self.documents, file, part.schema["$ref"])
        return Part(f"{name}#{part.schema['$ref'].partition('#')[2]}", value)

    def view(self, node: Node) -> View:
        """All that a node says."""
        parts: list[Part] = []
        self._expand(node, parts, set())
        return View(self, tuple(parts))

    def _expand(self, node: Iterable[Part], parts: list[Part], seen: set[str]) -> None:
        for part in node:
            if part.pointer in seen:
                continue
            seen.add(part.pointer)
            schema = part.schema
            if not isinstance(schema, dict):
                parts.append(part)
                continue
            if is_reference(schema):
                self._expand([self.target(part)], parts, seen)
            for index in range(len(schema.get("allOf", ()))):
                self._expand([Part(f"{part.pointer}/allOf/{index}", schema["allOf"][index])], parts, seen)
            rest = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
            if rest:
                parts.append(Part(part.pointer, rest))

    def content(self, node: Node) -> list[Any]:
        """What a node says, whatever it is called."""
        return [self.whole(part.pointer, part.schema) for part in self.view(node).parts]

    def whole(self, pointer: str, value: Any, within: tuple[str, ...] = ()) -> Any:
        """A value with its references replaced, for comparing; a cycle is cut at the name."""
        if isinstance(value, list):
            return [self.whole(pointer, item, within) for item in value]
        if not isinstance(value, dict):
            return value
        result = {key: self.whole(pointer, item, within) for key, item in value.items() if key != "$ref"}
        if is_reference(value):
            target = self.target(Part(pointer, value))
            known = target.pointer in within
            result["$ref"] = (
                target.pointer if known else self.whole(target.pointer, target.schema, (*within, target.pointer))
            )
        return result


@dataclass(frozen=True)
class View:
    """What several schemas that hold together say of a value."""

    reader: Reader
    parts: Node

    @property
    def pointer(self) -> str:
        """Where it stands, for saying that something is not there: the last part, which is the most special one."""
        return self.parts[-1].pointer if self.parts else ""

    def at(self, keyword: str) -> str:
        """The pointer of a keyword, or where it would stand."""
        for part in self.parts:
            if isinstance(part.schema, dict) and keyword in part.schema:
                return f"{part.pointer}/{escape(keyword)}"
        return self.pointer

    def all(self, keyword: str) -> list[Part]:
        """A keyword of every part that has it."""
        return [below(part, keyword) for part in self.parts if isinstance(part.schema, dict) and keyword in part.schema]

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that are allowed; `number` holds `integer` too."""
        types = ALL_TYPES
        for part in self.all("type"):
            named = {part.schema} if isinstance(part.schema, str) else set(part.schema)
            types &= named | ({"integer"} if "number" in named else set())
        return types

    @cached_property
    def values(self) -> dict[str, Any] | None:
        """The values of `enum` and `const` by their JSON text; None where any value will do."""
        lists = [part.schema for part in self.all("enum")] + [[part.schema] for part in self.all("const")]
        if not lists:
            return None
        sets = [{json.dumps(value, sort_keys=True): value for value in values} for values in lists]
        everywhere = {text: value for text, value in sets[0].items() if all(text in other for other in sets)}
        return {text: value for text, value in everywhere.items() if self._fits(value)}

    def _fits(self, value: Any) -> bool:
        """Whether a listed value keeps what is said beside the list."""
        rules = [
            {keyword: part.schema} for keyword in (*LOWER, *UPPER, "type", "pattern") for part in self.all(keyword)
        ]
        return Draft202012Validator({"allOf": rules}).is_valid(value)

    def limit(self, keyword: str) -> float | None:
        """The narrowest of a limit."""
        found: list[float] = [part.schema for part in self.all(keyword)]
        if not found:
            return None
        return max(found) if keyword in LOWER else min(found)

    def narrowest(self, keyword: str) -> str:
        """Where the narrowest of a limit stands, or would."""
        limit = self.limit(keyword)
        return next((part.pointer for part in self.all(keyword) if part.schema == limit), self.pointer)

    def said(self, keyword: str) -> set[str]:
        """All that is said with a keyword such as `pattern`; `uniqueItems: false` says nothing."""
        return {json.dumps(part.schema) for part in self.all(keyword) if part.schema is not False}

    @cached_property
    def members(self) -> dict[str, Node]:
        """The declared members of an object."""
        members: dict[str, Node] = {}
        for properties in self.all("properties"):
            for name in properties.schema:
                members[name] = (*members.get(name, ()), below(properties, name))
        return members

    @cached_property
    def required(self) -> set[str]:
        """The members that must be there."""
        return {name for part in self.all("required") for name in part.schema}

    @cached_property
    def others(self) -> Node | bool:
        """What holds for members that are not declared: False none, True any, or their schemas."""
        found = [*self.all("additionalProperties"), *self.all("unevaluatedProperties")]
        if any(part.schema is False for part in found):
            return False
        return tuple(part for part in found if isinstance(part.schema, dict)) or True

    @cached_property
    def variants(self) -> dict[str, Node] | None:
        """The schemas of `oneOf` or `anyOf` by what tells them apart: the constants of their members, or a name."""
        found = [*self.all("oneOf"), *self.all("anyOf")]
        if not found:
            return None
        variants: dict[str, Node] = {}
        for part in found:
            for index, schema in enumerate(part.schema):
                node = (Part(f"{part.pointer}/{index}", schema),)
                name = self._tag(node) or (schema["$ref"] if is_reference(schema) else json.dumps(schema))
                while name in variants:
                    name += "'"
                variants[name] = node
        return variants

    def _tag(self, node: Node) -> str:
        members = self.reader.view(node).members
        constants = {name: self.reader.view(member).all("const") for name, member in members.items()}
        return ", ".join(sorted(f"{name} {parts[0].schema}" for name, parts in constants.items() if parts))
