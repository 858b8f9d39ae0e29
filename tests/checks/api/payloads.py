"""Rules 2xx: what is sent, and its limits."""

from __future__ import annotations

import json
import re
import re._constants as opcodes  # the only parser of patterns that comes with Python
import re._parser as parser
from collections.abc import Iterator
from typing import Any

import jsonschema
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from livebox.codegen.documents import ASYNCAPI, OPENAPI, at, escape, is_reference, resolve
from tests.checks.api.contract import Contract, Finding, rule

LARGEST = 2**53 - 1
REPEATS = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT)
SAYS_WHAT = {"type", "$ref", "const", "enum", "oneOf", "anyOf", "allOf"}
PARTS = re.compile(r"/(allOf|anyOf|oneOf)/\d+$|/(propertyNames|if|then|else|contains)$|/(if|then|else)/")
"""Where a schema stands that may leave to others what it is about."""
MANY = 1000
"""A repetition that may go on longer than this counts as endless."""


def _refines(contract: Contract, pointer: str, *keywords: str) -> bool:
    """Whether a schema only narrows what another part of an `allOf` says at the same place, with one of `keywords`."""
    file, _, path = pointer.partition("#")
    parts = path.split("/allOf/")
    for depth in range(1, len(parts)):
        holder = at(contract.documents.named(file), "/allOf/".join(parts[:depth]))
        index, *tokens = "/allOf/".join(parts[depth:]).split("/")
        others = [part for place, part in enumerate(holder["allOf"]) if place != int(index)]
        beside = {key: value for key, value in holder.items() if key != "allOf"}
        if any(_says(contract, file, part, tokens, keywords) for part in (*others, beside)):
            return True
    return False


def _says(contract: Contract, file: str, schema: Any, tokens: list[str], keywords: tuple[str, ...]) -> bool:
    """Whether a schema says one of `keywords` below `tokens`, itself or by what it refers to and consists of."""
    if not isinstance(schema, dict):
        return False
    if is_reference(schema):
        name, target = resolve(contract.documents, file, schema["$ref"])
        if _says(contract, name, target, tokens, keywords):
            return True
    if any(_says(contract, file, part, tokens, keywords) for part in schema.get("allOf", ())):
        return True
    if not tokens:
        return any(keyword in schema for keyword in keywords)
    token = tokens[0].replace("~1", "/").replace("~0", "~")
    return token in schema and _says(contract, file, schema[token], tokens[1:], keywords)


def _may_be(schema: dict[str, Any], *names: str) -> bool:
    """Whether values of one of these types are taken by name."""
    types = schema.get("type", ())
    return not set(names).isdisjoint([types] if isinstance(types, str) else types)


@rule(201)
def strings(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if _may_be(schema, "string") and "maxLength" not in schema and not _refines(contract, pointer, "maxLength"):
            yield pointer, "a string without maxLength"
        for value in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]:
            if len(str(value)) > schema.get("maxLength", LARGEST):
                yield pointer, f"the value {value!r} is longer than maxLength"


@rule(202)
def arrays(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if _may_be(schema, "array") and not {"maxItems", "items"} <= schema.keys():
            yield pointer, "an array without maxItems or items"


@rule(203)
def numbers(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if not _may_be(schema, "integer", "number"):
            continue
        low, high = (schema.get(name, schema.get(f"exclusive{name.title()}")) for name in ("minimum", "maximum"))
        if low is None or high is None:
            yield pointer, "a number without minimum or maximum"
        elif not -LARGEST <= low <= high <= LARGEST:
            yield pointer, "a number whose bounds are not within 2^53-1, or the wrong way round"


@rule(204)
def patterns(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if "pattern" not in schema:
            continue
        if "maxLength" not in schema:
            yield pointer, "a pattern without maxLength"
        if why := slow(schema["pattern"]):
            yield pointer, f"the pattern {why}"


def slow(pattern: str) -> str:
    """Why a pattern may take more than linear time in some engine, or what else is wrong with it; empty for a good one."""
    try:
        parsed = parser.parse(pattern)
    except re.error as error:
        return f"cannot be read: {error}"
    return _slow(parsed, within=False)


def _slow(items: Any, *, within: bool) -> str:
    before = False
    for operator, value in items:
        endless = operator in REPEATS and value[1] > MANY
        if operator in (opcodes.GROUPREF, opcodes.GROUPREF_EXISTS, opcodes.ASSERT, opcodes.ASSERT_NOT):
            return "looks around or back"
        if endless and (within or before):
            return "has a repetition in or directly after another"
        before = endless
        for part in _parts(operator, value):
            if why := _slow(part, within=within or endless):
                return why
    return ""


def _parts(operator: Any, value: Any) -> list[Any]:
    if operator in REPEATS:
        return [value[2]]
    if operator is opcodes.SUBPATTERN:
        return [value[3]]
    return value[1] if operator is opcodes.BRANCH else []


@rule(205)
def nulls(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if "nullable" in schema or _may_be(schema, "null"):
            yield pointer, "allows null; leave the member out instead"
        elif SAYS_WHAT.isdisjoint(schema) and not PARTS.search(pointer):
            yield pointer, "says not what it is, so it allows null and everything else"
        for name, member in schema.get("properties", {}).items():
            if not isinstance(member, dict):
                yield (
                    f"{pointer}/properties/{escape(name)}",
                    "says not what it is, so it allows null and everything else",
                )


@rule(206)
def alternatives(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if "discriminator" in schema:
            yield pointer, "a discriminator; give each variant a member with a const"
        for keyword in ("oneOf", "anyOf"):
            tags = []
            for variant in schema.get(keyword, ()):
                if not is_reference(variant):
                    yield f"{pointer}/{keyword}", "a variant without a name"
                tags.append(_tag(contract, contract.whole(variant, pointer.partition("#")[0])))
            if len(set(tags)) != len(tags):
                yield f"{pointer}/{keyword}", "two variants that nothing tells apart"


def _tag(contract: Contract, schema: dict[str, Any]) -> str:
    """What tells a variant from others: its type, the constants of its members or its values, and what must be there."""
    parts = [schema, *(contract.whole(part) for part in schema.get("allOf", ()))]
    constants = [
        (name, member["const"])
        for part in parts
        for name, member in part.get("properties", {}).items()
        if "const" in member
    ]
    required = () if constants else sorted(schema.get("required", ()))
    return repr((schema.get("type", "object"), schema.get("enum"), sorted(constants), required))


@rule(207)
def objects(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        closing = ("additionalProperties", "unevaluatedProperties")
        closed = any(keyword in schema for keyword in closing)
        if _may_be(schema, "object") and not closed and not _refines(contract, pointer, *closing):
            yield pointer, "an object that takes whatever comes"
        if schema.get("additionalProperties") is True:
            yield pointer, "an object that takes whatever comes"


@rule(208)
def maps(contract: Contract) -> Iterator[Finding]:
    for pointer, schema in contract.schemas:
        if (
            isinstance(schema.get("additionalProperties"), dict)
            and not {"propertyNames", "maxProperties"} <= schema.keys()
        ):
            yield pointer, "a map without propertyNames or maxProperties"


@rule(209)
def payloads(contract: Contract) -> Iterator[Finding]:
    for pointer, _, _, content in contract.contents:
        if not is_reference(content.get("schema")):
            yield f"{pointer}/schema", "a payload without a name"
    for pointer, _, message, _ in contract.frames:
        if not is_reference(message["payload"]):
            yield f"{pointer}/payload", "a payload without a name"


@rule(210)
def examples(contract: Contract) -> Iterator[Finding]:
    registry: Registry[Any] = Registry().with_resources(
        [
            (f"file:///{file}", DRAFT202012.create_resource(contract.documents.named(file)))
            for file in (OPENAPI, ASYNCAPI)
        ]
    )

    def wrong(pointer: str, schema: Any, value: Any, file: str = OPENAPI) -> Iterator[Finding]:
        absolute = json.loads(json.dumps(schema).replace('"$ref": "#/', f'"$ref": "{file}#/'))
        absolute = {"$id": "file:///used", "allOf": [absolute]}  # so that names of files are found beside it
        validator = jsonschema.Draft202012Validator(
            absolute, registry=registry, format_checker=jsonschema.FormatChecker()
        )
        for error in validator.iter_errors(value):
            yield pointer, f"an example is not valid: {error.message[:120]}"

    for pointer, _, _, content in contract.contents:
        if not content.get("examples"):
            yield pointer, "has no example"
        for example in content.get("examples", {}).values():
            yield from wrong(pointer, content["schema"], contract.follow(example)["value"])
    for operation in contract.operations:
        for parameter in operation.parameters:
            if "example" not in parameter.raw:
                yield parameter.pointer, "has no example"
            else:
                yield from wrong(parameter.pointer, parameter.raw["schema"], parameter.raw["example"])
    for pointer, _, message, _ in contract.frames:
        if not message.get("examples"):
            yield pointer, "has no example"
        for example in message.get("examples", ()):
            yield from wrong(pointer, message["payload"], example["payload"], ASYNCAPI)


@rule(211)
def money(contract: Contract) -> Iterator[Finding]:
    for pointer, name, schema in contract.members:
        if name.endswith("_micros") and schema.get("type") != "integer":
            yield pointer, "money that is no integer"
        if re.fullmatch(r"(.*_)?(cost|price|amount|spend)", name) and "amount_micros" not in schema.get(
            "properties", {}
        ):
            yield pointer, "money that is not Money"
        if schema.get("type") == "number" and name != "progress" and not name.endswith(("_percent", "_ratio")):
            yield pointer, "a number that is no integer and neither a percentage nor a share"


@rule(212)
def versions(contract: Contract) -> Iterator[Finding]:
    version = contract.rest["components"]["schemas"].get("Version", {})
    for pointer, name, schema in contract.members:
        if name == "version" and any(schema.get(key) != version.get(key) for key in ("type", "minimum", "maximum")):
            yield pointer, "a version that is not Version"
