"""All files that are made from the documents: compared with what stands there, or written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from livebox.codegen.asyncapi import Message, bundled, read_messages
from livebox.codegen.contract import read_operations
from livebox.codegen.documents import Documents, Json
from livebox.codegen.downconvert import Downconversion
from livebox.codegen.models import models_module
from livebox.codegen.operations import handlers_module, operations_module, problems_module
from livebox.codegen.patchable import patchable_module
from livebox.codegen.python import HEADER, literal, module, table
from livebox.codegen.readers import parameters_module
from livebox.codegen.reference_docs import pages
from livebox.codegen.routes import routes_module
from livebox.codegen.schemas import schemas_document

FOLDER = "generated"
_TEMPLATES = Path(__file__).parent / "templates"
_COPIED = ("field_errors", "queries", "validators")

_MESSAGE_CLASS = '''
from typing import Literal, NamedTuple


class Message(NamedTuple):
    """One frame of the gateway."""

    name: str
    """Its `type`."""
    sender: Literal["client", "server"]
    schema: str
    """Pointer of its schema for `generated.validators.checker`."""


class Close(NamedTuple):
    """One way in which a session ends."""

    code: int
    """The close code of the WebSocket."""
    name: str
    reconnect: bool
    """Whether connecting again makes sense."""
'''


def files(documents: Documents) -> dict[str, str]:
    """Path from the root of the repository -> content. A pure function of the documents and the key declarations."""
    made = {f"{FOLDER}/{name}": content for name, content in _package(documents).items()}
    return {**made, **pages(documents.openapi)}


def _package(documents: Documents) -> dict[str, str]:
    operations = read_operations(documents)
    messages = read_messages(documents)
    templates = {name: (_TEMPLATES / f"{name}.py").read_text(encoding="utf-8") for name in _COPIED}
    return {
        "README.md": (_TEMPLATES / "README.md").read_text(encoding="utf-8"),
        "__init__.py": HEADER.format(purpose="The contract as code."),
        "asyncapi.json": _json(bundled(documents)),
        "digest.py": digest_module(documents),
        "gateway_messages.py": gateway_module(messages, documents.asyncapi.get("x-close-codes", {})),
        "handlers.py": handlers_module(operations),
        "models.py": models_module(documents),
        "openapi.json": _json(documents.openapi),
        "openapi30.json": _json(Downconversion().document(documents.openapi)),
        "operations.py": operations_module(operations),
        "parameters.py": parameters_module(operations),
        "patchable_paths.py": patchable_module(documents),
        "problems.py": problems_module(documents, operations),
        "py.typed": "",
        "routes.py": routes_module(operations),
        "schemas.json": _json(schemas_document(documents, operations, messages)),
        **{f"{name}.py": _marked(source) for name, source in templates.items()},
    }


def _json(document: Json) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _marked(source: str) -> str:
    """A template with the note that it was generated added to its docstring."""
    purpose, rest = source.removeprefix('"""').split('"""', 1)
    return HEADER.format(purpose=purpose.rstrip()).rstrip("\n") + rest


def digest(documents: Documents) -> str:
    """SHA-256, in hex, of both documents as canonical JSON: members sorted, no spaces."""
    both = {"openapi": documents.openapi, "asyncapi": documents.asyncapi}
    canonical = json.dumps(both, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def digest_module(documents: Documents) -> str:
    """The source of `generated/digest.py`."""
    return module("Which contract this code was made from.", f"SPEC_DIGEST = {literal(digest(documents))}")


def gateway_module(messages: tuple[Message, ...], close_codes: Json) -> str:
    """The source of `generated/gateway_messages.py`."""
    entries = [
        (message.name, f"Message{literal((message.name, message.sender, f'/messages/{message.name}'))}")
        for message in messages
    ]
    closes = [
        (close["name"], f"Close{literal((int(code), close['name'], close['reconnect']))}")
        for code, close in close_codes.items()
    ]
    return module(
        "The frames of the gateway, and the codes with which its sessions end.",
        _MESSAGE_CLASS,
        table("MESSAGES", "dict[str, Message]", entries),
        table("CLOSES", "dict[str, Close]", closes),
    )


def differences(root: Path, wanted: dict[str, str]) -> list[str]:
    """The files that are missing, different or not generated, one line each."""
    lines = []
    for name, content in sorted(wanted.items()):
        path = root / name
        if not path.is_file():
            lines.append(f"{name} is missing")
        elif path.read_bytes() != content.encode():
            lines.append(f"{name} differs")
    return lines + [f"{name} is not generated" for name in _strangers(root, wanted)]


def write(root: Path, wanted: dict[str, str]) -> list[str]:
    """Bring the files to the wanted content; gives the names of those that changed."""
    changed = []
    for name, content in sorted(wanted.items()):
        path = root / name
        if not path.is_file() or path.read_bytes() != content.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
            changed.append(name)
    for name in _strangers(root, wanted):
        (root / name).unlink()
        changed.append(name)
    return changed


def _strangers(root: Path, wanted: dict[str, str]) -> list[str]:
    """Files of `generated/` that no run would write."""
    folder = root / FOLDER
    present = [f"{FOLDER}/{path.name}" for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return sorted(name for name in present if name not in wanted)
