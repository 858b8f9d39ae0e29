"""`schemas.json`: every schema that the server validates against, of both documents, in one JSON Schema resource.

It differs from the contract in three ways. Only what validation needs is in it. References lead to `#/schemas/...`.
And `type: integer` refers to a draft-04 schema, in which `1.0` and `-0.0` are no integers: what reaches the database
as an integer must be written as one.
"""

from __future__ import annotations

from typing import Any

from livebox.codegen.asyncapi import Message
from livebox.codegen.contract import Operation, follow
from livebox.codegen.documents import ASYNCAPI, OPENAPI, DocumentError, Documents, Json, is_reference, walk

#: The name of the draft-04 resource that `type: integer` becomes; the generated validators know it.
WHOLE_NUMBER = "urn:livebox:whole-number"

#: The schema that lists all error codes.
_CODE_LIST = "FieldErrorCode"
#: How the pattern of an id begins.
_UUID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-"
#: What a validator does not read.
_ANNOTATIONS = frozenset({"description", "title", "example", "examples", "default", "deprecated", "$comment"})
#: The extension that says which error code a failure has, and that which names the members that are written once.
_ERROR_CODE = "x-error-code"
_WRITE_ONCE = "x-write-once"
#: Members of a schema whose value is a mapping of names to schemas.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
#: Members whose value is data and not a schema.
_DATA = frozenset({"const", "enum", "required", "dependentRequired", "type"})


def named_schemas(documents: Documents) -> dict[str, Json]:
    """The component schemas of both documents by name. Raises DocumentError when both define a name."""
    schemas: dict[str, Json] = dict(documents.openapi.get("components", {}).get("schemas", {}))
    for name, schema in documents.asyncapi.get("components", {}).get("schemas", {}).items():
        if is_reference(schema) and schema["$ref"].endswith(f"{OPENAPI}#/components/schemas/{name}"):
            continue  # an import under the same name
        if name in schemas:
            raise DocumentError(f"both documents define the schema {name}")
        schemas[name] = schema
    return schemas


def local_references(node: Any, target: str) -> Any:
    """A copy of `node` in which references to component schemas of either document read `<target>/Name`."""
    if isinstance(node, list):
        return [local_references(item, target) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {key: local_references(value, target) for key, value in node.items()}
    if is_reference(node):
        reference: str = node["$ref"]
        document, _, fragment = reference.partition("#")
        known = document.removeprefix("./") in ("", OPENAPI, ASYNCAPI)
        if not known or not fragment.startswith("/components/schemas/"):
            raise DocumentError(f"a schema may not refer to {reference!r}")
        copy["$ref"] = target + fragment.removeprefix("/components/schemas")
    return copy


def schemas_document(documents: Documents, operations: tuple[Operation, ...], messages: tuple[Message, ...]) -> Json:
    """The whole resource: component schemas, parameters, request bodies, JSON responses and gateway messages."""
    parameters = {
        parameter.pointer.rpartition("/")[2]: parameter.schema
        for operation in operations
        for parameter in operation.parameters
    }
    bodies = {operation.id: _json_schema(operation.body) for operation in operations if operation.body}
    document = {
        "schemas": named_schemas(documents),
        "parameters": parameters,
        "bodies": bodies,
        "responses": {operation.id: _responses(documents, operation) for operation in operations},
        "messages": {message.name: message.payload for message in messages},
    }
    result: Json = {
        section: {name: _section(section, entry) for name, entry in entries.items()}
        for section, entries in document.items()
    }
    _check_codes(result)
    return result


def _check_codes(document: Json) -> None:
    """Raises DocumentError for an error code that the contract's list does not have."""
    listed = document["schemas"].get(_CODE_LIST, {}).get("enum", [])
    for pointer, node in walk(document):
        code = node.get(_ERROR_CODE) if isinstance(node, dict) else None
        if isinstance(code, str) and code not in listed:
            raise DocumentError(f"{pointer}: {code} is not a code of {_CODE_LIST}")


def _section(section: str, entry: Any) -> Any:
    if section == "responses":
        return {status: _validating(local_references(schema, "#/schemas")) for status, schema in entry.items()}
    return _validating(local_references(entry, "#/schemas"))


def _json_schema(content_holder: Json) -> Json:
    """The schema of a body; all media types of one body share it."""
    schemas = [media.get("schema", {}) for media in content_holder["content"].values()]
    if any(schema != schemas[0] for schema in schemas):
        raise DocumentError("the media types of a request body must share one schema")
    schema: Json = schemas[0]
    return schema


def _responses(documents: Documents, operation: Operation) -> Json:
    """The schema of each response with a JSON body, by status."""
    schemas: Json = {}
    for status, entry in operation.raw["responses"].items():
        for media, content in follow(documents, entry).get("content", {}).items():
            if media.endswith("json") and "schema" in content:
                schemas[status] = content["schema"]
    return schemas


def _validating(schema: Any) -> Any:
    """A schema without annotations and with strict integers."""
    if not isinstance(schema, dict):
        return schema
    result: Json = {}
    for key, value in schema.items():
        if key in _ANNOTATIONS or (key.startswith("x-") and key not in (_ERROR_CODE, _WRITE_ONCE)):
            continue
        if key in _NAMED:
            result[key] = {name: _validating(member) for name, member in value.items()}
        elif key in _DATA:
            result[key] = value
        elif isinstance(value, list):
            result[key] = [_validating(item) for item in value]
        else:
            result[key] = _validating(value)
    if result.get("additionalProperties") is False:
        # Without it jsonschema-rs does not name the members of an object that may have none.
        result.setdefault("properties", {})
    if result.get("type") == "integer":
        del result["type"]
        result = {"$ref": WHOLE_NUMBER, **result}
    if str(result.get("pattern", "")).startswith(_UUID_PATTERN):
        result.setdefault(_ERROR_CODE, "malformed_id")
        result.pop("format", None)  # the pattern says it already, and says lower case too
    return result
