"""Operations of the REST contract compared: paths, parameters, bodies, statuses, headers, security, problem codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from livebox.codegen.contract import METHODS
from livebox.codegen.documents import OPENAPI, escape
from tests.compatibility.report import ADDITIVE, BREAKING, REQUEST, RESPONSE, Report
from tests.compatibility.schemas import Schemas
from tests.compatibility.view import Part, Reader, below

ROOT = f"{OPENAPI}#"
#: What says how a security scheme is sent.
SCHEME = ("type", "scheme", "in", "name")


class Operations:
    """Compares all operations of `old` with those of `new`."""

    def __init__(self, old: Reader, new: Reader, schemas: Schemas, report: Report) -> None:
        self._old, self._new = old, new
        self._schemas = schemas
        self._report = report
        self._answers: list[tuple[str, str, Part, Part]] = []

    def compare(self) -> None:
        """Report what has changed."""
        was, now = _operations(self._old), _operations(self._new)
        for key in was.keys() - now.keys():
            self._say(BREAKING, "operation.removed", f"{' '.join(key)} is gone", was[key].pointer)
        for key in now.keys() - was.keys():
            self._say(ADDITIVE, "operation.added", f"{' '.join(key)} is new", now[key].pointer)
        for key in was:
            if key in now:
                self._operation(was[key], now[key])
        # What is answered first and problems after it: what both hold is told of the better place.
        for identity, status, before, after in sorted(self._answers, key=lambda answer: answer[1] >= "3"):
            self._report.used_by = f"{identity} response {status}"
            self._content(before, after, RESPONSE)
            self._headers(before, after)
        self._report.used_by = ""
        self._problems()
        self._schemes()
        for name in ("servers", "jsonSchemaDialect"):
            if self._old.documents.openapi.get(name) != self._new.documents.openapi.get(name):
                self._say(BREAKING, "root.changed", f"{name} has changed", f"{ROOT}/{name}")

    def _say(self, level: str, rule: str, text: str, pointer: str, *more: str, direction: str = "both") -> None:
        self._report.add(level, rule, text, pointer, *more, direction=direction)

    def _operation(self, old: Part, new: Part) -> None:
        identity = str(old.schema["operationId"])
        self._report.used_by = identity
        if identity != new.schema["operationId"]:
            text = f"{identity} is called {new.schema['operationId']}, and generated clients name it so"
            self._say(BREAKING, "operation.renamed", text, f"{new.pointer}/operationId")
        self._security(old, new)
        was, now = _servers(self._old, old), _servers(self._new, new)
        if was != now:
            self._say(BREAKING, "root.changed", "servers has changed", f"{new.pointer}/servers", *_above(new, old))
        if old.schema.get("x-rate-class") != new.schema.get("x-rate-class"):
            text = f"counts as {new.schema.get('x-rate-class', 'nothing')}; what that allows is configured"
            self._say(ADDITIVE, "rate.changed", text, f"{new.pointer}/x-rate-class", f"{old.pointer}/x-rate-class")
        self._codes(old, new)
        self._report.used_by = f"{identity} request"
        self._parameters(old, new)
        self._body(old, new)
        self._responses(identity, old, new)

    def _codes(self, old: Part, new: Part) -> None:
        was, now = (set(part.schema.get("x-problem-codes", ())) for part in (old, new))
        pointer = f"{new.pointer}/x-problem-codes"
        for code in sorted(now - was):
            text = f"{code} added to the closed list of problem codes"
            self._say(BREAKING, "code.added", text, pointer, direction=RESPONSE)
        for code in sorted(was - now):
            text = f"{code} is never answered any more"
            self._say(ADDITIVE, "code.removed", text, pointer, direction=RESPONSE)

    def _security(self, old: Part, new: Part) -> None:
        was, now = _security(self._old, old), _security(self._new, new)
        if was == now:
            return
        places = f"{new.pointer}/security", f"{old.pointer}/security", f"{ROOT}/security"
        now = {frozenset(self._names().get(name, name) for name in asked) for asked in now}
        if was == now:
            return
        if all(any(asked <= known for asked in now) for known in was):
            self._say(ADDITIVE, "security.widened", "asks for less than before", *places, direction=REQUEST)
        else:
            self._say(BREAKING, "security.narrowed", "asks for more than before", *places, direction=REQUEST)

    def _names(self) -> dict[str, str]:
        """New name -> old one of each security scheme that was only given another name."""
        was, now = _schemes(self._old), _schemes(self._new)
        return {
            name: former
            for name in now.keys() - was.keys()
            for former in was.keys() - now.keys()
            if was[former] == now[name]
        }

    def _parameters(self, old: Part, new: Part) -> None:
        was, now = _parameters(self._old, old), _parameters(self._new, new)
        for key, (place, part) in was.items():
            if key in now:
                self._parameter(key[1], part, now[key][1])
            else:
                text = f"the {key[0]} parameter {key[1]} is gone"
                self._say(BREAKING, "parameter.removed", text, place, part.pointer, direction=REQUEST)
        for key, (place, part) in now.items():
            if key not in was:
                required = bool(part.schema.get("required"))
                text = f"the {key[0]} parameter {key[1]} {'must' if required else 'may'} be sent"
                level, rule = (BREAKING, "added_required") if required else (ADDITIVE, "added")
                self._say(level, f"parameter.{rule}", text, place, part.pointer, direction=REQUEST)

    def _parameter(self, name: str, old: Part, new: Part) -> None:
        was, now = bool(old.schema.get("required")), bool(new.schema.get("required"))
        places = f"{new.pointer}/required", f"{old.pointer}/required"
        if now and not was:
            self._say(BREAKING, "parameter.required", f"{name} must be sent", *places, direction=REQUEST)
        elif was and not now:
            self._say(ADDITIVE, "parameter.optional", f"{name} need not be sent", *places, direction=REQUEST)
        for keyword in ("style", "explode", "allowReserved", "content"):
            if old.schema.get(keyword) != new.schema.get(keyword):
                text = f"{keyword} of {name} has changed: it is written in another way"
                pointers = f"{new.pointer}/{keyword}", f"{old.pointer}/{keyword}"
                self._say(BREAKING, "parameter.style", text, *pointers, direction=REQUEST)
        self._schemas.compare((below(old, "schema"),), (below(new, "schema"),), REQUEST)

    def _body(self, old: Part, new: Part) -> None:
        was, now = "requestBody" in old.schema, "requestBody" in new.schema
        if not was or not now:
            if was:
                self._say(BREAKING, "body.removed", "takes no body", f"{old.pointer}/requestBody", direction=REQUEST)
            if now:
                required = self._new.follow(below(new, "requestBody")).schema.get("required")
                text, pointer = f"a body {'must' if required else 'may'} be sent", f"{new.pointer}/requestBody"
                level, rule = (BREAKING, "body.added_required") if required else (ADDITIVE, "body.added")
                self._say(level, rule, text, pointer, direction=REQUEST)
            return
        before, after = self._old.follow(below(old, "requestBody")), self._new.follow(below(new, "requestBody"))
        must = bool(after.schema.get("required"))
        if must != bool(before.schema.get("required")):
            text, level = f"the body {'must' if must else 'need not'} be sent", BREAKING if must else ADDITIVE
            pointers = f"{after.pointer}/required", f"{before.pointer}/required"
            self._say(level, f"body.{'required' if must else 'optional'}", text, *pointers, direction=REQUEST)
        self._content(before, after, REQUEST)

    def _content(self, old: Part, new: Part, direction: str) -> None:
        was, now = old.schema.get("content", {}), new.schema.get("content", {})
        for media in was.keys() - now.keys():
            text, pointer = f"the media type {media} is gone", f"{old.pointer}/content/{escape(media)}"
            self._say(BREAKING, f"{direction}.media.removed", text, pointer, direction=direction)
        for media in now.keys() - was.keys():
            level = ADDITIVE if direction == REQUEST else BREAKING
            text, pointer = f"the media type {media} is new", f"{new.pointer}/content/{escape(media)}"
            self._say(level, f"{direction}.media.added", text, pointer, direction=direction)
        for media in was.keys() & now.keys():
            before, after = below(old, "content", media), below(new, "content", media)
            if "schema" in before.schema and "schema" in after.schema:
                self._schemas.compare((below(before, "schema"),), (below(after, "schema"),), direction)
            elif "schema" in before.schema or "schema" in after.schema:
                text = "a schema was added or taken away"
                self._say(BREAKING, "media.schema", text, after.pointer, before.pointer, direction=direction)

    def _responses(self, identity: str, old: Part, new: Part) -> None:
        was, now = old.schema["responses"], new.schema["responses"]
        for status in was.keys() - now.keys():
            level = BREAKING if status.startswith("2") else ADDITIVE
            pointer = f"{old.pointer}/responses/{status}"
            self._say(level, "status.removed", f"{status} is never answered any more", pointer, direction=RESPONSE)
        for status in now.keys() - was.keys():
            level = ADDITIVE if status.startswith("3") else BREAKING
            pointer = f"{new.pointer}/responses/{status}"
            self._say(level, "status.added", f"{status} may be answered", pointer, direction=RESPONSE)
        for status in was:
            if status in now:
                before = self._old.follow(below(old, "responses", status))
                after = self._new.follow(below(new, "responses", status))
                self._answers.append((identity, status, before, after))

    def _headers(self, old: Part, new: Part) -> None:
        was, now = ({name.lower(): name for name in part.schema.get("headers", {})} for part in (old, new))
        for name in was.keys() - now.keys():
            pointer = f"{old.pointer}/headers/{was[name]}"
            self._say(BREAKING, "header.removed", f"the header {was[name]} is gone", pointer, direction=RESPONSE)
        for name in now.keys() - was.keys():
            pointer = f"{new.pointer}/headers/{now[name]}"
            self._say(ADDITIVE, "header.added", f"the header {now[name]} is new", pointer, direction=RESPONSE)
        for name in was.keys() & now.keys():
            before = self._old.follow(below(old, "headers", was[name]))
            after = self._new.follow(below(new, "headers", now[name]))
            self._schemas.compare((below(before, "schema"),), (below(after, "schema"),), RESPONSE)

    def _problems(self) -> None:
        was, now = (reader.documents.openapi.get("x-problem-codes", {}) for reader in (self._old, self._new))
        for code in was.keys() & now.keys():
            if was[code]["status"] != now[code]["status"]:
                text, pointer = f"{code} has another status", f"{ROOT}/x-problem-codes/{code}/status"
                self._say(BREAKING, "code.status", text, pointer, direction=RESPONSE)

    def _schemes(self) -> None:
        was, now = _schemes(self._old), _schemes(self._new)
        for name in was.keys() & now.keys():
            for keyword in SCHEME:
                if was[name].get(keyword) != now[name].get(keyword):
                    text, pointer = f"{name} is sent otherwise", f"{ROOT}/components/securitySchemes/{name}/{keyword}"
                    self._say(BREAKING, "security.scheme", text, pointer, direction=REQUEST)


def _operations(reader: Reader) -> dict[tuple[str, str], Part]:
    """By method and path, whose parameters are only places; `parameters` of the path are looked up by `_parameters`."""
    paths = Part(f"{ROOT}/paths", reader.documents.openapi["paths"])
    return {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path)): below(paths, path, method)
        for path, item in paths.schema.items()
        for method in METHODS
        if method in item
    }


def _parameters(reader: Reader, operation: Part) -> dict[tuple[str, str], tuple[str, Part]]:
    """By place and name: where it is listed, and the parameter itself. Names of headers have no case."""

    def listed(pointer: str, entries: list[Any]) -> Iterator[tuple[str, Part]]:
        for index, entry in enumerate(entries):
            place = f"{pointer}/parameters/{index}"
            yield place, reader.follow(Part(place, entry))

    path, item = operation.pointer.rpartition("/")[0], _item(reader, operation)
    own = operation.schema.get("parameters", [])
    found = [*listed(path, item.get("parameters", [])), *listed(operation.pointer, own)]
    return {
        (part.schema["in"], part.schema["name"].lower() if part.schema["in"] == "header" else part.schema["name"]): (
            place,
            part,
        )
        for place, part in found
    }


def _security(reader: Reader, operation: Part) -> set[frozenset[str]]:
    """What is enough to be let in: sets of schemes, the empty one where nothing is asked."""
    wanted = operation.schema.get("security", reader.documents.openapi.get("security", []))
    return {frozenset(requirement) for requirement in wanted} or {frozenset()}


def _schemes(reader: Reader) -> dict[str, dict[str, Any]]:
    """By name: how it is sent."""
    schemes = reader.documents.openapi["components"].get("securitySchemes", {})
    return {name: {keyword: scheme.get(keyword) for keyword in SCHEME} for name, scheme in schemes.items()}


def _servers(reader: Reader, operation: Part) -> Any:
    """Where an operation is, as far as it is elsewhere than the others."""
    return operation.schema.get("servers", _item(reader, operation).get("servers"))


def _item(reader: Reader, operation: Part) -> dict[str, Any]:
    """The path that an operation stands in."""
    path = operation.pointer.rpartition("/")[0].rpartition("/")[2]
    item: dict[str, Any] = reader.documents.openapi["paths"][path.replace("~1", "/").replace("~0", "~")]
    return item


def _above(*operations: Part) -> list[str]:
    """The `servers` of the operations and of their paths."""
    holders = [pointer for part in operations for pointer in (part.pointer, part.pointer.rpartition("/")[0])]
    return [f"{pointer}/servers" for pointer in holders]
