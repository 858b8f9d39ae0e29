"""Rules 5xx: frames and the ends of sessions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from livebox.codegen.documents import ASYNCAPI
from tests.checks.api.contract import Contract, Finding, rule
from tests.checks.api.names import DOTTED, SNAKE

FINAL, LAST = 4500, 5000
OWN = 4000
STANDARD = range(1000, 1016)


@rule(501)
def frames(contract: Contract) -> Iterator[Finding]:
    for pointer, _, message, schema in contract.frames:
        name = message.get("name", "")
        if not DOTTED.fullmatch(name):
            yield pointer, f"the frame {name!r} is not in dotted snake_case"
        if not message["payload"].get("$ref", "").endswith("Frame"):
            yield pointer, "its schema is not called ...Frame"
        kind = schema.get("properties", {}).get("type", {}).get("const")
        if kind != name or "type" not in schema.get("required", ()) or schema.get("additionalProperties") is not False:
            yield pointer, "its schema is not closed, or has not the frame's name as constant in a required `type`"


@rule(502)
def answers(contract: Contract) -> Iterator[Finding]:
    for pointer, sender, _, schema in contract.frames:
        members, required = schema.get("properties", {}), schema.get("required", ())
        if sender == "client" and ("id" not in members or "id" in required):
            yield pointer, "a client cannot give it an id, or has to"
        if sender == "server" and "id" in members:
            yield pointer, "the server's frames have no id; an answer repeats the client's as reply_to"


@rule(503)
def words(contract: Contract) -> Iterator[Finding]:
    for pointer, _, message, _ in contract.frames:
        if not message.get("title", "").strip() or not message.get("summary", "").strip():
            yield pointer, "has no title or no summary"


@rule(504)
def closes(contract: Contract) -> Iterator[Finding]:
    for code, close in contract.gateway.get("x-close-codes", {}).items():
        pointer, number = f"{ASYNCAPI}#/x-close-codes/{code}", int(code)
        if number not in STANDARD and not OWN <= number < LAST:
            yield pointer, "neither a standard code nor one from 4000 to 4999"
        if number >= OWN and close["reconnect"] != (number < FINAL):
            yield pointer, "its range says something else about coming back"
        if not SNAKE.fullmatch(close["name"]) or not re.fullmatch(r"[A-Z][^\n]*\.", close["meaning"]):
            yield pointer, "its name is not in snake_case, or its meaning no sentence"


@rule(505)
def uses(contract: Contract) -> Iterator[Finding]:
    used = Counter(pointer for pointer, *_ in contract.frames)
    for name in contract.gateway.get("components", {}).get("messages", {}):
        pointer = f"{ASYNCAPI}#/components/messages/{name}"
        if used[pointer] != 1:
            yield pointer, f"is used by {used[pointer]} operations"
    for name, operation in contract.gateway.get("operations", {}).items():
        if not re.fullmatch(rf"{operation['action']}[A-Z][A-Za-z]*", name) or len(operation["messages"]) != 1:
            yield f"{ASYNCAPI}#/operations/{name}", "is not called like its action and its one frame"


@rule(506)
def shared(contract: Contract) -> Iterator[Finding]:
    known = contract.rest["components"]["schemas"].keys()
    for name, schema in contract.gateway.get("components", {}).get("schemas", {}).items():
        if name in known and not schema.get("$ref", "").startswith("openapi.yaml#"):
            yield f"{ASYNCAPI}#/components/schemas/{name}", "is written twice; refer to openapi.yaml"
