"""The two contract documents as plain JSON values, and the references between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

OPENAPI = "openapi.yaml"
ASYNCAPI = "asyncapi.yaml"

Json = dict[str, Any]


class DocumentError(ValueError):
    """A contract document that the generator cannot use; the message says where."""


@dataclass(frozen=True)
class Documents:
    """Both documents as loaded: plain dicts, lists, strings, numbers and booleans, without nulls."""

    openapi: Json
    asyncapi: Json

    def named(self, name: str) -> Json:
        """The document of a file name as it stands before the `#` of a reference."""
        documents = {OPENAPI: self.openapi, ASYNCAPI: self.asyncapi}
        if name.removeprefix("./") not in documents:
            raise DocumentError(f"no document is called {name!r}")
        return documents[name.removeprefix("./")]


class _Loader(yaml.CSafeLoader):
    """YAML read as JSON: no timestamps, no yes/no booleans, no keys that are written twice."""


_NOT_JSON = (":timestamp", ":bool", ":merge", ":value")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_NOT_JSON)]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), ["t", "f"])


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Json:
    members: Json = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)  # status codes may stand unquoted
        where = f"line {key_node.start_mark.line + 1}"
        if not isinstance(key, str):
            raise DocumentError(f"{where}: the key {key!r} is not a string")
        if key in members:
            raise DocumentError(f"{where}: the key {key!r} stands twice")
        members[key] = loader.construct_object(value_node, deep=True)
    return members


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_file(path: Path) -> Json:
    """Read one YAML document. Raises DocumentError for a missing file, a bad one, or one that holds a null."""
    if not path.is_file():
        raise DocumentError(f"{path.name} is missing")
    try:
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise DocumentError(f"{path.name} is not YAML: {error}") from error
    except DocumentError as error:
        raise DocumentError(f"{path.name}, {error}") from error
    if not isinstance(document, dict):
        raise DocumentError(f"{path.name} is not a mapping")
    for pointer, node in walk(document):
        if node is None:
            raise DocumentError(f"{path.name} holds a null at {pointer}")
    return document


def load(root: Path) -> Documents:
    """Both documents of the folder `root`, with every reference checked to lead somewhere."""
    documents = Documents(load_file(root / OPENAPI), load_file(root / ASYNCAPI))
    for name in (OPENAPI, ASYNCAPI):
        for pointer, node in walk(documents.named(name)):
            if is_reference(node):
                try:
                    resolve(documents, name, node["$ref"])
                except DocumentError as error:
                    raise DocumentError(f"{name} at {pointer}: {error}") from error
    return documents


def is_reference(node: object) -> bool:
    """Whether `node` is an object with a `$ref` string (and not a schema that describes a member called so)."""
    return isinstance(node, dict) and isinstance(node.get("$ref"), str)


def walk(node: object, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its RFC 6901 pointer, parents first."""
    yield pointer, node
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, f"{pointer}/{escape(key)}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from walk(value, f"{pointer}/{index}")


def escape(token: str) -> str:
    """One reference token of a JSON pointer (RFC 6901 section 3)."""
    return token.replace("~", "~0").replace("/", "~1")


def at(document: object, pointer: str) -> Any:
    """The value at an RFC 6901 pointer. Raises DocumentError when nothing is there."""
    node: Any = document
    for token in pointer.split("/")[1:]:
        key = unquote(token).replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise DocumentError(f"nothing is at {pointer!r}") from error
    return node


def resolve(documents: Documents, document: str, reference: str) -> tuple[str, Any]:
    """What a `$ref` in `document` points at: the name of the document it stands in, and the value."""
    name, _, fragment = reference.partition("#")
    name = name.removeprefix("./") or document
    return name, at(documents.named(name), fragment)
