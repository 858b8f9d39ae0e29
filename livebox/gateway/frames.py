"""The frames of the gateway: reading those of clients, making those of the server, as bytes ready to be sent.

A frame is encoded once, whoever gets it: the bytes hold the header of the WebSocket message too, so that they can be
written to any number of transports as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from generated.field_errors import FieldError, field_error
from generated.gateway_messages import MESSAGES
from generated.validators import Checker, checker
from livebox import json_text
from livebox.json_text import JsonRefused
from livebox.responses import new_request_id, problem_document

PATH: Final = "/v1/gateway"
LARGE: Final = 64 * 1024
"""Bytes from which a frame is parsed in a thread, so that others go on meanwhile."""

_CHECKERS: Final[Mapping[str, Checker]] = {
    name: checker(message.schema) for name, message in MESSAGES.items() if message.sender == "client"
}
_FRAME_ID: Final = re.compile(r"[\x20-\x7e]{1,64}", re.ASCII)

# What is wrong with a patch as a frame, not as a patch.
_OF_FRAME: Final = re.compile(r"/(?:type|id|run_id|invocation)(?:/|$)").match

_encode: Final = msgspec.json.Encoder().encode


class Frame:
    """One frame of the server, ready to be written.

    `run_id` names the run of a frame that a slow device may miss, because a fresh document makes good for it; it is
    empty for everything that must arrive.
    """

    __slots__ = ("data", "run_id")

    def __init__(self, payload: bytes, run_id: str = "") -> None:
        self.data = message(payload)
        self.run_id = run_id


class TextInvalid(Exception):
    """The frame is not UTF-8."""


class FrameRefused(Exception):
    """A frame that breaks the contract: the problem to tell, and the id of the frame where it could be read.

    `patch` is the frame, where it is a patch of which other things have to be told first (its token, the run's end).
    """

    def __init__(
        self,
        code: str,
        errors: Iterable[FieldError] = (),
        *,
        reply_to: str = "",
        detail: str = "",
        patch: dict[str, Any] | None = None,
    ) -> None:
        self.patch = patch
        self.code = code
        self.errors = list(errors)
        self.reply_to = reply_to
        self.detail = detail
        super().__init__(code)


def message(payload: bytes) -> bytes:
    """A text message of the WebSocket protocol (RFC 6455, 5.2), unmasked and in one piece."""
    length = len(payload)
    if length < 126:
        return b"\x81" + length.to_bytes(1, "big") + payload
    if length < 65536:
        return b"\x81\x7e" + length.to_bytes(2, "big") + payload
    return b"\x81\x7f" + length.to_bytes(8, "big") + payload


def made(kind: str, members: Mapping[str, Any], *, reply_to: str = "") -> Frame:
    """A frame of the type `kind`; values may be `msgspec.Raw`, which is passed on as it stands."""
    head = {"type": kind, "reply_to": reply_to} if reply_to else {"type": kind}
    return Frame(_encode({**head, **members}))


def event(body: bytes) -> Frame:
    """An event, whose envelope is JSON already."""
    return Frame(b'{"type":"event","event":' + body + b"}")


def document(body: bytes, run_id: str) -> Frame:
    """A run, whole; `body` is its JSON. It can be sent again at any time, so a slow device may miss it."""
    return Frame(b'{"type":"run.document","run":' + body + b"}", run_id)


def error(
    code: str,
    *,
    reply_to: str = "",
    errors: Iterable[FieldError] = (),
    detail: str = "",
    wait: float = 0.0,
    extra: Mapping[str, Any] | None = None,
) -> Frame:
    """The problem `code`, as REST would tell it; `wait` in seconds."""
    problem = problem_document(code, PATH, new_request_id(), errors=errors, detail=detail, wait=wait, extra=extra)
    return made("error", {"problem": problem}, reply_to=reply_to)


def refusal(refused: FrameRefused) -> Frame:
    """The error that a refused frame gets."""
    return error(refused.code, reply_to=refused.reply_to, errors=refused.errors, detail=refused.detail)


def read(raw: bytes) -> dict[str, Any]:
    """The frame of a client, which keeps the contract. Raises TextInvalid or FrameRefused.

    Where a member stands twice the last one counts.
    """
    found: list[FieldError] = []
    try:
        value = json_text.read(raw, last_wins=True)
    except JsonRefused as refused:
        try:
            raw.decode()
        except UnicodeDecodeError:
            raise TextInvalid from None
        found = [FieldError(finding.code, "pointer", finding.pointer, finding.message) for finding in refused.findings]
        value = refused.value
        if not refused.readable or not (isinstance(value, dict) and value.get("type") == "run.update"):
            code = "validation_failed" if refused.readable else "invalid_json"
            named = reply_to(value) if refused.readable and isinstance(value, dict) else ""
            raise FrameRefused(code, found, reply_to=named) from None
    if type(value) is not dict:
        raise FrameRefused("validation_failed", [field_error("wrong_type", "pointer", "")])
    check = _CHECKERS.get(kind) if isinstance(kind := value.get("type"), str) else None
    if check is None:
        fault = "not_allowed_value" if isinstance(kind, str) else "wrong_type" if "type" in value else "required"
        raise FrameRefused("validation_failed", [field_error(fault, "pointer", "/type")], reply_to=reply_to(value))
    if found or not check.is_valid(value):
        errors = [*found, *(error for error in check(value) if error.name not in {known.name for known in found})]
        patch = value if kind == "run.update" and not any(_OF_FRAME(error.name) for error in errors) else None
        raise FrameRefused("validation_failed", errors, reply_to=reply_to(value), patch=patch)
    return value


def reply_to(value: Mapping[str, Any]) -> str:
    """The id that an answer to this frame repeats; empty when it has none that could be repeated."""
    found = value.get("id")
    return found if isinstance(found, str) and _FRAME_ID.fullmatch(found) else ""
