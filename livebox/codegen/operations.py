"""`operations.py`, `problems.py` and `handlers.py`: what the contract's operations are and who answers them."""

from __future__ import annotations

from livebox.codegen.contract import Operation, snake
from livebox.codegen.documents import DocumentError, Documents, Json
from livebox.codegen.models import type_of
from livebox.codegen.python import literal, module, table

_OPERATION_CLASS = '''
@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the contract: what the server has to know to serve it."""

    id: str
    """The operationId, `getRun`."""
    function: str
    """The handler's name, `get_run`; the name of the SQL function too."""
    module: str
    """The handlers module: the tag in snake case."""
    method: str
    path: str
    """The path template, in aiohttp's notation."""
    security: Literal["public", "bearer", "invocation", "optional_invocation"]
    rate_class: Literal["read", "write", "patch"] | None
    kind: Literal["read", "write"]
    success: tuple[int, ...]
    problem_codes: tuple[str, ...]
    has_body: bool
    body_required: bool
    body_media: tuple[str, ...]
    """The media types that a request body may have."""
    idempotent: bool
    """Whether it takes `Idempotency-Key`."""
    cursor: bool
    """Whether it takes `cursor`."""
    media: str
    """The media type of a success, empty where none has a body."""
'''


def operations_module(operations: tuple[Operation, ...]) -> str:
    """The source of `generated/operations.py`."""
    entries = [(operation.id, _row(operation)) for operation in operations]
    return module(
        "The operations of the REST contract.",
        "from dataclasses import dataclass\nfrom typing import Literal",
        _OPERATION_CLASS,
        table("OPERATIONS", "dict[str, Operation]", entries),
    )


def _row(operation: Operation) -> str:
    rate, kind = operation.raw.get("x-rate-class"), operation.raw.get("x-kind")
    if rate not in ("read", "write", "patch", None) or kind not in ("read", "write"):
        raise DocumentError(f"{operation.id}: x-rate-class is {rate!r}, x-kind is {kind!r}")
    values: list[tuple[str, object]] = [
        ("id", operation.id),
        ("function", operation.function),
        ("module", operation.module),
        ("method", operation.method),
        ("path", operation.path),
        ("security", operation.security),
        ("rate_class", rate),
        ("kind", kind),
        ("success", operation.success),
        ("problem_codes", operation.problem_codes),
        ("has_body", operation.body is not None),
        ("body_required", operation.body_required),
        ("body_media", operation.body_media),
        ("idempotent", operation.takes("idempotency_key")),
        ("cursor", operation.takes("cursor")),
        ("media", operation.media),
    ]
    lines = [f"        {name}={literal(value)}," for name, value in values]
    return "\n".join(["Operation(", *lines, "    )"])


def read_problems(documents: Documents) -> dict[str, tuple[int, str]]:
    """Problem code -> (status, title), from `x-problem-codes` at the top or among the components."""
    openapi = documents.openapi
    declared: Json = openapi.get("x-problem-codes") or openapi.get("components", {}).get("x-problem-codes", {})
    return {code: (entry["status"], entry["title"]) for code, entry in declared.items()}


def problems_module(documents: Documents, operations: tuple[Operation, ...]) -> str:
    """The source of `generated/problems.py`. Raises DocumentError for a code that is used and not declared."""
    problems = read_problems(documents)
    for operation in operations:
        for code in operation.problem_codes:
            if code not in problems:
                raise DocumentError(f"{operation.id} uses the problem code {code}, which is not declared")
    entries = [(code, literal(value)) for code, value in problems.items()]
    return module(
        "Problem codes with their status and title.", table("PROBLEMS", "dict[str, tuple[int, str]]", entries)
    )


_CHECK = '''
def functions(modules: Mapping[str, ModuleType]) -> dict[str, Callable[..., Awaitable[Any]]]:
    """The handler of each operation by operationId. `modules` are the handlers modules by name (`run_control`)."""
    return {
        operation.id: getattr(modules[operation.module], operation.function) for operation in OPERATIONS.values()
    }


def check(modules: Mapping[str, ModuleType]) -> list[str]:
    """What is wrong between the contract and the handlers: an operation without its function, or the reverse."""
    findings: list[str] = []
    wanted: dict[str, set[str]] = {}
    for operation in OPERATIONS.values():
        wanted.setdefault(operation.module, set()).add(operation.function)
        function = getattr(modules.get(operation.module), operation.function, None)
        if function is None:
            findings.append(f"{operation.id} has no function {operation.function} in handlers/{operation.module}.py")
        elif not inspect.iscoroutinefunction(function):
            findings.append(f"handlers/{operation.module}.py: {operation.function} is not an async function")
    for name, members in wanted.items():
        for attribute, value in vars(modules.get(name, ModuleType(name))).items():
            ours = getattr(value, "__module__", None) == getattr(modules.get(name), "__name__", name)
            public = inspect.iscoroutinefunction(value) and ours and not attribute.startswith("_")
            if public and attribute not in members:
                findings.append(f"handlers/{name}.py: {attribute} belongs to no operation")
    return sorted(findings)
'''


def handlers_module(operations: tuple[Operation, ...]) -> str:
    """The source of `generated/handlers.py`: a Protocol per tag and the check of the handlers against the contract."""
    tags = list(dict.fromkeys(operation.tag for operation in operations))
    used = {f"{operation.type_name}Parameters" for operation in operations}
    bodies = {body_type(operation) for operation in operations if operation.body}
    imports = [
        "import inspect",
        "from collections.abc import Awaitable, Callable, Mapping",
        "from types import ModuleType",
        "from typing import Any, Protocol, TypeVar",
        "",
        *_import("generated.models", bodies - {"dict[str, Any]"}),
        "from generated.operations import OPERATIONS",
        *_import("generated.parameters", used),
        "",
        'C = TypeVar("C", contravariant=True)',
        'A = TypeVar("A", covariant=True)',
    ]
    protocols = [_protocol(tag, [operation for operation in operations if operation.tag == tag]) for tag in tags]
    return module("Who answers which operation, as Protocols.", "\n".join(imports), *protocols, _CHECK)


def _import(name: str, members: set[str]) -> list[str]:
    lines = [f"    {member}," for member in sorted(members)]
    return [f"from {name} import (", *lines, ")"] if lines else []


def _protocol(tag: str, operations: list[Operation]) -> str:
    name = "".join(part.capitalize() for part in snake(tag).split("_")) + "Handlers"
    lines = [f"class {name}(Protocol[C, A]):", f'    """The functions of handlers/{snake(tag)}.py."""']
    for operation in operations:
        body = f", body: {body_type(operation)}{'' if operation.body_required else ' | None'}" if operation.body else ""
        parameters = f"parameters: {operation.type_name}Parameters"
        lines += ["", f"    async def {operation.function}(self, context: C, {parameters}{body}) -> A: ..."]
    return "\n".join(lines)


def body_type(operation: Operation) -> str:
    """The model of a request body; an inline schema has none."""
    content = (operation.body or {"content": {}})["content"]
    for media in content.values():
        reference = media.get("schema", {}).get("$ref")
        if isinstance(reference, str):
            return reference.rpartition("/")[2]
    return "dict[str, Any]"


def parameter_types(operation: Operation) -> str:
    """The TypedDict of an operation's parameters; what may be absent and has no default is NotRequired."""
    lines = [f"class {operation.type_name}Parameters(TypedDict):", f'    """The parameters of {operation.id}."""']
    for parameter in operation.parameters:
        kind = type_of(parameter.schema)
        present = parameter.required or "default" in parameter.schema
        lines.append(f"    {parameter.python_name}: {kind if present else f'NotRequired[{kind}]'}")
    return "\n".join(lines)
