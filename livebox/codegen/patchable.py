"""`patchable_paths.py`: which JSON pointers of the run document a patch may touch, from `x-patchable`."""

from __future__ import annotations

from typing import Any

from livebox.codegen.documents import DocumentError, Documents, Json, is_reference
from livebox.codegen.python import literal, module, quoted

#: The schema whose members are patched.
DOCUMENT_SCHEMA = "Run"
_DEPTH = 8

_CLASS = '''
from typing import NamedTuple


class PatchNode(NamedTuple):
    """One place of the run document that a patch may touch."""

    schema: str
    """Pointer of its schema for `generated.validators.checker`."""
    required: bool
    """Whether the object around it cannot be without it, so that it cannot be removed alone."""
    container: bool
    """Whether it exists implicitly: an object that requires nothing; it goes when it is empty."""
    keys: str
    """Pointer of the schema for the keys of a keyed object, else empty."""
    each: PatchNode | None
    """What stands below any key of a keyed object."""
    members: dict[str, PatchNode]
    """What stands below, by name."""


def find(tokens: list[str]) -> PatchNode | None:
    """The node at the reference tokens of a pointer, None where nothing may be patched. Keys are not checked."""
    nodes: dict[str, PatchNode] = PATCHABLE
    each: PatchNode | None = None
    node: PatchNode | None = None
    for token in tokens:
        node = nodes.get(token, each)
        if node is None:
            return None
        nodes, each = node.members, node.each
    return node
'''


def patchable_module(documents: Documents) -> str:
    """The source of `generated/patchable_paths.py`; the table is empty while no member is patchable."""
    schemas = documents.openapi.get("components", {}).get("schemas", {})
    document = schemas.get(DOCUMENT_SCHEMA, {})
    members: Json = document.get("properties", {})
    pointer = f"/schemas/{DOCUMENT_SCHEMA}/properties"
    nodes: list[str] = []
    for name, schema in members.items():
        if schema.get("x-patchable") is True:
            required = name in document.get("required", ())
            nodes.append(f"    {quoted(name)}: {_node(schemas, schema, f'{pointer}/{name}', required, 1)},")
    head = "#: The patchable members of the run document.\nPATCHABLE: dict[str, PatchNode] = {"
    return module("What a patch may touch in the run document.", _CLASS, "\n".join([head, *nodes, "}"]))


def _node(schemas: Json, schema: Any, pointer: str, required: bool, depth: int) -> str:
    """The source of one node and of all below it."""
    if depth > _DEPTH:
        raise DocumentError(f"{pointer} is nested too deep for a patchable member")
    while is_reference(schema):
        name = schema["$ref"].rpartition("/")[2]
        schema, pointer = schemas[name], f"/schemas/{name}"
    pad = "    " * depth
    members = [
        f"{pad}        {quoted(name)}: "
        f"{_node(schemas, member, f'{pointer}/properties/{name}', name in schema.get('required', ()), depth + 2)},"
        for name, member in schema.get("properties", {}).items()
    ]
    entry = schema.get("additionalProperties")
    each = "None"
    if isinstance(entry, dict):
        each = _node(schemas, entry, f"{pointer}/additionalProperties", False, depth + 1)
    is_object = schema.get("type") == "object"
    fields = {
        "schema": literal(pointer),
        "required": literal(required),
        "container": literal(is_object and not schema.get("required") and not schema.get("minProperties")),
        "keys": literal(f"{pointer}/propertyNames" if isinstance(schema.get("propertyNames"), dict) else ""),
        "each": each,
        "members": "\n".join(["{", *members, f"{pad}    }}"]) if members else "{}",
    }
    return "\n".join(["PatchNode(", *(f"{pad}    {name}={value}," for name, value in fields.items()), f"{pad})"])
