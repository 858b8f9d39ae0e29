"""Values of the schemas of a document: good ones found in its examples, and broken ones, each constraint broken once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]
KEPT: Final = 4
"""Good values of a schema that are kept, each of another shape."""
LONGEST: Final = 200_000
"""What is longer than this is not made too long: it would only take time."""
_OTHERS: Final = ("text", 1, 0.5, True, None, [], {})
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_PLAIN: Final[Mapping[str, Any]] = {
    "string": "text",
    "boolean": True,
    "integer": 0,
    "number": 0,
    "array": [],
    "object": {},
}


def at(document: Json, reference: str) -> Any:
    """The schema that a reference inside the document leads to."""
    node: Any = document
    for token in reference.removeprefix("#/").split("/"):
        node = node[token.replace("~1", "/").replace("~0", "~")]
    return node


def of_kind(schema: Json, value: Any) -> bool:
    """Whether a value is of the type that the schema wants, which tells the branches of a `oneOf` apart soon."""
    wanted = schema.get("type")
    if "const" in schema and schema["const"] != value:
        return False
    return wanted is None or (isinstance(value, _KINDS[wanted]) and (wanted == "boolean") == isinstance(value, bool))


class Harvest:
    """Follows examples through the schemas of one document; `found` has the good values of each named schema."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._shapes: defaultdict[str, set[str]] = defaultdict(set)
        self.found: defaultdict[str, list[Any]] = defaultdict(list)
        self._walk(document)

    def of(self, name: str) -> list[Any]:
        """The good values of a named schema; where no example shows it, one that is made for it, with all members."""
        reference = {"$ref": f"#/components/schemas/{name}"}
        if not self.found[name]:
            self.take(reference, self._made(reference))
        return self.found[name]

    def _made(self, schema: Json) -> Any:
        if "$ref" in schema:
            found = self.found[schema["$ref"].rpartition("/")[2]]
            return found[0] if found else self._made(at(self._document, schema["$ref"]))
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else schema["enum"][0]
        if branches := schema.get("oneOf", schema.get("anyOf")):
            return self._made(branches[0])
        value = _PLAIN.get(schema.get("type", "object"), {})
        if isinstance(value, int):
            return max(schema.get("minimum", 0), 0)
        if isinstance(value, list):
            return [self._made(schema["items"])]
        if isinstance(value, dict):
            return self._object(schema)
        return "2026-11-02T09:30:00Z" if schema.get("format") == "date-time" else value

    def _object(self, schema: Json) -> Json:
        made: Json = {}
        for part in schema.get("allOf", ()):
            made |= self._made(part)
        made |= {key: self._made(member) for key, member in schema.get("properties", {}).items()}
        if isinstance(rest := schema.get("additionalProperties"), dict):
            made[self._made(schema.get("propertyNames", {"type": "string"}))] = self._made(rest)
        return made

    def _walk(self, node: Any) -> None:
        if isinstance(node, list):
            for inner in node:
                self._walk(inner)
        elif isinstance(node, dict):
            schema = node.get("schema", node.get("payload"))
            if isinstance(schema, dict):
                for value in self._examples(node):
                    self.take(schema, value)
            for inner in node.values():
                self._walk(inner)

    def _examples(self, node: Json) -> Iterator[Any]:
        if "example" in node:
            yield node["example"]
        listed = node.get("examples", ())
        for entry in listed.values() if isinstance(listed, dict) else listed:
            whole = at(self._document, entry["$ref"]) if "$ref" in entry else entry
            yield whole["value"] if "value" in whole else whole["payload"]

    def take(self, schema: Json, value: Any) -> None:
        """The value belongs to this schema, and its parts to the schemas within."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            shape = json.dumps(_shape(value))
            if shape not in self._shapes[name] and len(self.found[name]) < KEPT:
                self._shapes[name].add(shape)
                self.found[name].append(value)
            schema = at(self._document, schema["$ref"])
        for part in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
            if self._fits(part, value):
                self.take(part, value)
        if isinstance(value, dict):
            for key, member in value.items():
                if isinstance(inner := member_schema(schema, key), dict):
                    self.take(inner, member)
            if isinstance(names := schema.get("propertyNames"), dict):
                for key in value:
                    self.take(names, key)
        elif isinstance(value, list) and "items" in schema:
            for item in value:
                self.take(schema["items"], item)

    def _fits(self, part: Json, value: Any) -> bool:
        whole = at(self._document, part["$ref"]) if "$ref" in part else part
        if not of_kind(whole, value) or value not in whole.get("enum", (value,)):
            return False
        if not isinstance(value, dict):
            return True
        tags = {**whole.get("properties", {})}
        for inner in whole.get("allOf", ()):
            tags |= inner.get("properties", {})
        named = all(of_kind({"const": tag["const"]}, value.get(key)) for key, tag in tags.items() if "const" in tag)
        return named and set(whole.get("required", ())) <= value.keys()


def member_schema(schema: Json, key: str) -> Any:
    """The schema of a member of an object: its own, or that of all others."""
    return schema.get("properties", {}).get(key, schema.get("additionalProperties"))


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(member) for key, member in sorted(value.items())}
    return [_shape(item) for item in value[:1]] if isinstance(value, list) else type(value).__name__


def broken(schema: Json, value: Any) -> Iterator[Any]:
    """Copies of a good value in which one constraint of the schema is broken, as deep as the schema has no name."""
    for other in _OTHERS:
        if not of_kind({"type": schema.get("type", "string")}, other):
            yield other
    if "enum" in schema or "const" in schema:
        yield "none of them"
    if isinstance(value, str):
        yield from _strings(schema, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (schema[name] + step for name, step in (("minimum", -1), ("maximum", 1)) if name in schema)
    elif isinstance(value, list):
        yield from _arrays(schema, value)
    elif isinstance(value, dict):
        yield from _objects(schema, value)
    for part in schema.get("allOf", ()):
        if "$ref" not in part:
            yield from broken(part, value)


def _strings(schema: Json, value: str) -> Iterator[Any]:
    if schema.get("minLength"):
        yield value[: schema["minLength"] - 1]
    if schema.get("maxLength", LONGEST) < LONGEST:
        yield value + "x" * (schema["maxLength"] + 1 - len(value))
        yield "\U0001f4e6" * schema["maxLength"]  # as long as it may be, in characters
    if "pattern" in schema:
        yield from (value + "\n", "\u00e4", f" {value}", value.upper())
    if "format" in schema:
        yield from ("2026-02-30T00:00:00Z", "2026-11-02 09:30", value + "x", value.lower())


def _arrays(schema: Json, value: list[Any]) -> Iterator[Any]:
    if schema.get("minItems"):
        yield []
    if value:
        yield value * 2  # not unique any more
        most = schema.get("maxItems", LONGEST)
        if most <= 1000:
            yield value[:1] * (most + 1)
        yield from ([inner, *value[1:]] for inner in _inner(schema.get("items"), value[0]))


def _objects(schema: Json, value: Json) -> Iterator[Any]:
    yield {**value, "no_member": 1}
    for key, member in value.items():
        yield {name: other for name, other in value.items() if name != key}
        yield from ({**value, key: inner} for inner in _inner(member_schema(schema, key), member))
    if schema.get("maxProperties", LONGEST) <= 1000 and value:
        member = next(iter(value.values()))
        yield {**value, **{f"n{number}": member for number in range(schema["maxProperties"])}}


def _inner(schema: Any, value: Any) -> Iterator[Any]:
    """What is broken in a part: what has a name is broken on its own, so only its kind here."""
    if isinstance(schema, dict) and "$ref" not in schema:
        yield from broken(schema, value)
    else:
        yield from ([] if isinstance(value, dict) else {}, None)
