"""A corpus of requests from the contract: for each operation a valid one, and each constraint broken once.

Nothing here knows an operation by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from tests.contract.parity_values import DOCUMENT, NO_NULL, broken, node, oracle, put, step, whole

METHODS: Final = ("get", "put", "post", "delete", "patch")
JSON: Final = "application/json"

#: (type, text) of broken values that a parameter may well have.
_RIGHT: Final = {("integer", "7"), ("number", "7"), ("boolean", "true")}


class Case(NamedTuple):
    """One request. `rule` is the pointer of the constraint that it breaks, or says what else is wrong with it."""

    name: str
    rule: str
    valid: bool
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None


class Parameter(NamedTuple):
    """One parameter of an operation."""

    name: str
    place: str
    required: bool
    schema: str
    example: Any


class Operation:
    """One operation, and how to ask for it."""

    def __init__(self, path: str, method: str) -> None:
        self.pointer = step("/paths", path, method)
        raw = node(self.pointer)[1]
        self.id: str = raw["operationId"]
        self.method = method.upper()
        self.path = path
        security = raw.get("security", DOCUMENT["security"])
        self.schemes = {name for requirement in security for name in requirement}
        self.public = not security or not all(security)  # in one way to come in at least nothing is needed
        self.held = bool(security) and all("invocation" in requirement for requirement in security)
        self.parameters = list(self._parameters(path, raw))
        self.body = ""
        self.body_required = False
        if "requestBody" in raw:
            pointer, body = node(step(self.pointer, "requestBody"))
            assert list(body["content"]) == [JSON], f"{self.id} takes more than JSON"
            self.body, self.body_required = step(pointer, "content", JSON, "schema"), body.get("required", False)

    def _parameters(self, path: str, raw: dict[str, Any]) -> Iterator[Parameter]:
        for holder, items in ((step("/paths", path), node(step("/paths", path))[1]), (self.pointer, raw)):
            for index, _ in enumerate(items.get("parameters", [])):
                pointer, found = node(step(holder, "parameters", index))
                yield Parameter(
                    found["name"], found["in"], found.get("required", False), step(pointer, "schema"), found["example"]
                )

    def case(
        self,
        what: str,
        rule: str = "",
        *,
        values: dict[str, str] | None = None,
        more: str = "",
        drop: str = "",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Case:
        """A request that is valid but for what is said; without `rule` it is valid."""
        given = {p.name: in_text(p.example) for p in self.parameters} | (values or {})
        given.pop(drop, None)
        target = self.path
        for p in self.parameters:
            if p.place == "path":
                target = target.replace(f"{{{p.name}}}", quote(given[p.name], safe=""))
        query = urlencode({p.name: given[p.name] for p in self.parameters if p.place == "query" and p.name in given})
        query = "&".join(part for part in (query, more) if part)
        sent = {p.name: given[p.name] for p in self.parameters if p.place == "header" and p.name in given}
        if "bearer" in self.schemes:
            sent["Authorization"] = "Bearer token"
        if "invocation" in self.schemes:
            sent["Livebox-Invocation"] = "token"
        if body is None and self.body and drop != "body":
            body = json.dumps(self._bases()[0]).encode()
        if body is not None:
            sent["Content-Type"] = JSON
        sent |= headers or {}
        sent = {name: value for name, value in sent.items() if name != drop}
        return Case(
            f"{self.id} {what}", rule, not rule, self.method, f"{target}?{query}" if query else target, sent, body
        )

    def cases(self) -> Iterator[Case]:
        """The valid requests and each constraint broken once."""
        yield self.case("everything")
        for p in self.parameters:
            if not p.required:
                yield self.case(f"without {p.name}", drop=p.name)
            yield from self._broken_parameter(p)
        yield self.case("unknown parameter", "unknown parameter", more="zz_unknown=1")
        if self.schemes and not self.public:
            yield self.case("no token", "no token", drop="Authorization")
        if self.held:
            yield self.case("no invocation token", "no token", drop="Livebox-Invocation")
        yield from self._bodies() if self.body else [self.case("a body", "a body where none is taken", body=b"{}")]

    def _broken_parameter(self, p: Parameter) -> Iterator[Case]:
        if p.required and p.place != "path":
            yield self.case(f"without {p.name}", f"{p.place} required", drop=p.name)
        if p.place == "query":
            text = urlencode({p.name: in_text(p.example)})
            yield self.case(f"{p.name} twice", "repeated parameter", more=text)
        for _, rule, wrong in broken(p.schema, p.example):
            kind = node(p.schema)[1]["type"]
            text = in_text(wrong)
            if rule.endswith("/type") and (kind == "string" or (kind, text) in _RIGHT):
                continue  # as a text it is right
            if p.place == "path" and (not text or "/" in text):
                continue  # another path
            if p.place == "header" and (not text.isprintable() or text != text.strip() or not text.isascii()):
                continue  # no header
            yield self.case(f"{p.name}={text[:20]!r}", rule, values={p.name: text})

    def _bases(self) -> list[Any]:
        """A body with everything, and one of each branch; what the contract's example shows is as it is there."""
        pointer, schema = node(self.body)
        bases = [whole(pointer)]
        for key in ("oneOf", "anyOf"):
            bases += [whole(step(pointer, key, index)) for index, _ in enumerate(schema.get(key, []))][1:]
        shown = [example["value"] for example in node(self.body.rpartition("/")[0])[1]["examples"].values()]
        for example in reversed(shown):
            fuller = [{**base, **example} for base in bases]
            bases = [full if oracle(pointer).is_valid(full) else base for base, full in zip(bases, fuller, strict=True)]
        return bases

    def _bodies(self) -> Iterator[Case]:
        pointer, schema = node(self.body)
        bases = self._bases()
        for base in bases:
            assert oracle(self.body).is_valid(base), f"{self.id}: {base} was made to be valid"
            yield self.case(f"body {json.dumps(base)[:60]}", body=json.dumps(base).encode())
        least = {name: bases[0][name] for name in schema.get("required", [])}
        if oracle(self.body).is_valid(least):
            yield self.case("body least", body=json.dumps(least).encode())
        yield self.case("body null", NO_NULL, body=b"null")
        yield self.case("body unreadable", "no JSON", body=b'{"a":')
        if bases[0]:
            yield self.case("body twice", "a member twice", body=_twice(bases[0]))
        if self.body_required:
            yield self.case("no body", "no body", drop="body")
        else:
            yield self.case("no body", drop="body")
        yield self.case("body text/plain", "other media type", headers={"Content-Type": "text/plain"})
        yield self.case("body untyped", "no media type", drop="Content-Type")
        yield from self._broken_bodies(pointer, bases)

    def _broken_bodies(self, pointer: str, bases: list[Any]) -> Iterator[Case]:
        for path, rule, wrong in broken(pointer, bases[0]):
            for base in bases:
                try:
                    value = put(base, path, wrong)
                except (KeyError, IndexError, TypeError):
                    continue  # of another branch
                if oracle(pointer).is_valid(value) and not rule.endswith(NO_NULL):
                    continue  # the other branch takes it
                where = step("", *path)
                yield self.case(
                    f"{where} {rule.rpartition('/')[2]} {json.dumps(wrong)[:24]}", rule, body=json.dumps(value).encode()
                )
                break
            else:
                raise AssertionError(f"{self.id} {path}: {wrong!r} does not break {rule}")


def _twice(value: Any) -> bytes:
    text = json.dumps(value)
    name = next(iter(value))
    return f"{text[:-1]}, {json.dumps(name)}: {json.dumps(value[name])}}}".encode()


def in_text(value: Any) -> str:
    """A value as a parameter has it."""
    return value if isinstance(value, str) else json.dumps(value)


def operations() -> list[Operation]:
    """Every operation of the contract."""
    return [Operation(path, method) for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item]


def corpus() -> list[Case]:
    """All requests; each name once."""
    found: dict[str, Case] = {}
    for operation in operations():
        for case in operation.cases():
            name = case.name
            while name in found:
                name += "'"
            found[name] = case._replace(name=name)
    return list(found.values())
