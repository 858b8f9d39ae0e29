"""The fast validators judge like `jsonschema`, which reads the contract as it is written, for every named schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from generated.validators import DOCUMENT, checker
from tests.contract.instances import Harvest, broken

GENERATED = Path(__file__).parents[2] / "generated"
SERVED = {name: json.loads((GENERATED / f"{name}.json").read_bytes()) for name in ("openapi", "asyncapi")}
HARVEST = {name: Harvest(document) for name, document in SERVED.items()}
NAMED = {
    name: next(kind for kind in SERVED if name in SERVED[kind]["components"]["schemas"]) for name in DOCUMENT["schemas"]
}
REGISTRIES: dict[str, Registry[Any]] = {
    kind: Registry().with_resource("urn:contract", DRAFT202012.create_resource(served))
    for kind, served in SERVED.items()
}


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """Patterns of JSON Schema are those of ECMA-262, where `$` is the end; for Python it is also before a last newline."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


ORACLE = extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


def oracle_of(name: str) -> Any:
    """The slow, independent validator of a named schema."""
    schema = {"$ref": f"urn:contract#/components/schemas/{name}"}
    return ORACLE(schema, registry=REGISTRIES[NAMED[name]], format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("name", NAMED)
def test_both_validators_judge_alike(name: str) -> None:
    kind = NAMED[name]
    oracle, fast = oracle_of(name), checker(f"/schemas/{name}")
    schema = SERVED[kind]["components"]["schemas"][name]
    refused = 0
    for value in HARVEST[kind].of(name):
        assert [error.message for error in oracle.iter_errors(value)] == []
        assert fast(value) == []
        for mutant in broken(schema, value):
            valid = oracle.is_valid(mutant)
            refused += not valid
            assert fast.is_valid(mutant) == valid, str(mutant)[:300]
    assert refused, "nothing of it can be wrong"
