"""What must not be committed: secrets, JSON nulls in our documents, hosts and paths of somebody's machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.checks.tree import Tree

# These look for such things themselves.
LOOKING_FOR = {"tests/checks/committed.py", "tests/edge/test_leaks.py"}
# Documentation names example hosts and the standards it follows; nothing else has a reason to stand here.
HOSTS = {
    "127.0.0.1",
    "localhost",
    "example.com",
    "json-schema.org",
    "keepachangelog.com",
    "semver.org",
    "spec.openapis.org",
    "www.apache.org",
    "www.asyncapi.com",
    "www.rfc-editor.org",
    "www.w3.org",
}
# The only place for what is no text: pictures that a script takes of the real thing.
PICTURES = "docs/images/"
SECRETS = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s*\n",
    "a JWT": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}",
    "a private JWK": r'"d"\s*:\s*"[\w-]{40,}"',
    "an access key": r"\b(AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,}|xox[abpr]-[\w-]{20,})",
    "a password in a URL": r"[a-z]://[^:/@\s\"'{}]+:(?!secret@|password@|sesame@|\*+@)[^@\s\"'{}*]{4,}@",
}
PATHS = r"(?<![\w.:/-])(/root/|/home/[a-z]|/work/|/Users/)|\.\./shared\b"
URL = re.compile(r"\b(?:https?|wss?)://([A-Za-z0-9.-]+)")


def problems(tree: Tree) -> Iterator[str]:
    """Each finding as `path:line: what`."""
    for path in tree.files():
        text = tree.text(path)
        if text is None:
            if not path.startswith(PICTURES):
                yield f"{path}:1: a binary file"
            continue
        if path not in LOOKING_FOR:
            yield from _text(path, text)
        if path.endswith((".json", ".yaml", ".yml")):
            yield from _nulls(path, text)


def _text(path: str, text: str) -> Iterator[str]:
    for name, pattern in SECRETS.items():
        for match in re.finditer(pattern, text):
            yield f"{path}:{_line(text, match.start())}: {name}"
    for match in re.finditer(PATHS, text):
        yield f"{path}:{_line(text, match.start())}: a path of one machine: {match[0]}"
    for match in URL.finditer(text):
        host = match[1].lower().rstrip(".")
        if host not in HOSTS and not host.endswith((".example.com", ".example")) and "." in host:
            yield f"{path}:{_line(text, match.start())}: the host {host} is not on the list"


def _nulls(path: str, text: str) -> Iterator[str]:
    document = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    for pointer in _null_pointers(document, ""):
        yield f"{path}:1: a null at {pointer or '/'}"


def _null_pointers(value: Any, pointer: str) -> Iterator[str]:
    if value is None:
        yield pointer
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _null_pointers(member, f"{pointer}/{name}")
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _null_pointers(element, f"{pointer}/{index}")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
