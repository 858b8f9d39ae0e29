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


class Frames:
    """Compares the gateway of `old` with that of `new`."""

    def __init__(self, old: Reader, new: Reader, schemas: Schemas, report: Report) -> None:
        self._old, self._new = old, new
        self._schemas = schemas
        self._report = report

    def compare(self) -> None:
        """Report what has changed."""
        self._channels()
        was, now = _messages(self._old), _messages(self._new)
        for (direction, name), part in was.items():
            self._report.used_by = f"frame {name}"
            if (direction, name) in now:
                after = now[direction, name]
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
        if self._old.documents.asyncapi.get("defaultContentType") != self._new.documents.asyncapi.get(
            "defaultContentType"
        ):
            self._report.add(BREAKING, "frame.media", "frames have another form", f"{ROOT}/defaultContentType")

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
