"""Every rule of what breaks a client, each with a pair of contracts that differ by it alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from livebox.codegen.documents import Documents, at
from tests.compatibility.contracts import compare
from tests.compatibility.report import ADDITIVE, BREAKING, DOCS, RULES, Report, worst

REST = """
info: {title: Mini, version: 1.0.0}
servers: [{url: /}]
security: [{bearer: []}]
x-problem-codes: {gone: {status: 410, title: Gone}, busy: {status: 503, title: Busy}}
paths:
  /v1/things/{thing_id}:
    parameters: [{name: thing_id, in: path, required: true, schema: {type: string, maxLength: 9}}]
    put:
      operationId: putThing
      summary: Put it
      x-rate-class: write
      x-problem-codes: [gone]
      parameters: [{name: order, in: query, schema: {type: string, maxLength: 4, default: asc}}]
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: '#/components/schemas/In'}}
          text/plain: {schema: {type: string, maxLength: 9}}
      responses:
        '200':
          description: Done.
          headers: {ETag: {schema: {type: string, maxLength: 9}}}
          content:
            application/json: {schema: {$ref: '#/components/schemas/Out'}}
            text/plain: {schema: {type: string, maxLength: 9}}
        '304': {description: Same.}
        '410': {description: Gone., content: {application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}
    post: {operationId: poke, responses: {'204': {description: Done.}}}
    patch:
      operationId: touch
      requestBody: {content: {application/json: {schema: {type: boolean}}}}
      responses: {'204': {description: Done.}}
components:
  securitySchemes: {bearer: {type: http, scheme: bearer}, more: {type: apiKey, in: header, name: More}}
  schemas:
    In: {type: object, additionalProperties: false, required: [name], properties: {name: {type: string, maxLength: 9}, size: {type: integer}}}
    Out: {type: object, additionalProperties: false, required: [name], properties: {name: {type: string, maxLength: 9}, size: {type: integer}}}
    Problem: {type: object, properties: {code: {$ref: '#/components/schemas/ProblemCode'}}}
    ProblemCode: {type: string, maxLength: 20, enum: [gone, busy]}
    Plain: {type: string, maxLength: 9}
    Same: {type: string, maxLength: 9}
    One: {type: object, required: [kind], properties: {kind: {const: one}}}
    Two: {type: object, required: [kind], properties: {kind: {const: two}}}
"""
GATEWAY = """
info: {title: Mini, version: 1.0.0}
defaultContentType: application/json
x-close-codes: {4001: {name: again, reconnect: true, meaning: Again.}}
channels: {gateway: {address: /v1/gateway, bindings: {ws: {method: GET}}}, other: {address: /v1/other}}
operations:
  receiveDo: {action: receive, channel: {$ref: '#/channels/gateway'}, messages: [{$ref: '#/components/messages/do'}]}
  receiveStop: {action: receive, messages: [{$ref: '#/components/messages/stop'}]}
  sendDone: {action: send, messages: [{$ref: '#/components/messages/done'}]}
  sendBye: {action: send, messages: [{$ref: '#/components/messages/bye'}]}
components:
  messages:
    do: {name: do, payload: {$ref: 'openapi.yaml#/components/schemas/In'}}
    stop: {name: stop, payload: {$ref: 'openapi.yaml#/components/schemas/One'}}
    done: {name: done, payload: {$ref: 'openapi.yaml#/components/schemas/Out'}}
    bye: {name: bye, payload: {$ref: 'openapi.yaml#/components/schemas/Two'}}
"""
PUT = "/paths/~1v1~1things~1{thing_id}/put"
IN, OUT = "/components/schemas/In", "/components/schemas/Out"


def loaded(text: str) -> Any:
    document = yaml.safe_load(text)
    if "x-close-codes" in document:
        document["x-close-codes"] = {str(code): value for code, value in document["x-close-codes"].items()}
    return document


BASE = Documents(loaded(REST), loaded(GATEWAY))


def setting(**members: Any) -> Callable[[dict[str, Any]], None]:
    return lambda place: place.update(members)


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    return lambda place: [place.pop(name) for name in names]  # type: ignore[return-value]


def edited(pointer: str, edit: Callable[[Any], Any], documents: Documents = BASE) -> Documents:
    """A copy in which the object at a pointer was edited; a pointer that begins with `gateway` leads into the frames."""
    made = copy.deepcopy(documents)
    gateway = pointer.startswith("gateway")
    edit(at(made.asyncapi if gateway else made.openapi, pointer.removeprefix("gateway")))
    return made


def found(old: Documents, new: Documents) -> list[tuple[str, str]]:
    return [(change.level, change.rule) for change in compare(old, new)]


# What a schema of a member was and is; what that is called, and what it means in a request and in a response.
B, A = BREAKING, ADDITIVE
MEMBERS: list[tuple[str, Any, Any, tuple[str, str], tuple[str, str]]] = [
    ("type", {"type": "integer"}, {"type": "number"}, ("type.widened", A), ("type.widened", B)),
    ("null", {"type": "integer"}, {"type": ["integer", "null"]}, ("type.widened", A), ("type.widened", B)),
    ("no null", {"type": ["string", "null"]}, {"type": "string"}, ("type.narrowed", B), ("type.narrowed", A)),
    ("type back", {"type": "number"}, {"type": "integer"}, ("type.narrowed", B), ("type.narrowed", A)),
    ("value", {"enum": ["a"]}, {"enum": ["a", "b"]}, ("values.widened", A), ("values.widened", B)),
    ("no value", {"enum": ["a", "b"]}, {"enum": ["b"]}, ("values.narrowed", B), ("values.lost", B)),
    ("listed", {"type": "string"}, {"type": "string", "enum": ["a"]}, ("values.narrowed", B), ("values.narrowed", A)),
    ("constant", {"type": "string", "const": "a"}, {"type": "string"}, ("values.widened", A), ("values.widened", B)),
    ("longer", {"maxLength": 5}, {"maxLength": 6}, ("limit.widened", A), ("limit.widened", B)),
    ("shorter", {"maxLength": 6}, {"maxLength": 5}, ("limit.narrowed", B), ("limit.narrowed", A)),
    ("bounded", {"type": "integer"}, {"type": "integer", "minimum": 0}, ("limit.narrowed", B), ("limit.narrowed", A)),
    ("unbounded", {"minItems": 1}, {}, ("limit.widened", A), ("limit.widened", B)),
    ("lower", {"exclusiveMinimum": 1}, {"exclusiveMinimum": 0}, ("limit.widened", A), ("limit.widened", B)),
    ("pattern", {}, {"pattern": "a"}, ("constraint.narrowed", B), ("constraint.narrowed", A)),
    ("no pattern", {"format": "uri"}, {}, ("constraint.widened", A), ("constraint.widened", B)),
    ("other", {"pattern": "a"}, {"pattern": "b"}, ("constraint.changed", B), ("constraint.changed", B)),
    ("unique", {"uniqueItems": False}, {"uniqueItems": True}, ("constraint.narrowed", B), ("constraint.narrowed", A)),
    ("items", {"type": "array"}, {"type": "array", "items": {"maximum": 1}}, ("inner.narrowed", B), ("inner.narrowed", A)),
    ("names", {"propertyNames": {"maxLength": 1}}, {}, ("inner.widened", A), ("inner.widened", B)),
    ("opened", {"type": "object", "additionalProperties": False}, {"type": "object"},
     ("others.widened", A), ("others.gained", A)),
    ("closed", {"type": "object"}, {"type": "object", "additionalProperties": False},
     ("others.narrowed", B), ("others.lost", B)),
    ("a map", {"type": "object", "additionalProperties": {"maximum": 1}}, {"type": "object"},
     ("others.widened", A), ("others.lost", B)),
    ("in a map", {"additionalProperties": {"maximum": 1}}, {"additionalProperties": {"maximum": 2}},
     ("limit.widened", A), ("limit.widened", B)),
    ("in items", {"items": {"maximum": 2}}, {"items": {"maximum": 1}}, ("limit.narrowed", B), ("limit.narrowed", A)),
    ("all of", {"allOf": [{"maximum": 9}, {"maximum": 5}]}, {"allOf": [{"maximum": 9}, {"maximum": 6}]},
     ("limit.widened", A), ("limit.widened", B)),
    ("variant", {"oneOf": [{"$ref": "#/components/schemas/One"}]},
     {"oneOf": [{"$ref": "#/components/schemas/One"}, {"$ref": "#/components/schemas/Two"}]},
     ("variant.widened", A), ("variant.widened", B)),
    ("no variant", {"anyOf": [{"type": "string"}, {"type": "array"}]}, {"anyOf": [{"type": "string"}]},
     ("variant.removed", B), ("variant.removed", B)),
    ("variant called anew", {"anyOf": [{"$ref": "#/components/schemas/Plain"}]},
     {"anyOf": [{"$ref": "#/components/schemas/Same"}]}, ("form", DOCS), ("form", DOCS)),
    ("must, though not declared", {"type": "object"}, {"type": "object", "required": ["a"]},
     ("member.required", B), ("member.required", A)),
    ("variants", {}, {"oneOf": [{}]}, ("variants.changed", B), ("variants.changed", B)),
    ("member", {"properties": {}, "additionalProperties": False},
     {"properties": {"a": {}}, "additionalProperties": False}, ("member.added", A), ("member.added", A)),
    ("no member", {"properties": {"a": {}}}, {"properties": {}}, ("member.removed", B), ("member.removed", B)),
    ("must", {"properties": {"a": {}}}, {"properties": {"a": {}}, "required": ["a"]},
     ("member.required", B), ("member.required", A)),
    ("need not", {"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}},
     ("member.optional", A), ("member.optional", B)),
    ("must be added", {"properties": {}}, {"properties": {"a": {}}, "required": ["a"]},
     ("member.added_required", B), ("member.added", A)),
    ("was free", {"properties": {}}, {"properties": {"a": {}}}, ("member.added_to_free", B), ("member.added", A)),
    ("default", {}, {"default": 1}, ("default.added", A), ("form", DOCS)),
    ("other default", {"default": 1}, {"default": 2}, ("default.changed", B), ("form", DOCS)),
    ("not", {"not": {"enum": [1]}}, {"not": {"enum": [2]}}, ("keyword.changed", B), ("keyword.changed", B)),
    ("patched", {}, {"x-patchable": True}, ("patchable.gained", A), ("patchable.gained", A)),
    ("not patched", {"x-patchable": True}, {}, ("patchable.lost", B), ("patchable.lost", B)),
    ("a length of constants", {"const": "a", "maxLength": 5}, {"const": "a", "maxLength": 4}, ("form", DOCS), ("form", DOCS)),
    ("words", {"description": "a"}, {"description": "b"}, ("prose", DOCS), ("prose", DOCS)),
    ("behind a name", {"maxLength": 9, "type": "string"}, {"$ref": "#/components/schemas/Plain"}, ("form", DOCS), ("form", DOCS)),
    ("beside a name", {"$ref": "#/components/schemas/Plain"}, {"$ref": "#/components/schemas/Plain", "maxLength": 5},
     ("limit.narrowed", B), ("limit.narrowed", A)),
]  # fmt: skip
WHOLE = {"patchable.gained", "patchable.lost", "keyword.changed", "prose", "form"}


@pytest.mark.parametrize(
    ("old", "new", "asked", "answered"), [entry[1:] for entry in MEMBERS], ids=[entry[0] for entry in MEMBERS]
)
def test_a_schema_is_judged_by_its_direction(
    old: Any, new: Any, asked: tuple[str, str], answered: tuple[str, str]
) -> None:
    for place, direction, (rule, level) in ((IN, "request", asked), (OUT, "response", answered)):
        before, after = (edited(f"{place}/properties", setting(x=schema)) for schema in (old, new))
        name = rule if rule in WHOLE else f"{direction}.{rule}"
        assert set(found(before, after)) == {(level, name)}
        assert found(before, before) == []


G = "gateway"
CONTRACT: list[tuple[str, str, str, Callable[[Any], Any]]] = [
    ("operation.removed", B, "/paths/~1v1~1things~1{thing_id}", without("post")),
    ("operation.added", A, "/paths", setting(**{"/v1/more": {"get": {"operationId": "more", "responses": {}}}})),
    ("operation.renamed", B, PUT, setting(operationId="putOther")),
    ("rate.changed", A, PUT, setting(**{"x-rate-class": "read"})),
    ("root.changed", B, "", setting(servers=[{"url": "/v2"}])),
    ("root.changed", B, PUT, setting(servers=[{"url": "/v2"}])),
    ("root.changed", B, "/paths/~1v1~1things~1{thing_id}", setting(servers=[{"url": "/v2"}])),
    ("root.changed", B, "gateway", setting(servers={"one": {"host": "other", "protocol": "wss"}})),
    ("security.widened", A, PUT, setting(security=[])),
    ("security.widened", A, PUT, setting(security=[{"bearer": []}, {"more": []}])),
    ("security.narrowed", B, PUT, setting(security=[{"bearer": [], "more": []}])),
    ("security.scheme", B, "/components/securitySchemes/more", setting(name="Other")),
    ("parameter.removed", B, PUT, setting(parameters=[])),
    ("parameter.removed", B, "/paths/~1v1~1things~1{thing_id}/put/parameters/0", setting(name="sort")),
    ("parameter.added", A, f"{PUT}/parameters", lambda place: place.append({"name": "a", "in": "query", "schema": {}})),
    ("parameter.added_required", B, f"{PUT}/parameters",
     lambda place: place.append({"name": "a", "in": "query", "required": True, "schema": {}})),
    ("parameter.required", B, f"{PUT}/parameters/0", setting(required=True)),
    ("parameter.style", B, f"{PUT}/parameters/0", setting(explode=False)),
    ("request.limit.narrowed", B, f"{PUT}/parameters/0/schema", setting(maxLength=3)),
    ("request.limit.widened", A, "/paths/~1v1~1things~1{thing_id}/parameters/0/schema", setting(maxLength=10)),
    ("request.default.changed", B, f"{PUT}/parameters/0/schema", setting(default="desc")),
    ("body.removed", B, PUT, without("requestBody")),
    ("body.added", A, "/paths/~1v1~1things~1{thing_id}/post", setting(requestBody={"content": {}})),
    ("body.added_required", B, "/paths/~1v1~1things~1{thing_id}/post", setting(requestBody={"required": True, "content": {}})),
    ("body.required", B, "/paths/~1v1~1things~1{thing_id}/patch/requestBody", setting(required=True)),
    ("body.optional", A, f"{PUT}/requestBody", setting(required=False)),
    ("request.media.removed", B, f"{PUT}/requestBody/content", without("text/plain")),
    ("request.media.added", A, f"{PUT}/requestBody/content", setting(**{"text/csv": {}})),
    ("response.media.removed", B, f"{PUT}/responses/200/content", without("text/plain")),
    ("response.media.added", B, f"{PUT}/responses/200/content", setting(**{"text/csv": {}})),
    ("media.schema", B, f"{PUT}/responses/200/content/text~1plain", without("schema")),
    ("status.removed", B, f"{PUT}/responses", without("200")),
    ("status.removed", A, f"{PUT}/responses", without("304")),
    ("status.removed", A, f"{PUT}/responses", without("410")),
    ("status.added", B, f"{PUT}/responses", setting(**{"202": {"description": "Later."}})),
    ("status.added", B, f"{PUT}/responses", setting(**{"503": {"description": "Busy."}})),
    ("status.added", A, "/paths/~1v1~1things~1{thing_id}/post/responses", setting(**{"304": {"description": "Same."}})),
    ("header.removed", B, f"{PUT}/responses/200", setting(headers={})),
    ("header.added", A, f"{PUT}/responses/200/headers", setting(Link={"schema": {}})),
    ("response.limit.widened", B, f"{PUT}/responses/200/headers/ETag/schema", setting(maxLength=10)),
    ("code.added", B, f"{PUT}/x-problem-codes", lambda place: place.append("busy")),
    ("code.removed", A, f"{PUT}/x-problem-codes", lambda place: place.clear()),
    ("code.status", B, "/x-problem-codes/gone", setting(status=404)),
    ("codes.union", A, "/components/schemas/ProblemCode/enum", lambda place: place.append("new")),
    ("form", DOCS, "/x-problem-codes", setting(new={"status": 400, "title": "New"})),
    ("form", DOCS, "/components/schemas", setting(Unused={"type": "string"})),
    ("form", DOCS, f"{IN}", lambda place: place.update(required=["name"][::-1] * 2)),
    ("prose", DOCS, "/info", setting(version="1.0.1")),
    ("prose", DOCS, f"{PUT}", setting(summary="Lay it down")),
    ("channel.removed", B, f"{G}/channels/gateway", setting(address="/v2/gateway")),
    ("channel.bindings", B, f"{G}/channels/gateway", without("bindings")),
    ("channel.moved", B, f"{G}/operations/receiveDo", setting(channel={"$ref": "#/channels/other"})),
    ("frame.media", B, G, setting(defaultContentType="application/cbor")),
    ("frame.media", B, f"{G}/components/messages/do", setting(contentType="application/cbor")),
    ("frame.media", B, f"{G}/components/messages/done", setting(headers={"type": "object", "required": ["a"]})),
    ("frame.media", B, f"{G}/operations/receiveDo", setting(security=[{"type": "http", "scheme": "basic"}])),
    ("request.frame.removed", B, f"{G}/operations", without("receiveStop")),
    ("response.frame.removed", B, f"{G}/operations", without("sendBye")),
    ("request.frame.added", A, f"{G}/operations",
     setting(more={"action": "receive", "messages": [{"$ref": "#/components/messages/bye"}]})),
    ("response.frame.added", B, f"{G}/operations",
     setting(more={"action": "send", "messages": [{"$ref": "#/components/messages/stop"}]})),
    ("close.added", A, f"{G}/x-close-codes", setting(**{"4002": {"name": "b", "reconnect": True}})),
    ("close.added", A, f"{G}/x-close-codes", setting(**{"4502": {"name": "b", "reconnect": False}})),
    ("close.added_unexpected", B, f"{G}/x-close-codes", setting(**{"4502": {"name": "b", "reconnect": True}})),
    ("close.added_unexpected", B, f"{G}/x-close-codes", setting(**{"1011": {"name": "b", "reconnect": True}})),
    ("close.reconnect", B, f"{G}/x-close-codes/4001", setting(reconnect=False)),
    ("close.name", B, f"{G}/x-close-codes/4001", setting(name="b")),
    ("close.removed", A, f"{G}/x-close-codes", without("4001")),
    ("prose", DOCS, f"{G}/x-close-codes/4001", setting(meaning="Once more.")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "level", "pointer", "edit"), CONTRACT, ids=[f"{entry[0]} {index}" for index, entry in enumerate(CONTRACT)]
)
def test_a_change_of_the_contract_has_its_level(
    rule: str, level: str, pointer: str, edit: Callable[[Any], Any]
) -> None:
    changes = compare(BASE, edited(pointer, edit))
    assert worst(changes) == level
    assert {change.rule for change in changes if change.level == level} >= {rule}
    assert {change.rule for change in changes} <= {rule, "parameter.added", "form"}


def test_a_parameter_that_need_not_be_sent_any_more_is_additive() -> None:
    before = edited(f"{PUT}/parameters/0", setting(required=True))
    assert found(before, BASE) == [(ADDITIVE, "parameter.optional")]


def test_each_rule_has_its_pair() -> None:
    members = {
        rule if rule in WHOLE else f"{direction}.{rule}"
        for *_, asked, answered in MEMBERS
        for direction, (rule, _) in (("request", asked), ("response", answered))
    }
    assert members | {rule for rule, *_ in CONTRACT} | {"parameter.optional"} == RULES


def test_a_rule_that_nobody_knows_is_not_reported() -> None:
    with pytest.raises(KeyError):
        Report().add(BREAKING, "new.rule", "", "")


def test_a_shared_schema_is_judged_in_both_directions_with_its_own_pointer() -> None:
    shared = {"$ref": "#/components/schemas/Plain"}
    before = edited(f"{OUT}/properties", setting(x=shared), edited(f"{IN}/properties", setting(x=shared)))
    changes = compare(before, edited("/components/schemas/Plain", setting(maxLength=10), before))
    assert [(change.level, change.direction) for change in changes] == [(BREAKING, "response"), (ADDITIVE, "request")]
    assert {change.pointer for change in changes} == {"openapi.yaml#/components/schemas/Plain/maxLength"}
    assert changes[0].used_by.startswith("putThing response")


def test_what_refers_to_itself_is_compared_once() -> None:
    tree = {"type": "array", "maxItems": 9, "items": {"$ref": "#/components/schemas/Tree"}}
    before = edited(f"{IN}/properties", setting(x={"$ref": "#/components/schemas/Tree"}))
    before = edited("/components/schemas", setting(Tree=tree), before)
    after = edited("/components/schemas/Tree", setting(maxItems=8), before)
    assert found(before, after) == [(BREAKING, "request.limit.narrowed")]


def test_a_member_that_is_called_like_a_keyword_is_a_member() -> None:
    before = edited(f"{OUT}/properties", setting(description={"maxLength": 5}, properties={"maxLength": 5}))
    assert found(before, BASE) == [(BREAKING, "response.member.removed")] * 2


def test_a_security_scheme_may_be_called_otherwise() -> None:
    after = copy.deepcopy(BASE)
    schemes = after.openapi["components"]["securitySchemes"]
    schemes["token"] = schemes.pop("bearer")
    after.openapi["security"] = [{"token": []}]
    assert {change.level for change in compare(BASE, after)} == {DOCS}
    schemes["token"]["scheme"] = "basic"
    assert "security.narrowed" in {change.rule for change in compare(BASE, after)}


def test_a_path_may_call_its_parameter_otherwise_only_at_a_price() -> None:
    after = copy.deepcopy(BASE)
    item = after.openapi["paths"].pop("/v1/things/{thing_id}")
    item["parameters"][0]["name"] = "id"
    after.openapi["paths"]["/v1/things/{id}"] = item
    rules = {change.rule for change in compare(BASE, after) if change.level != DOCS}
    assert rules == {"parameter.removed", "parameter.added_required"}
