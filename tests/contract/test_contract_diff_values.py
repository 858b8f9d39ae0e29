"""What is called harmless is harmless: held against values, judged by a validator that knows nothing of the comparison.

Random pairs of schemas. When a value that the old one takes is refused by the new one, the change must be breaking in a
request; when the new one takes a value that the old one refuses, it must be breaking in a response, but for members
that were not there before.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import jsonschema_rs
import pytest

from tests.compatibility.contracts import compare
from tests.compatibility.report import BREAKING
from tests.contract.test_contract_diff import BASE, IN, OUT, edited, setting

ROUNDS, PAIRS = 4, 60
NAMES = ("a", "b", "c")
VALUES: list[Any] = [True, False, 0, 1, 2, 3, 1.5, "", "a", "b", "ab", "abc", "x1", [], [1], [1, 1], ["a", 2, 3], {},
                     {"a": 1}, {"a": "a"}, {"b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": "b", "c": True}, {"z": 1},
                     {"kind": "one"}, {"kind": "two"}, {"kind": "one", "a": 1}, {"a": {"b": 1}}, {"a": [1, 2]}]  # fmt: skip


def schema(choose: random.Random, depth: int = 2) -> dict[str, Any]:
    """A random schema of the kinds that contracts are made of."""
    kinds = ["string", "integer", "number", "boolean", "enum", "const"] + (
        ["array", "object", "map", "one", "all"] if depth else []
    )
    kind = choose.choice(kinds)
    made: dict[str, Any] = {"type": kind}
    if kind == "string":
        made |= choose.choice(
            [
                {},
                {"maxLength": choose.randrange(4)},
                {"minLength": choose.randrange(3)},
                {"pattern": choose.choice(["a", "^[a-z]*$"])},
            ]
        )
    elif kind in ("integer", "number"):
        made |= choose.choice(
            [{}, {"minimum": choose.randrange(3)}, {"maximum": choose.randrange(4)}, {"exclusiveMaximum": 2}]
        )
    elif kind == "enum":
        made = {"enum": choose.sample(["a", "b", "ab", 1, 2, True], choose.randrange(1, 4))}
    elif kind == "const":
        made = {"const": choose.choice(["a", 1, False])}
    elif kind == "array":
        made |= choose.choice(
            [{}, {"items": schema(choose, depth - 1)}, {"maxItems": choose.randrange(3)}, {"uniqueItems": True}]
        )
    elif kind == "object":
        members = choose.sample(NAMES, choose.randrange(4))
        made["properties"] = {name: schema(choose, depth - 1) for name in members}
        made["required"] = [name for name in members if choose.random() < 0.4]
        made |= choose.choice([{}, {"additionalProperties": False}, {"additionalProperties": False}])
    elif kind == "map":
        made = {"type": "object", "additionalProperties": schema(choose, depth - 1)}
        made |= choose.choice([{}, {"maxProperties": 1}, {"propertyNames": {"enum": ["a", "b"]}}])
    elif kind == "one":
        tags = choose.sample(["one", "two", "three"], 2)
        made = {"oneOf": [
            {"type": "object", "required": ["kind"], "properties": {"kind": {"const": tag}, "a": schema(choose, depth - 1)}} for tag in tags
        ]}  # fmt: skip
    elif kind == "all":
        made = {"allOf": [schema(choose, 0), schema(choose, 0)]}
    return made


def changed(choose: random.Random, node: dict[str, Any]) -> dict[str, Any]:
    """A copy with one keyword somewhere changed, or another schema altogether."""
    made = copy.deepcopy(node)
    places = [made]
    for place in places:
        inner = [*place.get("properties", {}).values(), *place.get("allOf", ()), *place.get("oneOf", ())]
        places += [
            item for item in (*inner, place.get("items"), place.get("additionalProperties")) if isinstance(item, dict)
        ]
    place = choose.choice(places)
    keyword = choose.choice([*place, "fresh"])
    if keyword == "fresh" or keyword in ("type", "properties", "oneOf", "allOf", "items"):
        other = schema(choose, 1)
        place.clear()
        place.update(other)
    elif isinstance(place[keyword], list) and len(place[keyword]) > 1:
        place[keyword] = place[keyword][1:]
    elif isinstance(place[keyword], int) and not isinstance(place[keyword], bool):
        place[keyword] += choose.choice([-1, 1]) if place[keyword] else 1
    else:
        del place[keyword]
    return made


def without_unknown(value: Any, node: dict[str, Any]) -> Any:
    """A value without the members that a schema does not declare: what a client reads of it."""
    if isinstance(value, dict) and "properties" in node:
        return {
            name: without_unknown(member, node["properties"][name])
            for name, member in value.items()
            if name in node["properties"]
        }
    if isinstance(value, list) and isinstance(node.get("items"), dict):
        return [without_unknown(item, node["items"]) for item in value]
    return value


def breaks(place: str, old: Any, new: Any) -> bool:
    before, after = (edited(f"{place}/properties", setting(x=node)) for node in (old, new))
    return any(change.level == BREAKING for change in compare(before, after))


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_what_is_called_harmless_is_harmless(round_: int) -> None:
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    for _ in range(PAIRS):
        old = schema(choose)
        new = changed(choose, old)
        takes, took = (jsonschema_rs.Draft202012Validator(node).is_valid for node in (new, old))
        refused = [value for value in VALUES if took(value) and not takes(value)]
        unheard = [
            value for value in VALUES if takes(value) and not took(value) and not took(without_unknown(value, old))
        ]
        told = json.dumps({"old": old, "new": new, "refused": refused, "unheard": unheard, "seed": seed})
        assert not refused or breaks(IN, old, new), told
        assert not unheard or breaks(OUT, old, new), told


def test_the_values_can_tell_schemas_apart() -> None:
    assert edited(f"{IN}/properties", setting(x={})) != BASE
    took = jsonschema_rs.Draft202012Validator({"type": "object", "required": ["a"]}).is_valid
    assert {took(value) for value in VALUES} == {True, False}
