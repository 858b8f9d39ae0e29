"""The contract itself, changed in one place at random: judged as the table says for whoever uses that place."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from livebox.codegen.documents import ASYNCAPI, OPENAPI, Documents, is_reference, load, resolve, walk
from tests.compatibility.contracts import compare
from tests.compatibility.report import ADDITIVE, BREAKING, DOCS, LEVELS, REQUEST, RESPONSE, worst

DOCUMENTS = load(Path(__file__).parents[2])
SAMPLES = 2  # a kind of change and run; the places differ from run to run


class Mutation(NamedTuple):
    """A change of a schema: where it can be made, how, and what it means in either direction."""

    name: str
    fits: Callable[[dict[str, Any]], bool]
    change: Callable[[dict[str, Any]], Any]
    request: str
    response: str


def _drop(schema: dict[str, Any], name: str) -> None:
    schema["properties"].pop(name)
    schema["required"] = [other for other in schema.get("required", []) if other != name]


def _closed(schema: dict[str, Any]) -> bool:
    return schema.get("additionalProperties") is False and bool(schema.get("properties"))


def _free(schema: dict[str, Any]) -> bool:
    return "enum" not in schema and "const" not in schema


MUTATIONS = [
    Mutation("a member less", _closed, lambda s: _drop(s, next(iter(s["properties"]))), BREAKING, BREAKING),
    Mutation("a member more", _closed, lambda s: s["properties"].update(brand_new={"type": "boolean"}), ADDITIVE, ADDITIVE),
    Mutation("a member more that must be there", _closed,
             lambda s: (s["properties"].update(brand_new={"type": "boolean"}), s.setdefault("required", []).append("brand_new")),
             BREAKING, ADDITIVE),
    Mutation("a member that need not be there", lambda s: _closed(s) and bool(s.get("required")),
             lambda s: s["required"].pop(), ADDITIVE, BREAKING),
    Mutation("a value more", lambda s: "enum" in s and "type" in s, lambda s: s["enum"].append("brand_new"), ADDITIVE, BREAKING),
    Mutation("a value less", lambda s: len(s.get("enum", ())) > 1, lambda s: s["enum"].pop(), BREAKING, BREAKING),
    Mutation("a longer text", lambda s: "maxLength" in s and _free(s), lambda s: s.update(maxLength=s["maxLength"] + 1),
             ADDITIVE, BREAKING),
    Mutation("a shorter text", lambda s: s.get("maxLength", 0) > 1 and _free(s), lambda s: s.update(maxLength=s["maxLength"] - 1),
             BREAKING, ADDITIVE),
    Mutation("a smaller number", lambda s: "maximum" in s, lambda s: s.update(maximum=s["maximum"] - 1), BREAKING, ADDITIVE),
    Mutation("a longer list", lambda s: "maxItems" in s, lambda s: s.update(maxItems=s["maxItems"] + 1), ADDITIVE, BREAKING),
    Mutation("another pattern", lambda s: "pattern" in s, lambda s: s.update(pattern="^x$"), BREAKING, BREAKING),
    Mutation("no pattern", lambda s: "pattern" in s and "x-error-code" not in s, lambda s: s.pop("pattern"), ADDITIVE, BREAKING),
    Mutation("another type", lambda s: s.get("type") == "integer", lambda s: s.update(type="boolean"), BREAKING, BREAKING),
    Mutation("words", lambda s: True, lambda s: s.update(description="In other words."), DOCS, DOCS),
]  # fmt: skip

Place = tuple[str, str]


def _used() -> dict[Place, set[str]]:
    """Every named schema with the directions in which it goes, by following references and nothing else."""
    used: dict[Place, set[str]] = {}

    def follow(file: str, node: Any, direction: str) -> None:
        for _, value in walk(node):
            if not is_reference(value):
                continue
            name, target = resolve(DOCUMENTS, file, value["$ref"])
            key = name, value["$ref"].partition("#")[2]
            if direction not in used.setdefault(key, set()):
                used[key].add(direction)
                follow(name, target, direction)

    for item in DOCUMENTS.openapi["paths"].values():
        for method, operation in item.items():
            if method == "parameters":
                follow(OPENAPI, operation, REQUEST)
                continue
            follow(OPENAPI, [operation.get("parameters", []), operation.get("requestBody", {})], REQUEST)
            follow(OPENAPI, operation["responses"], RESPONSE)
    for operation in DOCUMENTS.asyncapi["operations"].values():
        follow(ASYNCAPI, operation["messages"], REQUEST if operation["action"] == "receive" else RESPONSE)
    return {place: directions for place, directions in used.items() if place[1].startswith("/components/schemas/")}


def _sites() -> list[tuple[Place, set[str]]]:
    """Where a mutation can be made: named schemas, and the schemas of their members that have no name."""
    sites = []
    for (file, pointer), directions in _used().items():
        schema = resolve(DOCUMENTS, file, f"#{pointer}")[1]
        sites.append(((file, pointer), directions))
        members = schema.get("properties", {}).items()
        sites += [
            ((file, f"{pointer}/properties/{name}"), directions) for name, member in members if "$ref" not in member
        ]
    # The list of codes is judged per operation, and of the envelope more is said in each event.
    others = ("/components/schemas/ProblemCode", "/components/schemas/EventEnvelope")
    return [site for site in sites if not site[0][1].startswith(others)]


SITES = _sites()


def _mutated(place: Place, change: Callable[[dict[str, Any]], Any]) -> Documents:
    made = copy.deepcopy(DOCUMENTS)
    change(resolve(made, place[0], f"#{place[1]}")[1])
    return made


def _expected(mutation: Mutation, directions: set[str]) -> str:
    levels = {mutation.request if direction == REQUEST else mutation.response for direction in directions}
    return next(level for level in LEVELS if level in levels)


def _chosen(mutation: Mutation, seed: int) -> Iterator[tuple[Place, set[str]]]:
    fitting = [(place, used) for place, used in SITES if mutation.fits(resolve(DOCUMENTS, place[0], f"#{place[1]}")[1])]
    assert fitting, mutation.name
    yield from random.Random(seed).sample(fitting, min(SAMPLES, len(fitting)))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_change_at_random_is_judged_as_the_table_says(mutation: Mutation) -> None:
    seed = random.randrange(2**32)
    for place, directions in _chosen(mutation, seed):
        changes = compare(DOCUMENTS, _mutated(place, mutation.change))
        where = f"{mutation.name} at {place}, used for {directions}, seed {seed}: {changes[:3]}"
        assert worst(changes) == _expected(mutation, directions), where
        assert any(change.pointer.startswith("#".join(place)) for change in changes), where


def test_equal_contracts_differ_in_nothing() -> None:
    assert compare(DOCUMENTS, copy.deepcopy(DOCUMENTS)) == []


def test_no_change_of_any_place_goes_unseen() -> None:
    """Whatever is taken away, however far from any schema, is told at least as another wording."""
    choose = random.Random(seed := random.randrange(2**32))
    leaves = [
        (file, pointer)
        for file in (OPENAPI, ASYNCAPI)
        for pointer, value in walk(DOCUMENTS.named(file))
        if isinstance(value, str)
        and pointer.rpartition("/")[2] in ("description", "summary", "title", "pattern", "meaning")
    ]
    for file, pointer in choose.sample(leaves, 4):
        parent, _, key = pointer.rpartition("/")
        made = _mutated((file, parent), lambda node, key=key: node.pop(key))
        assert compare(DOCUMENTS, made), f"{file} {pointer}, seed {seed}"
