"""The style rules: each has a check, each check finds a contract that breaks its rule, and the page lists them all."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livebox.codegen.documents import at, load
from tests.checks import api_rules
from tests.checks.api.payloads import slow
from tests.checks.tree import Tree

ROOT = Path(__file__).parents[2]
TIDY = load(Path(__file__).parent / "tidy")
PAGE = (ROOT / "docs/api-rules.md").read_text(encoding="utf-8")

Edit = Callable[[Any], Any]
SCHEMAS, THINGS, THING = "/components/schemas", "/paths/~1v1~1things", "/paths/~1v1~1things~1{thing_id}"
MEMBERS = f"{SCHEMAS}/Thing/properties"
FRAMES = "gateway/components/messages"


def sets(**members: Any) -> Edit:
    return lambda place: place.update(members)


def drops(*names: str) -> Edit:
    return lambda place: [place.pop(name) for name in names]


def renames(old: str, new: str) -> Edit:
    """An object with a member called otherwise, in its place."""

    def edit(place: dict[str, Any]) -> None:
        whole = {new if name == old else name: value for name, value in place.items()}
        place.clear()
        place.update(whole)

    return edit


def removes(value: Any) -> Edit:
    return lambda place: place.remove(value)


def adds(value: Any) -> Edit:
    return lambda place: place.append(value)


STRING = {"type": "string", "maxLength": 9}
TEXT = {"content": {"text/plain": {"schema": STRING}}}
#: The number of a rule, and what breaks it: where, and how.
BREAKS: list[tuple[int, str, Edit]] = [
    (101, f"{THING}/get", sets(operationId="get_thing")),
    (101, f"{THING}/get", sets(operationId="deleteThing")),
    (102, "/paths", renames("/v1/things", "/v2/things")),
    (102, "/paths", renames("/v1/things", "/v1/big_things")),
    (103, "/paths", renames("/v1/things/{thing_id}", "/v1/thing/{thing_id}")),
    (103, "/paths", renames("/v1/things", "/v1/stuff")),
    (104, MEMBERS, renames("colour", "mainColour")),
    (104, "/components/parameters/Limit", sets(name="pageLimit")),
    (105, f"{THINGS}/post/parameters/0", sets(name="X_Key")),
    (106, f"{SCHEMAS}/Kind/enum", adds("LightRed")),
    (106, f"{SCHEMAS}/Circle/properties/kind", sets(const="round-one")),
    (107, "/components/headers", sets(other_header={"schema": STRING})),
    (107, SCHEMAS, sets(little_thing=STRING)),
    (108, f"{THINGS}/post/requestBody/content/application~1json/schema", sets(**{"$ref": "#/components/schemas/Thing"})),
    (109, MEMBERS, sets(owner_id=STRING)),
    (109, f"{MEMBERS}/other_ids", sets(items=STRING)),
    (110, MEMBERS, renames("made_at", "made")),
    (110, MEMBERS, sets(sold_at=STRING)),
    (111, MEMBERS, renames("duration_ms", "duration")),
    (201, f"{MEMBERS}/name", drops("maxLength")),
    (201, f"{SCHEMAS}/Kind", sets(maxLength=5)),
    (201, f"{MEMBERS}/name", lambda place: (place.pop("maxLength"), place.update(type=["string", "integer"], minimum=0, maximum=9))),
    (201, MEMBERS, sets(note={"allOf": [{"type": "string"}, {"minLength": 1}]})),
    (201, MEMBERS, sets(kind={"allOf": [{"$ref": "#/components/schemas/Money"}, {"properties": {"name": {"type": "string"}}}]})),
    (202, f"{MEMBERS}/tags", drops("maxItems")),
    (202, f"{MEMBERS}/tags", drops("items")),
    (202, f"{MEMBERS}/tags", lambda place: (place.pop("maxItems"), place.update(type=["array", "boolean"]))),
    (203, f"gateway{SCHEMAS}/AskFrame/properties", sets(size={"type": "integer"})),
    (203, f"{MEMBERS}/name", sets(type=["string", "integer"])),
    (203, f"{MEMBERS}/duration_ms", drops("minimum")),
    (203, f"{MEMBERS}/done_percent", drops("maximum")),
    (203, f"{MEMBERS}/duration_ms", sets(maximum=2**53)),
    (204, f"{SCHEMAS}/Cursor", sets(pattern="^([a-z]+)+$")),
    (204, f"{MEMBERS}/duration_ms", sets(pattern="^a$")),
    (205, f"{MEMBERS}/name", sets(nullable=True)),
    (205, f"{MEMBERS}/name", sets(type=["string", "null"])),
    (205, MEMBERS, sets(note={"description": "Whatever you like."})),
    (205, MEMBERS, sets(note=True)),
    (206, f"{MEMBERS}/shape", sets(discriminator={"propertyName": "kind"})),
    (206, f"{MEMBERS}/shape/oneOf", adds({"type": "boolean"})),
    (206, f"{MEMBERS}/shape/oneOf", adds({"$ref": "#/components/schemas/Circle"})),
    (207, f"{SCHEMAS}/Thing", drops("additionalProperties")),
    (207, f"{SCHEMAS}/Thing", sets(additionalProperties=True)),
    (207, MEMBERS, sets(note={"allOf": [{"type": "object"}, {"properties": {"name": STRING}}]})),
    (208, f"{MEMBERS}/words", drops("propertyNames")),
    (208, f"{MEMBERS}/words", drops("maxProperties")),
    (209, "/components/responses/Thing/content/application~1json", sets(schema=TIDY.openapi["components"]["schemas"]["Thing"])),
    (209, f"{FRAMES}/ask", sets(payload={"type": "boolean"})),
    (210, "/components/responses/Thing/content/application~1json", drops("examples")),
    (210, "/components/examples/Thing/value", sets(name="too long a name")),
    (210, "/components/parameters/Limit", drops("example")),
    (210, "/components/parameters/Limit", sets(example=10)),
    (210, f"{FRAMES}/ask", sets(examples=[])),
    (210, f"{FRAMES}/tell/examples/0/payload/thing", sets(name=5)),
    (211, f"{SCHEMAS}/Money/properties", sets(amount_micros={"type": "number", "minimum": 0, "maximum": 9})),
    (211, MEMBERS, sets(cost={"type": "integer", "minimum": 0, "maximum": 9})),
    (211, MEMBERS, renames("done_percent", "done")),
    (212, MEMBERS, sets(version={"type": "integer", "minimum": 0, "maximum": 9})),
    (301, f"{THING}/get", sets(summary="one thing.")),
    (301, f"{THING}/get", sets(tags=["others"])),
    (301, "/tags/0", sets(description="")),
    (302, "/components/parameters/Limit", drops("description")),
    (302, "/components/responses/Wrong", sets(description=" ")),
    (303, f"{THING}/get", sets(**{"x-kind": "write", "x-rate-class": "write"})),
    (303, f"{THING}/get", sets(**{"x-rate-class": "write"})),
    (304, f"{THINGS}/get", lambda place: place["parameters"].pop(0)),
    (304, f"{SCHEMAS}/ThingPage", sets(required=["items", "next_cursor"])),
    (305, f"{THINGS}/get/parameters",
     adds({"name": "offset", "in": "query", "description": "No.", "schema": STRING, "example": "a"})),
    (305, f"{SCHEMAS}/ThingPage/properties", sets(total={"type": "integer", "minimum": 0, "maximum": 9})),
    (306, f"{THING}/get", lambda place: place["responses"].pop("304")),
    (306, f"{THING}/get", drops("parameters")),
    (307, f"{THINGS}/post/responses/201",
     lambda place: (place.update(copy.deepcopy(TIDY.openapi["components"]["responses"]["Thing"])),
                    place.pop("$ref"), place["headers"].pop("ETag"))),
    (308, f"{THING}/delete", drops("parameters")),
    (309, f"{THINGS}/post", drops("parameters")),
    (309, f"{THINGS}/post", lambda place: (place["x-problem-codes"].remove("idempotency_key_reused"), place["responses"].pop("409"))),
    (310, f"{THINGS}/post/requestBody", sets(required=False)),
    (310, f"{THINGS}/post/requestBody/content", sets(**TEXT["content"])),
    (310, f"{THING}/delete/responses/204", sets(**TEXT)),
    (311, f"{THING}/delete/responses/204", drops("headers")),
    (401, f"{THING}/get/x-problem-codes", removes("validation_failed")),
    (401, f"{THING}/get/x-problem-codes", adds("not_found")),
    (402, "/components/responses/Wrong/content", sets(**TEXT["content"])),
    (402, "/components/responses/Wrong/content/application~1problem+json",
     sets(schema={"$ref": "#/components/schemas/ProblemCode"}, examples={"one": {"value": "not_found"}})),
    (403, f"{THING}/delete/responses", lambda place: place.update({"409": place["404"]})),
    (403, f"{THING}/get/responses", drops("404")),
    (404, "/components/responses/TooMany/headers", drops("Retry-After")),
    (404, "/components/responses/Unknown/headers", drops("WWW-Authenticate")),
    (405, f"{THINGS}/get/x-problem-codes", removes("cursor_invalid")),
    (405, f"{THINGS}/post/x-problem-codes", removes("invalid_json")),
    (405, f"{THING}/get/x-problem-codes", removes("token_expired")),
    (405, f"{THING}/get", lambda place: (place["x-problem-codes"].remove("not_found"), place["responses"].pop("404"))),
    (406, f"{SCHEMAS}/ProblemCode/enum", adds("more")),
    (406, "/x-problem-codes/not_found", sets(title="nothing here.")),
    (501, f"{FRAMES}/ask", sets(name="thing.other")),
    (501, f"gateway{SCHEMAS}/AskFrame", sets(required=[])),
    (502, f"gateway{SCHEMAS}/AskFrame", sets(required=["type", "id"])),
    (502, f"gateway{SCHEMAS}/TellFrame/properties", sets(id={"$ref": "#/components/schemas/FrameId"})),
    (503, f"{FRAMES}/ask", drops("title")),
    (503, f"{FRAMES}/ask", sets(summary="")),
    (504, "gateway/x-close-codes", renames("4001", "3001")),
    (504, "gateway/x-close-codes/4500", sets(reconnect=True)),
    (504, "gateway/x-close-codes/4500", sets(meaning="wrong")),
    (505, "gateway/operations", drops("sendTell")),
    (505, "gateway/operations", renames("sendTell", "tell")),
    (506, f"gateway{SCHEMAS}", sets(Kind=STRING)),
]  # fmt: skip
#: What else is broken by the same edit: the rules cannot be broken one without the other there.
ALSO = {(105, 309), (401, 403), (108, 209), (209, 501), (209, 502), (401, 405)}


def broken(pointer: str, edit: Edit) -> set[int]:
    made = copy.deepcopy(TIDY)
    gateway = pointer.startswith("gateway")
    edit(at(made.asyncapi if gateway else made.openapi, pointer.removeprefix("gateway")))
    return {number for number, _, _ in api_rules.broken(made)}


def test_the_tidy_contract_keeps_every_rule() -> None:
    assert list(api_rules.broken(TIDY)) == []


@pytest.mark.parametrize(
    ("number", "pointer", "edit"), BREAKS, ids=[f"{entry[0]} {index}" for index, entry in enumerate(BREAKS)]
)
def test_a_broken_rule_is_found(number: int, pointer: str, edit: Edit) -> None:
    found = broken(pointer, edit)
    assert number in found
    assert {(number, other) for other in found - {number, 210}} <= ALSO  # an example may break with the rule


def test_each_rule_is_broken_by_a_test_and_stands_on_the_page() -> None:
    on_the_page = [int(number) for number in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)]
    assert on_the_page == sorted(set(on_the_page)) == sorted(api_rules.RULES)
    assert {number for number, *_ in BREAKS} == set(api_rules.RULES)


def test_a_part_may_leave_limits_to_the_others() -> None:
    whole = {"type": "object", "additionalProperties": False, "properties": {"name": STRING, "kind": STRING}}
    narrow = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}}
    named = {"allOf": [{"$ref": "#/components/schemas/Whole"}, narrow]}
    made = copy.deepcopy(TIDY)
    made.openapi["components"]["schemas"].update(Whole=whole, Named=named)
    assert list(api_rules.broken(made)) == []


def test_the_contract_keeps_the_rules() -> None:
    assert list(api_rules.problems(Tree(ROOT))) == []


def test_an_exception_must_be_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_rules, "EXCEPTIONS", {(101, "openapi.yaml#/paths/~1v1~1things"): "not needed"})
    (problem,) = api_rules.problems(Tree(Path(__file__).parent / "tidy"))
    assert problem.endswith("rule 101 needs no exception at openapi.yaml#/paths/~1v1~1things")


def test_what_is_not_excepted_is_a_finding_with_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_rules, "EXCEPTIONS", {})
    problems = list(api_rules.problems(Tree(ROOT)))
    assert any(problem.startswith("openapi.yaml:1: rule 102: /paths/~1metrics/get: ") for problem in problems)


@pytest.mark.parametrize(
    "pattern", ["^(a*)*$", "a+a+", "^(a|b+)+$", "(?=a)b", r"(a)\1", "^(a{1,5000})+$", "(", "(?<!a)b", "^a*b*$"]
)
def test_a_pattern_that_may_be_slow_is_refused(pattern: str) -> None:
    assert slow(pattern)


@pytest.mark.parametrize(
    "pattern", ["^[a-z]+$", "^a{1,64}$", "^[ ]*[^ ][^b]*$", "^(a|b)+$", "[^ ]", '^"[0-9]{1,16}"$', "^([a-z]{2}-)*x$"]
)
def test_a_pattern_in_linear_time_is_taken(pattern: str) -> None:
    assert not slow(pattern)
