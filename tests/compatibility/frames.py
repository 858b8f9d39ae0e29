"""Frames of the gateway compared: what a client sends is a request, what the server sends a response."""

from __future__ import annotations

from typing import Any

from livebox.codegen.documents import ASYNCAPI
from tests.compatibility.report import ADDITIVE, BOTH, BREAKING, REQUEST, RESPONSE, Report
from tests.compatibility.schemas import Schemas
from tests.compatibility.view import Part, Reader, below

ROOT = f"{ASYNCAPI}#"
#: From which code on a client does not come back, as far as the codes are our own.
OWN, FINAL = 4000, 4500
#: What says how a frame is sent, in its message and in its operation.
FORM = ("contentType", "headers", "bindings", "correlationId", "traits")
WAY = ("security", "bindings", "reply", "traits")


class Frames:
    """Compares the gateway of `old` with that of `new`."""

    def __init__(self, old: Reader, new: Reader, schemas: Schemas, report: Report) -> None:
        self._old, self._new = old, new
        self._schemas = schemas
        self._report = report

    def compare(self) -> None:
        """Report what has changed."""
        self._channels()
        self._ways()
        was, now = _messages(self._old), _messages(self._new)
        for (direction, name), part in was.items():
            self._report.used_by = f"frame {name}"
            if (direction, name) in now:
                after = now[direction, name]
                self._form(name, part, after, FORM, direction)
                self._schemas.compare((below(part, "payload"),), (below(after, "payload"),), direction)
            else:
                text = f"the frame {name} is {'not taken' if direction == REQUEST else 'never sent'} any more"
                self._report.add(BREAKING, f"{direction}.frame.removed", text, part.pointer, direction=direction)
        for (direction, name), part in now.items():
            if (direction, name) not in was:
                self._report.used_by = f"frame {name}"
                level = ADDITIVE if direction == REQUEST else BREAKING
                text = f"the frame {name} may be sent"
                self._report.add(level, f"{direction}.frame.added", text, part.pointer, direction=direction)
        self._report.used_by = ""
        self._closes()

    def _channels(self) -> None:
        was, now = (reader.documents.asyncapi.get("channels", {}) for reader in (self._old, self._new))
        addresses = {channel["address"]: name for name, channel in now.items()}
        for name, channel in was.items():
            if channel["address"] not in addresses:
                text = f"nothing is at {channel['address']} any more"
                self._report.add(BREAKING, "channel.removed", text, f"{ROOT}/channels/{name}/address")
            elif channel.get("bindings") != now[addresses[channel["address"]]].get("bindings"):
                text = "how the connection is made has changed"
                self._report.add(BREAKING, "channel.bindings", text, f"{ROOT}/channels/{name}/bindings")
        for name, rule in (("defaultContentType", "frame.media"), ("servers", "root.changed")):
            if self._old.documents.asyncapi.get(name) != self._new.documents.asyncapi.get(name):
                self._report.add(BREAKING, rule, f"{name} has changed", f"{ROOT}/{name}")

    def _ways(self) -> None:
        """Operations that are still there but take or send their frames in another way."""
        was, now = (_operations(reader) for reader in (self._old, self._new))
        there = {channel["address"] for channel in self._new.documents.asyncapi.get("channels", {}).values()}
        for key in was.keys() & now.keys():
            direction = REQUEST if key[0] == "receive" else RESPONSE
            self._form(f"the operation of {key[1]}", was[key], now[key], WAY, direction)
            old, new = _address(self._old, was[key]), _address(self._new, now[key])
            if old != new and old in there:
                text, pointer = f"{key[1]} goes over {new}, no longer over {old}", f"{now[key].pointer}/channel"
                self._report.add(BREAKING, "channel.moved", text, pointer, direction=direction)

    def _form(self, name: str, old: Part, new: Part, keywords: tuple[str, ...], direction: str) -> None:
        for keyword in keywords:
            if old.schema.get(keyword) != new.schema.get(keyword):
                text, places = (
                    f"{keyword} of {name} has changed",
                    (f"{new.pointer}/{keyword}", f"{old.pointer}/{keyword}"),
                )
                self._report.add(BREAKING, "frame.media", text, *places, direction=direction)

    def _closes(self) -> None:
        was, now = (reader.documents.asyncapi.get("x-close-codes", {}) for reader in (self._old, self._new))
        for code, close in now.items():
            pointer = f"{ROOT}/x-close-codes/{code}"
            if code not in was:
                expected = int(code) >= OWN and close["reconnect"] == (int(code) < FINAL)
                text = f"a session may end with {code}" + ("" if expected else ", which its range does not explain")
                level, rule = (ADDITIVE, "close.added") if expected else (BREAKING, "close.added_unexpected")
                self._report.add(level, rule, text, pointer, direction=RESPONSE)
                continue
            for member in ("reconnect", "name"):
                if was[code][member] != close[member]:
                    text = f"{member} of {code} was {was[code][member]}, is {close[member]}"
                    self._report.add(BREAKING, f"close.{member}", text, f"{pointer}/{member}", direction=RESPONSE)
        for code in was.keys() - now.keys():
            text = f"no session ends with {code} any more"
            self._report.add(ADDITIVE, "close.removed", text, f"{ROOT}/x-close-codes/{code}", direction=BOTH)


def _messages(reader: Reader) -> dict[tuple[str, str], Part]:
    """Every frame by direction and name. The server's `receive` operations are what a client sends."""
    found: dict[tuple[str, str], Part] = {}
    operations: dict[str, Any] = reader.documents.asyncapi.get("operations", {})
    for identity, operation in operations.items():
        direction = REQUEST if operation["action"] == "receive" else RESPONSE
        for index, entry in enumerate(operation.get("messages", [])):
            part = reader.follow(Part(f"{ROOT}/operations/{identity}/messages/{index}", entry))
            found[direction, part.schema.get("name", part.pointer.rpartition("/")[2])] = part
    return found


def _operations(reader: Reader) -> dict[tuple[str, str], Part]:
    """Every operation by its action and the name of its frame."""
    found: dict[tuple[str, str], Part] = {}
    operations: dict[str, Any] = reader.documents.asyncapi.get("operations", {})
    for identity, operation in operations.items():
        for index, entry in enumerate(operation.get("messages", [])):
            message = reader.follow(Part(f"{ROOT}/operations/{identity}/messages/{index}", entry))
            name = message.schema.get("name", message.pointer.rpartition("/")[2])
            found[operation["action"], name] = Part(f"{ROOT}/operations/{identity}", operation)
    return found


def _address(reader: Reader, operation: Part) -> Any:
    """Where the channel of an operation is; None where it names none."""
    if "channel" not in operation.schema:
        return None
    return reader.follow(below(operation, "channel")).schema.get("address")
