"""Rules 1xx: what things are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from livebox.codegen.documents import ASYNCAPI, OPENAPI
from tests.checks.api.contract import Contract, Finding, rule

SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
DOTTED = re.compile(r"[a-z][a-z0-9]*([_.][a-z0-9]+)*")
PASCAL = re.compile(r"([A-Z][A-Za-z0-9]*)")
HEADER = re.compile(r"[A-Z][a-z]+(-[A-Z][a-z]+)*")
REGISTERED = {"ETag", "WWW-Authenticate"}
"""Headers that others have named."""
TIMES = re.compile(r"at|deadline|.*_(at|since|as_of)")
AMOUNT = re.compile(r"(.*_)?(duration|interval|timeout|delay|age|wait)(_.*)?")
UNITS = ("_ms", "_s", "_at")


@rule(101)
def operation_ids(contract: Contract) -> Iterator[Finding]:
    seen: set[str] = set()
    for operation in contract.operations:
        if not re.fullmatch(r"[a-z]+([A-Z][a-z0-9]*)+", operation.id):
            yield operation.pointer, f"operationId {operation.id!r} is not a verb and a noun in camelCase"
        if operation.id in seen:
            yield operation.pointer, f"operationId {operation.id} is there twice"
        seen.add(operation.id)


@rule(102)
def paths(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        segments = operation.path.split("/")[1:]
        if segments[0] != "v1":
            yield operation.pointer, "the path does not begin with /v1/"
        for segment in segments:
            if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*|\{[a-z]+(_[a-z]+)*\}", segment):
                yield operation.pointer, f"{segment!r} is not in lower case with hyphens"


@rule(103)
def plurals(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        segments = operation.path.split("/")
        for name, below in pairwise(segments):
            if below.startswith("{") and not name.endswith("s"):
                yield operation.pointer, f"{name!r} holds several and is no plural"
        if operation.id.startswith("list") and not segments[-1].endswith("s"):
            yield operation.pointer, f"{segments[-1]!r} is a list and no plural"


@rule(104)
def members(contract: Contract) -> Iterator[Finding]:
    for pointer, name, _ in contract.members:
        if not SNAKE.fullmatch(name):
            yield pointer, f"the member {name!r} is not in snake_case"
    for operation in contract.operations:
        for parameter in operation.parameters:
            if parameter.raw["in"] != "header" and not SNAKE.fullmatch(parameter.name):
                yield parameter.pointer, f"the parameter {parameter.name!r} is not in snake_case"


@rule(105)
def headers(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        names = [
            (parameter.pointer, parameter.name) for parameter in operation.parameters if parameter.raw["in"] == "header"
        ]
        for pointer, _, response in contract.responses(operation):
            names += [(f"{pointer}/headers/{name}", name) for name in response.get("headers", {})]
        for pointer, name in names:
            if name not in REGISTERED and not HEADER.fullmatch(name):
                yield pointer, f"the header {name!r} is not written Like-This"


@rule(106)
def values(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        for value in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]:
            if isinstance(value, str) and not DOTTED.fullmatch(value):
                yield pointer, f"the value {value!r} is not in snake_case"


@rule(107)
def components(contract: Contract) -> Iterator[Finding]:
    for section in ("schemas", "parameters", "responses", "headers", "examples"):
        for file, document in ((OPENAPI, contract.rest), (ASYNCAPI, contract.gateway)):
            for name in document.get("components", {}).get(section, {}):
                if not PASCAL.fullmatch(name):
                    yield f"{file}#/components/{section}/{name}", f"{name!r} is not in PascalCase"


@rule(108)
def bodies(contract: Contract) -> Iterator[Finding]:
    for pointer, _, part, content in contract.contents:
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if (part == "body") != name.endswith("Request") and name:
            yield pointer, f"{name} is the {part}; what ends with Request is a body, and a body ends so"


@rule(109)
def identities(contract: Contract) -> Iterator[Finding]:
    schemas = contract.rest["components"]["schemas"]
    wanted = [schemas[name]["pattern"] for name in ("Id", "Uuid") if name in schemas]
    for pointer, name, schema in contract.members:
        several = name.endswith("_ids")
        if name == "id" and pointer.startswith(ASYNCAPI):
            continue  # a frame's own, which its sender chooses
        if name != "id" and not name.endswith("_id") and not several:
            continue
        one = contract.whole(schema.get("items", {}), pointer.partition("#")[0]) if several else schema
        if one.get("pattern") not in wanted:
            yield pointer, f"{name} is called like an id and is neither Id nor Uuid"


@rule(110)
def times(contract: Contract) -> Iterator[Finding]:
    for pointer, name, schema in contract.members:
        is_time = schema.get("format") == "date-time"
        if bool(TIMES.fullmatch(name)) != is_time:
            yield pointer, f"{name} is {'a time and not called so' if is_time else 'called like a time and is none'}"


@rule(111)
def units(contract: Contract) -> Iterator[Finding]:
    for pointer, name, schema in contract.members:
        numeric = schema.get("type") in ("integer", "number")
        if numeric and AMOUNT.fullmatch(name) and not name.endswith(UNITS):
            yield pointer, f"{name} does not say its unit"
