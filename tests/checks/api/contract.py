"""The contract as the rules look at it, and the list that the rules are on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from livebox.codegen.contract import METHODS
from livebox.codegen.documents import ASYNCAPI, OPENAPI, Documents, escape, is_reference, resolve, walk

Finding = tuple[str, str]
"""Where (`openapi.yaml#/...`) and what is wrong there."""
Check = Callable[["Contract"], Iterator[Finding]]

RULES: dict[int, Check] = {}
"""By number, as in docs/api-rules.md."""


def rule(number: int) -> Callable[[Check], Check]:
    """Put a check on the list under the number of its rule."""

    def listed(check: Check) -> Check:
        assert number not in RULES, number
        RULES[number] = check
        return check

    return listed


@dataclass(frozen=True)
class Parameter:
    """A parameter where an operation or a path lists it."""

    pointer: str
    raw: dict[str, Any]
    """The parameter itself, references followed."""
    component: str
    """Its name in the components; empty where it has none."""

    @property
    def name(self) -> str:
        return str(self.raw["name"])


@dataclass(frozen=True)
class Operation:
    """An operation and where it stands."""

    pointer: str
    path: str
    method: str
    raw: dict[str, Any]
    parameters: tuple[Parameter, ...]

    @property
    def id(self) -> str:
        return str(self.raw.get("operationId", ""))

    @property
    def codes(self) -> list[str]:
        return list(self.raw.get("x-problem-codes", ()))

    def takes(self, name: str) -> bool:
        """Whether it has a parameter of this name."""
        return any(parameter.name == name for parameter in self.parameters)


class Contract:
    """Both documents."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.rest = documents.openapi
        self.gateway = documents.asyncapi

    def follow(self, node: Any, file: str = OPENAPI) -> Any:
        """The object itself behind any chain of references."""
        while is_reference(node):
            file, node = resolve(self.documents, file, node["$ref"])
        return node

    def whole(self, schema: Any, file: str = OPENAPI) -> dict[str, Any]:
        """A schema with the one that it refers to; what stands beside a reference wins."""
        if not is_reference(schema):
            return dict(schema) if isinstance(schema, dict) else {}  # `true` says nothing
        name, target = resolve(self.documents, file, schema["$ref"])
        return self.whole(target, name) | {key: value for key, value in schema.items() if key != "$ref"}

    @cached_property
    def operations(self) -> list[Operation]:
        """All operations, in the order of the document."""
        found = []
        for path, item in self.rest["paths"].items():
            base = f"{OPENAPI}#/paths/{escape(path)}"
            shared = list(self._parameters(base, item))
            for method in METHODS:
                if method in item:
                    own = self._parameters(f"{base}/{method}", item[method])
                    found.append(Operation(f"{base}/{method}", path, method, item[method], (*shared, *own)))
        return found

    def _parameters(self, pointer: str, holder: dict[str, Any]) -> Iterator[Parameter]:
        for index, entry in enumerate(holder.get("parameters", [])):
            component = entry["$ref"].rpartition("/")[2] if is_reference(entry) else ""
            yield Parameter(f"{pointer}/parameters/{index}", self.follow(entry), component)

    def responses(self, operation: Operation) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """The pointer, the status and the response of each answer."""
        for status, entry in operation.raw["responses"].items():
            yield f"{operation.pointer}/responses/{status}", status, self.follow(entry)

    @cached_property
    def contents(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Each JSON body: pointer, operationId, `body` or status, and its content."""
        found = []
        for operation in self.operations:
            holders = [(f"{operation.pointer}/requestBody", "body", self.follow(operation.raw.get("requestBody", {})))]
            for pointer, part, holder in [*holders, *self.responses(operation)]:
                for media, content in holder.get("content", {}).items():
                    if "json" in media:
                        found.append((f"{pointer}/content/{escape(media)}", operation.id, part, content))
        return found

    @cached_property
    def frames(self) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        """Each frame: pointer of its message, `client` or `server`, the message and its schema."""
        found = []
        for operation in self.gateway.get("operations", {}).values():
            sender = "client" if operation["action"] == "receive" else "server"
            for entry in operation["messages"]:
                pointer = entry["$ref"]
                while is_reference(target := resolve(self.documents, ASYNCAPI, pointer)[1]):
                    pointer = target["$ref"]
                found.append((f"{ASYNCAPI}{pointer}", sender, target, self.whole(target["payload"], ASYNCAPI)))
        return found

    @cached_property
    def schemas(self) -> list[tuple[str, dict[str, Any]]]:
        """Every schema of both documents, however deep it stands, with its pointer."""
        found: dict[str, dict[str, Any]] = {}
        for file in (OPENAPI, ASYNCAPI):
            for name, schema in self.documents.named(file).get("components", {}).get("schemas", {}).items():
                found |= dict(_inner(schema, f"{file}#/components/schemas/{escape(name)}"))
            for pointer, node in walk(self.documents.named(file)):
                if isinstance(node, dict) and "/examples/" not in pointer and "/components/schemas/" not in pointer:
                    for key in ("schema", "payload"):
                        if isinstance(node.get(key), dict):
                            found |= dict(_inner(node[key], f"{file}#{pointer}/{key}"))
        return list(found.items())

    @cached_property
    def members(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Every declared member of an object: pointer, name and schema with what it refers to."""
        return [
            (f"{pointer}/properties/{escape(name)}", name, self.whole(member, pointer.partition("#")[0]))
            for pointer, schema in self.schemas
            for name, member in schema.get("properties", {}).items()
        ]


_ONE = ("items", "additionalProperties", "propertyNames", "contains", "if", "then", "else", "unevaluatedProperties")


def _inner(schema: Any, pointer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all in it. What stands under `not` is no offer and is left out."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in _ONE:
        yield from _inner(schema.get(key), f"{pointer}/{key}")
    for key in ("allOf", "anyOf", "oneOf", "prefixItems"):
        for index, item in enumerate(schema.get(key, [])):
            yield from _inner(item, f"{pointer}/{key}/{index}")
    for key in ("properties", "patternProperties"):
        for name, item in schema.get(key, {}).items():
            yield from _inner(item, f"{pointer}/{key}/{escape(name)}")
