"""The gateway's document: its messages, and the bundle that needs no second file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livebox.codegen.documents import ASYNCAPI, OPENAPI, DocumentError, Documents, Json, is_reference, resolve


@dataclass(frozen=True)
class Message:
    """One frame of the gateway. `sender` is `client` or `server`; `payload` is its schema."""

    name: str
    component: str
    sender: str
    payload: Json


def read_messages(documents: Documents) -> tuple[Message, ...]:
    """Every message of every operation. The server's `receive` operations are what a client sends.

    Raises DocumentError when a message has no name or no payload.
    """
    messages: dict[str, Message] = {}
    for identity, operation in documents.asyncapi.get("operations", {}).items():
        sender = "client" if operation["action"] == "receive" else "server"
        for reference in operation.get("messages", []):
            component, raw = _message(documents, reference)
            if "payload" not in raw:
                raise DocumentError(f"the message {component} of {identity} has no payload")
            name = raw.get("name", component)
            message = Message(name, component, sender, raw["payload"])
            if messages.setdefault(name, message) != message:
                raise DocumentError(f"two messages are called {name}")
    return tuple(messages.values())


def _message(documents: Documents, reference: Json) -> tuple[str, Json]:
    """The name under which a message stands and the message, through any chain of references."""
    name, node = "", reference
    while is_reference(node):
        name = node["$ref"].rpartition("/")[2]
        _, node = resolve(documents, ASYNCAPI, node["$ref"])
    return name, node


def bundled(documents: Documents) -> Json:
    """`asyncapi.yaml` with the REST contract's schemas that it uses copied into its components.

    References between the copies keep working, since a schema has the same pointer in both documents.
    """
    bundle: Json = _local(documents.asyncapi)
    schemas: Json = bundle.setdefault("components", {}).setdefault("schemas", {})
    for name in [name for name, schema in schemas.items() if schema == {"$ref": f"#/components/schemas/{name}"}]:
        del schemas[name]  # an import under the same name, replaced by what it names
    pending = sorted(_names(bundle) - set(schemas))
    while pending:
        for name in pending:
            schemas[name] = _local(documents.openapi["components"]["schemas"][name])
        pending = sorted(_names(schemas) - set(schemas))
    return bundle


def _local(node: Any) -> Any:
    """A copy in which references into `openapi.yaml` point into the document itself."""
    if isinstance(node, list):
        return [_local(item) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {key: _local(value) for key, value in node.items()}
    if is_reference(node):
        document, _, fragment = node["$ref"].partition("#")
        if document.removeprefix("./") == OPENAPI:
            if not fragment.startswith("/components/schemas/"):
                raise DocumentError(f"asyncapi.yaml may only refer to schemas, not to {fragment}")
            copy["$ref"] = f"#{fragment}"
    return copy


def _names(node: Any) -> set[str]:
    """The component schemas that `node` refers to."""
    if isinstance(node, list):
        return set().union(*(_names(item) for item in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = set().union(*(_names(value) for value in node.values())) if node else set()
    if is_reference(node) and node["$ref"].startswith("#/components/schemas/"):
        found.add(node["$ref"].split("/")[3])
    return found
