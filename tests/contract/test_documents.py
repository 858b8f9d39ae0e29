"""The contract documents themselves: valid for independent readers, whole, bounded, and with examples that hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openapi_core import OpenAPI
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from generated.field_errors import MESSAGES
from generated.operations import OPERATIONS
from generated.problems import PROBLEMS
from generated.validators import BODY_ERRORS, checker, response_errors
from livebox.codegen.contract import follow, read_operations
from livebox.codegen.documents import ASYNCAPI, OPENAPI, at, escape, is_reference, load, resolve, walk

ROOT = Path(__file__).parents[2]
DOCUMENTS = load(ROOT)
READ = read_operations(DOCUMENTS)
SERVED = {name: json.loads((ROOT / "generated" / f"{name}.json").read_bytes()) for name in ("openapi", "asyncapi")}

#: Keywords whose value is one schema, a list of them, or schemas by name.
ONE = (
    "items",
    "additionalProperties",
    "propertyNames",
    "not",
    "unevaluatedProperties",
    "contains",
    "if",
    "then",
    "else",
)
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties")


def subschemas(schema: Any, pointer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all in it, with their pointers."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in ONE:
        yield from subschemas(schema.get(key), f"{pointer}/{key}")
    for key in SEVERAL:
        for index, item in enumerate(schema.get(key, [])):
            yield from subschemas(item, f"{pointer}/{key}/{index}")
    for key in NAMED:
        for name, item in schema.get(key, {}).items():
            yield from subschemas(item, f"{pointer}/{key}/{escape(name)}")


def all_schemas() -> list[tuple[str, dict[str, Any]]]:
    """Every schema of both documents: the named ones and those that stand in parameters, headers, bodies, messages."""
    found: dict[str, dict[str, Any]] = {}
    for file in (OPENAPI, ASYNCAPI):
        document = DOCUMENTS.named(file)
        for pointer, node in walk(document):
            if "/examples/" in pointer or not isinstance(node, dict):
                continue
            here = {key: node[key] for key in ("schema", "payload") if isinstance(node.get(key), dict)}
            if pointer == "/components/schemas":
                here = node
            elif "/components/schemas/" in pointer or pointer.endswith("/properties"):
                here = {}
            for key, schema in here.items():
                found |= dict(subschemas(schema, f"{file}#{pointer}/{escape(key)}"))
    return list(found.items())


SCHEMAS = all_schemas()


def test_the_rest_document_is_valid_for_independent_readers() -> None:
    OpenAPIV31SpecValidator(SERVED["openapi"]).validate()
    OpenAPI.from_dict(SERVED["openapi"])


def test_what_is_served_is_what_is_written() -> None:
    assert SERVED["openapi"] == DOCUMENTS.openapi
    assert SERVED["asyncapi"]["channels"] == DOCUMENTS.asyncapi["channels"]


@pytest.mark.parametrize("name", SERVED)
def test_every_reference_of_a_served_document_stays_inside_it(name: str) -> None:
    references = [node["$ref"] for _, node in walk(SERVED[name]) if is_reference(node)]
    assert references
    for reference in references:
        assert reference.startswith("#/")
        at(SERVED[name], reference.removeprefix("#"))


@pytest.mark.parametrize("file", [OPENAPI, ASYNCAPI])
def test_nothing_named_is_unused(file: str) -> None:
    used = {
        resolve(DOCUMENTS, name, node["$ref"])[0] + "#" + node["$ref"].partition("#")[2]
        for name in (OPENAPI, ASYNCAPI)
        for _, node in walk(DOCUMENTS.named(name))
        if is_reference(node)
    }
    for section, entries in DOCUMENTS.named(file)["components"].items():
        if section not in ("securitySchemes", "messages"):
            assert [name for name in entries if f"{file}#/components/{section}/{name}" not in used] == [], section


@pytest.mark.parametrize(("pointer", "schema"), SCHEMAS)
def test_every_schema_is_a_schema_and_bounded(pointer: str, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "nullable" not in schema
    assert schema.get("type") != "null"
    assert "null" not in (schema["type"] if isinstance(schema.get("type"), list) else ())
    assert "discriminator" not in schema
    kind = schema.get("type")
    if kind == "string" and not _narrowed(pointer):
        assert "maxLength" in schema or schema.get("format") == "date-time", "a string without maxLength"
    if kind == "array":
        assert {"maxItems", "items"} <= schema.keys(), "an array without bounds"
    if kind == "integer":
        assert {"minimum", "maximum"} <= schema.keys(), "an integer without bounds"
        assert -(2**53) < schema["minimum"] <= schema["maximum"] < 2**53
    if "pattern" in schema:
        re.compile(schema["pattern"])
        assert "maxLength" in schema


def _narrowed(pointer: str) -> bool:
    """Whether the schema only narrows a member that another part of an `allOf` bounds."""
    return "/allOf/" in pointer


def test_objects_are_closed_or_keyed_or_free_on_purpose() -> None:
    """What is not closed is either made whole by an `allOf` around it or meant for anybody's own JSON."""
    open_ones = {
        pointer
        for pointer, schema in SCHEMAS
        if schema.get("type") == "object"
        and "additionalProperties" not in schema
        and "unevaluatedProperties" not in schema
        and not _narrowed(pointer)
    }
    assert open_ones <= {
        "openapi.yaml#/components/schemas/EventEnvelope",
        "openapi.yaml#/components/schemas/GovernanceEvent",
        "openapi.yaml#/components/schemas/EventEnvelope/properties/payload",
        "openapi.yaml#/components/schemas/StepDetail",
        "openapi.yaml#/paths/~1openapi.json/get/responses/200/content/application~1json/schema",
        "openapi.yaml#/paths/~1asyncapi.json/get/responses/200/content/application~1json/schema",
    }  # fmt: skip


@pytest.mark.parametrize("operation", READ, ids=lambda operation: operation.id)
def test_an_operation_is_whole(operation: Any) -> None:
    raw = operation.raw
    assert raw["summary"].strip()
    assert raw["x-kind"] in ("read", "write")
    assert (operation.security == "public") or raw["x-rate-class"] in ("read", "write", "patch")
    assert len(set(operation.problem_codes)) == len(operation.problem_codes)
    assert {"validation_failed", "internal_error"} <= set(operation.problem_codes)
    statuses = {PROBLEMS[code][0] for code in operation.problem_codes}
    declared = {
        int(status)
        for status, entry in raw["responses"].items()
        if "application/problem+json" in follow(DOCUMENTS, entry).get("content", {})
    }
    assert statuses == declared, "the statuses of the problem codes are the declared ones"
    if operation.body:
        assert {"invalid_json", "body_too_large", "unsupported_media_type"} <= set(operation.problem_codes)
    if operation.takes("idempotency_key"):
        assert "idempotency_key_reused" in operation.problem_codes
    if operation.takes("cursor"):
        assert "cursor_invalid" in operation.problem_codes
    if operation.takes("if_match"):
        assert "version_mismatch" in operation.problem_codes
    if operation.takes("if_none_match"):
        assert "304" in raw["responses"]


def test_problem_codes_are_one_list() -> None:
    listed = DOCUMENTS.openapi["components"]["schemas"]["ProblemCode"]["enum"]
    assert sorted(listed) == sorted(PROBLEMS)
    used = {code for operation in OPERATIONS.values() for code in operation.problem_codes}
    assert set(PROBLEMS) - used == {"method_not_allowed", "upgrade_required"}  # answered outside of operations


def test_field_error_codes_are_one_list() -> None:
    listed = DOCUMENTS.openapi["components"]["schemas"]["FieldErrorCode"]["enum"]
    assert sorted(listed) == sorted(MESSAGES)


def _bodies() -> Iterator[Any]:
    """(id, `body` or status, pointer in schemas.json, content, whether a problem) of each JSON body."""
    for operation in READ:
        contents = [("body", f"/bodies/{operation.id}", operation.body or {})]
        for status, entry in operation.raw["responses"].items():
            contents.append((status, f"/responses/{operation.id}/{status}", follow(DOCUMENTS, entry)))
        for part, pointer, holder in contents:
            for media, content in holder.get("content", {}).items():
                if "json" in media:
                    yield operation.id, part, pointer, content, media == "application/problem+json"


CONTENTS = list(_bodies())
_REGISTRY: Registry[Any] = Registry().with_resource("urn:contract", DRAFT202012.create_resource(DOCUMENTS.openapi))


def _oracle(schema: Any) -> jsonschema.Draft202012Validator:
    """The slow, independent validator of the tests, on the contract as it is written."""
    absolute = json.loads(json.dumps(schema).replace('"$ref": "#/', '"$ref": "urn:contract#/'))
    checks = jsonschema.FormatChecker()
    return jsonschema.Draft202012Validator(absolute, registry=_REGISTRY, format_checker=checks)


@pytest.mark.parametrize(
    ("operation", "part", "pointer", "content", "is_problem"), CONTENTS, ids=lambda value: str(value)[:40]
)
def test_every_body_has_examples_that_are_valid(
    operation: str, part: str, pointer: str, content: Any, is_problem: bool
) -> None:
    examples = content.get("examples", {})
    assert examples, f"{operation} {part} has no example"
    for name, example in examples.items():
        value = follow(DOCUMENTS, example)["value"]
        assert [error.message for error in _oracle(content["schema"]).iter_errors(value)] == [], name
        assert checker(pointer)(value) == [], name
        if part == "body":
            assert BODY_ERRORS[operation](value) == []
        else:
            assert response_errors(operation, int(part), value) == []
            if is_problem:
                assert value["code"] in PROBLEMS
                assert (value["status"], value["title"]) == PROBLEMS[value["code"]]


def test_every_parameter_has_an_example_that_is_valid() -> None:
    for operation in READ:
        for parameter in operation.parameters:
            entries = [
                *DOCUMENTS.openapi["paths"][operation.path].get("parameters", []),
                *operation.raw.get("parameters", []),
            ]
            raw = next(
                found
                for found in (follow(DOCUMENTS, entry) for entry in entries)
                if (found["name"], found["in"]) == (parameter.name, parameter.location)
            )
            assert "example" in raw, f"{operation.id} {parameter.name}"
            assert checker(parameter.pointer)(raw["example"]) == []
            assert raw["description"].strip()


def test_every_header_has_an_example_that_is_valid() -> None:
    for name, header in DOCUMENTS.openapi["components"]["headers"].items():
        assert list(_oracle(header["schema"]).iter_errors(header["example"])) == [], name


def test_every_gateway_message_has_examples_that_are_valid() -> None:
    for message in DOCUMENTS.asyncapi["components"]["messages"].values():
        assert message["examples"]
        for example in message["examples"]:
            assert checker(f"/messages/{message['name']}")(example["payload"]) == []
