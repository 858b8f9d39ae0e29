"""`openapi30.json`: the REST contract in OpenAPI 3.0, for tools that take nothing newer.

3.0 knows less of JSON Schema. What it cannot say is left away, so that it accepts more than the contract and never
less, and each such place is listed in `x-losses`.
"""

from __future__ import annotations

from typing import Any

from livebox.codegen.documents import DocumentError, Json, escape, is_reference

#: Keywords that mean nothing to a 3.0 reader and whose absence changes no decision.
_SILENT = frozenset({"$comment", "$schema", "$id", "$anchor", "contentMediaType", "contentEncoding", "examples"})
#: Keywords that decide something 3.0 cannot express.
_LOST = frozenset(
    {"patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "dependentRequired",
     "dependentSchemas", "if", "then", "else", "prefixItems", "contains", "minContains", "maxContains"}
)  # fmt: skip
_UNSUPPORTED = frozenset({"$defs", "$dynamicRef", "$dynamicAnchor"})
_SCHEMAS = ("allOf", "anyOf", "oneOf")
_SCHEMA = ("items", "not", "additionalProperties")


class Downconversion:
    """One pass over a 3.1 document; `losses` are the pointers of what 3.0 cannot say."""

    def __init__(self) -> None:
        self.losses: list[str] = []

    def document(self, openapi: Json) -> Json:
        """The document in 3.0.3. Raises DocumentError for what cannot be converted."""
        result: Json = {"openapi": "3.0.3"}
        for key, value in openapi.items():
            if key in ("openapi", "jsonSchemaDialect"):
                continue
            if key == "webhooks":
                self.losses.append("/webhooks")
                continue
            result[key] = self._node(value, f"/{escape(key)}")
        result["info"] = {key: value for key, value in result["info"].items() if key != "summary"}
        if "license" in result["info"]:
            result["info"]["license"] = {k: v for k, v in result["info"]["license"].items() if k != "identifier"}
        result["x-losses"] = self.losses
        return result

    def _node(self, node: Any, pointer: str) -> Any:
        """A copy of anything outside schemas, with the schemas in it converted."""
        if isinstance(node, list):
            return [self._node(item, f"{pointer}/{index}") for index, item in enumerate(node)]
        if not isinstance(node, dict):
            return node
        result: Json = {}
        for key, value in node.items():
            below = f"{pointer}/{escape(key)}"
            if key == "schema" and "value" not in node:
                result[key] = self.schema(value, below)
            elif key == "schemas" and pointer == "/components":
                result[key] = {name: self.schema(schema, f"{below}/{escape(name)}") for name, schema in value.items()}
            elif key in ("value", "example"):
                result[key] = value
            else:
                result[key] = self._node(value, below)
        return result

    def schema(self, schema: Any, pointer: str) -> Any:
        """One schema and those in it."""
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if is_reference(schema):
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            converted = self.schema(siblings, pointer) if siblings else {}
            return {"allOf": [{"$ref": schema["$ref"]}], **converted} if converted else {"$ref": schema["$ref"]}
        result: Json = {}
        for key, value in schema.items():
            if key in _UNSUPPORTED:
                raise DocumentError(f"{pointer}/{key} cannot be said in OpenAPI 3.0")
            if key in _LOST:
                self.losses.append(f"{pointer}/{key}")
            elif key not in _SILENT:
                result.update(self._keyword(key, value, pointer))
        if schema.get("examples"):
            result.setdefault("example", schema["examples"][0])
        self._open_objects(schema, result, pointer)
        return self._bounds(result)

    def _keyword(self, key: str, value: Any, pointer: str) -> Json:
        if key == "const":
            return {"enum": [value]}
        if key == "type" and isinstance(value, list):
            if "null" in value:
                raise DocumentError(f"{pointer}/type holds null")
            return {"type": value[0]} if len(value) == 1 else {"anyOf": [{"type": name} for name in value]}
        if key == "properties":
            return {
                key: {name: self.schema(member, f"{pointer}/{key}/{escape(name)}") for name, member in value.items()}
            }
        if key in _SCHEMAS:
            return {key: [self.schema(item, f"{pointer}/{key}/{index}") for index, item in enumerate(value)]}
        if key == "additionalProperties" and isinstance(value, bool):
            return {key: value}
        if key in _SCHEMA:
            return {key: self.schema(value, f"{pointer}/{key}")}
        return {key: value}

    def _open_objects(self, schema: Json, result: Json, pointer: str) -> None:
        """`patternProperties` become `additionalProperties`, and an array needs `items`."""
        patterns = schema.get("patternProperties")
        if patterns and schema.get("additionalProperties", True) is False:
            options = [
                self.schema(value, f"{pointer}/patternProperties/{escape(name)}") for name, value in patterns.items()
            ]
            result["additionalProperties"] = options[0] if len(options) == 1 else {"anyOf": options}
        if result.get("type") == "array":
            result.setdefault("items", {})

    @staticmethod
    def _bounds(result: Json) -> Json:
        """Exclusive bounds are flags in 3.0."""
        for exclusive, inclusive, tighter in (
            ("exclusiveMinimum", "minimum", max),
            ("exclusiveMaximum", "maximum", min),
        ):
            if exclusive in result:
                bound = result.pop(exclusive)
                other = result.get(inclusive, bound)
                result[inclusive] = tighter(bound, other)
                if result[inclusive] == bound:
                    result[exclusive] = True
        return result
