"""The operations of the REST contract, read once for all that is generated from them."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import Any

from livebox.codegen.documents import OPENAPI, DocumentError, Documents, Json, is_reference, resolve

METHODS = ("get", "put", "post", "delete", "patch")
STATUS = re.compile(r"^[1-5][0-9][0-9]$")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its contract name, its Python name, and the pointer of its schema in `schemas.json`."""

    name: str
    python_name: str
    location: str
    required: bool
    schema: Json
    pointer: str


@dataclass(frozen=True)
class Operation:
    """One operation as the contract has it; `raw` is its OpenAPI object."""

    id: str
    tag: str
    method: str
    path: str
    security: str
    parameters: tuple[Parameter, ...]
    success: tuple[int, ...]
    problem_codes: tuple[str, ...]
    body: Json | None
    body_media: tuple[str, ...]
    media: str
    raw: Json

    @property
    def function(self) -> str:
        """The handler's name: `get_run` for `getRun`."""
        return snake(self.id)

    @property
    def module(self) -> str:
        """The handlers module: the tag in snake case."""
        return snake(self.tag)

    @property
    def type_name(self) -> str:
        """The stem of generated type names: `GetRun` for `getRun`."""
        return self.id[0].upper() + self.id[1:]

    @property
    def body_required(self) -> bool:
        """Whether a request without a body is refused."""
        return self.body is not None and bool(self.body.get("required"))

    def takes(self, python_name: str) -> bool:
        """Whether the operation has a parameter of this Python name."""
        return any(parameter.python_name == python_name for parameter in self.parameters)


def snake(name: str) -> str:
    """`snake_case` of a camelCase name, a tag or a header name. Raises DocumentError when no identifier comes out."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    result = re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()
    if not result.isidentifier() or keyword.iskeyword(result):
        raise DocumentError(f"{name!r} makes no Python name")
    return result


def parameter_name(name: str, location: str) -> str:
    """The Python name of a parameter; the prefix of our own headers is left away."""
    return snake(name.removeprefix("Livebox-") if location == "header" else name)


def read_operations(documents: Documents) -> tuple[Operation, ...]:
    """All operations in document order. Raises DocumentError for what the generator does not understand."""
    operations: list[Operation] = []
    for path, item in documents.openapi["paths"].items():
        shared = item.get("parameters", [])
        for method in METHODS:
            if method in item:
                entry = _operation(documents, path, method, item[method], shared)
                operations.append(entry)
    for unknown in {key for item in documents.openapi["paths"].values() for key in item} - {*METHODS, "parameters"}:
        raise DocumentError(f"{unknown!r} in a path item is not supported")
    seen: set[str] = set()
    for operation in operations:
        if operation.function in seen:
            raise DocumentError(f"two operations are called {operation.id}")
        seen.add(operation.function)
    return tuple(operations)


def _operation(documents: Documents, path: str, method: str, raw: Json, shared: list[Json]) -> Operation:
    identity = raw.get("operationId")
    if not isinstance(identity, str):
        raise DocumentError(f"{method} {path} has no operationId")
    tags = raw.get("tags", [])
    if len(tags) != 1:
        raise DocumentError(f"{identity} needs exactly one tag")
    body = follow(documents, raw["requestBody"]) if "requestBody" in raw else None
    success, media = _success(documents, identity, raw["responses"])
    parameters = tuple(_parameter(documents, identity, entry) for entry in [*shared, *raw.get("parameters", [])])
    _check_path(identity, path, parameters)
    return Operation(
        id=identity,
        tag=tags[0],
        method=method.upper(),
        path=path,
        security=_security(documents, identity, raw),
        parameters=parameters,
        success=success,
        problem_codes=tuple(raw.get("x-problem-codes", ())),
        body=body,
        body_media=tuple(body["content"]) if body else (),
        media=media,
        raw=raw,
    )


def _check_path(identity: str, path: str, parameters: tuple[Parameter, ...]) -> None:
    in_path = set(re.findall(r"\{([^}]*)\}", path))
    declared = {parameter.name for parameter in parameters if parameter.location == "path"}
    if in_path != declared:
        raise DocumentError(f"{identity}: the path has {sorted(in_path)}, the parameters are {sorted(declared)}")
    names = [parameter.python_name for parameter in parameters]
    if len(set(names)) != len(names):
        raise DocumentError(f"{identity}: two parameters have the same name")


def _security(documents: Documents, identity: str, raw: Json) -> str:
    """`public`, `bearer` or `invocation`, as the schemes are called; `optional_invocation`: a bearer may do."""
    requirements: list[Json] = raw["security"] if "security" in raw else documents.openapi.get("security", [])
    schemes = {name for requirement in requirements for name in requirement}
    if "invocation" in schemes:
        return "invocation" if all("invocation" in one for one in requirements) else "optional_invocation"
    if "bearer" in schemes and {} not in requirements:
        return "bearer"
    if schemes - {"bearer"}:
        raise DocumentError(f"{identity}: unknown security schemes {sorted(schemes)}")
    return "public"


def _success(documents: Documents, identity: str, responses: Json) -> tuple[tuple[int, ...], str]:
    """The 2xx statuses and the media type of the first that has a body."""
    statuses: list[int] = []
    media = ""
    for status, response in responses.items():
        if status == "default":
            continue
        if not STATUS.match(status):
            raise DocumentError(f"{identity}: {status!r} is no status code")
        if status.startswith("2"):
            statuses.append(int(status))
            media = media or next(iter(follow(documents, response).get("content", {})), "")
    if not statuses:
        raise DocumentError(f"{identity} has no success")
    return tuple(statuses), media


def _parameter(documents: Documents, identity: str, entry: Json) -> Parameter:
    raw = follow(documents, entry)
    name, location = raw["name"], raw["in"]
    if location not in ("path", "query", "header") or "schema" not in raw:
        raise DocumentError(f"{identity}: the parameter {name} in {location} is not supported")
    schema = flat_schema(documents, raw["schema"])
    if schema.get("type") == "array" and (raw.get("explode", True) or raw.get("style", "form") != "form"):
        raise DocumentError(f"{identity}: the array {name} must have style form without explode")
    key = entry["$ref"].rpartition("/")[2] if is_reference(entry) else f"{identity}.{name}"
    python_name = parameter_name(name, location)
    return Parameter(name, python_name, location, bool(raw.get("required")), schema, f"/parameters/{key}")


def follow(documents: Documents, node: Json) -> Json:
    """The object itself behind any chain of references within the REST contract."""
    while is_reference(node):
        _, node = resolve(documents, OPENAPI, node["$ref"])
    return node


def flat_schema(documents: Documents, schema: Any) -> Json:
    """A parameter's schema with its references replaced by what they name, siblings winning."""
    result: Json = {key: value for key, value in schema.items() if key != "$ref"}
    if is_reference(schema):
        _, target = resolve(documents, OPENAPI, schema["$ref"])
        result = {**flat_schema(documents, target), **result}
    if isinstance(result.get("items"), dict):
        result["items"] = flat_schema(documents, result["items"])
    if result.get("type") not in ("string", "integer", "boolean", "array"):
        raise DocumentError(f"a parameter of type {result.get('type')!r} is not supported")
    return result
