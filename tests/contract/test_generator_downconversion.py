"""OpenAPI 3.0 from 3.1: what can be said is said, what cannot is listed, and nothing valid becomes invalid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from livebox.codegen.documents import DocumentError, walk
from livebox.codegen.downconvert import Downconversion
from tests.contract.small_contract import generate

COMMITTED = Path(__file__).parents[2] / "generated" / "openapi30.json"


def converted(schema: Any) -> tuple[Any, list[str]]:
    conversion = Downconversion()
    return conversion.schema(schema, "/s"), conversion.losses


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": ["string"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "example": "a"}),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 9},
         {"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True}),
        ({"exclusiveMinimum": 1, "minimum": 5}, {"minimum": 5}),
        ({"exclusiveMinimum": 5, "minimum": 1}, {"minimum": 5, "exclusiveMinimum": True}),
        ({"$ref": "#/a"}, {"$ref": "#/a"}),
        ({"$ref": "#/a", "description": "B.", "maxLength": 3},
         {"allOf": [{"$ref": "#/a"}], "description": "B.", "maxLength": 3}),
        ({"properties": {"const": {"const": 1}}, "additionalProperties": False},
         {"properties": {"const": {"enum": [1]}}, "additionalProperties": False}),
        ({"items": True, "type": "array"}, {"items": {}, "type": "array"}),
        ({"type": "array"}, {"items": {}, "type": "array"}),
        ({"not": False}, {"not": {"not": {}}}),
        ({"oneOf": [{"const": 1}, {"$comment": "x"}]}, {"oneOf": [{"enum": [1]}, {}]}),
    ],
)  # fmt: skip
def test_what_can_be_said(schema: Any, result: Any) -> None:
    assert converted(schema) == (result, [])


def test_what_cannot_be_said_is_listed() -> None:
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "a"},
        "unevaluatedProperties": False,
        "properties": {"a/b": {"if": {}, "then": {}}},
    }
    assert converted(schema) == (
        {"type": "object", "properties": {"a/b": {}}},
        ["/s/propertyNames", "/s/unevaluatedProperties", "/s/properties/a~1b/if", "/s/properties/a~1b/then"],
    )


def test_keys_by_pattern_become_any_keys() -> None:
    one = {"patternProperties": {"^a$": {"const": 1}}, "additionalProperties": False}
    assert converted(one) == ({"additionalProperties": {"enum": [1]}}, ["/s/patternProperties"])
    two = {"patternProperties": {"^a$": {"const": 1}, "^b$": {}}, "additionalProperties": False}
    assert converted(two)[0] == {"additionalProperties": {"anyOf": [{"enum": [1]}, {}]}}


@pytest.mark.parametrize("schema", [{"type": ["string", "null"]}, {"$defs": {}}])
def test_what_must_not_be_there(schema: Any) -> None:
    with pytest.raises(DocumentError):
        converted(schema)


def test_a_small_document(tmp_path: Path) -> None:
    document = json.loads(generate(tmp_path)[1]["generated/openapi30.json"])
    OpenAPIV30SpecValidator(document).validate()
    assert document["openapi"] == "3.0.3"
    assert "summary" not in document["info"]
    assert document["x-losses"] == [
        "/components/schemas/Thing/properties/parts/propertyNames",
        "/components/schemas/MadeEvent/unevaluatedProperties",
    ]


def test_the_committed_document() -> None:
    document = json.loads(COMMITTED.read_bytes())
    OpenAPIV30SpecValidator(document).validate()
    keywords = {
        key for pointer, node in walk(document) if "/schemas/" in pointer and isinstance(node, dict) for key in node
    }
    assert not keywords & {"const", "$defs", "propertyNames", "unevaluatedProperties", "nullable", "if"}
