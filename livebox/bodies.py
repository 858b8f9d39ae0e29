"""Reading the body of a request: bounded, of the right media type, uncompressed, and JSON that we take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.message import Message
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestPayloadError

from generated.field_errors import FieldError, field_error
from generated.operations import Operation
from livebox import json_text
from livebox.json_text import JsonRefused
from livebox.responses import Refusal

LARGE: Final = 64 * 1024
"""Bytes from which a body is parsed in a thread, so that other requests go on meanwhile."""

_PLAIN: Final = frozenset({"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"})


class Bodies:
    """Reads the JSON bodies of one server. `max_bytes` is the largest; `patience` the seconds one may take to come."""

    def __init__(self, max_bytes: int, patience: float) -> None:
        self._max_bytes = max_bytes
        self._patience = patience

    async def read(
        self, request: web.BaseRequest, operation: Operation, schema_errors: Callable[[object], list[FieldError]]
    ) -> tuple[Any, list[FieldError]]:
        """The body, None when it is absent, and what in it breaks the contract.

        Raises Refusal for a body that cannot be taken at all: 413, 415, unreadable JSON, or one that is missing.
        """
        body, errors, _ = await self._read(request, operation, schema_errors, late=False)
        return body, errors

    async def read_late(
        self, request: web.BaseRequest, operation: Operation, schema_errors: Callable[[object], list[FieldError]]
    ) -> tuple[Any, list[FieldError], int]:
        """The same and the bytes of the body, for who has to say other things first: a body that can be read but is
        not taken (nulls, numbers, texts) is an error among the others.
        """
        return await self._read(request, operation, schema_errors, late=True)

    async def _read(
        self,
        request: web.BaseRequest,
        operation: Operation,
        schema_errors: Callable[[object], list[FieldError]],
        *,
        late: bool,
    ) -> tuple[Any, list[FieldError], int]:
        if not request.body_exists:
            return _absent(operation)
        headers = request.headers
        if headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower() != "identity":
            raise Refusal(
                "unsupported_media_type",
                detail="Compressed bodies are not taken.",
                headers={"Accept-Encoding": "identity"},
            )
        media = headers.get(hdrs.CONTENT_TYPE, "")
        if media not in _PLAIN and not _is_taken(media, operation.body_media):
            if not media and not (await self.bytes_of(request)):
                return _absent(operation)
            raise Refusal("unsupported_media_type", headers={"Accept": ", ".join(operation.body_media)})
        raw = await self.bytes_of(request)
        if not raw:
            return _absent(operation)
        try:
            value = json_text.read(raw) if len(raw) < LARGE else await asyncio.to_thread(json_text.read, raw)
        except JsonRefused as refused:
            errors = [FieldError(found.code, "pointer", found.pointer, found.message) for found in refused.findings]
            if late and refused.readable and refused.value is not None:
                return refused.value, [*errors, *schema_errors(refused.value)], len(raw)
            raise Refusal("validation_failed" if refused.readable else "invalid_json", errors) from None
        return value, schema_errors(value), len(raw)

    async def refuse(self, request: web.BaseRequest) -> list[FieldError]:
        """The error of a body where the operation takes none; nothing may be ignored in silence."""
        if request.body_exists and await self.bytes_of(request):
            return [field_error("unknown_field", "pointer", "")]
        return []

    async def bytes_of(self, request: web.BaseRequest) -> bytes:
        """The body as it came. Raises Refusal for one that is too large or does not arrive."""
        content = request.content
        if content.is_eof():
            # Everything is here already, which is the rule for small bodies.
            raw = content.read_nowait()
        else:
            if int(request.headers.get(hdrs.CONTENT_LENGTH, 0)) > self._max_bytes:
                raise self._too_large()
            raw = await self._arriving(request)
        if len(raw) > self._max_bytes:
            raise self._too_large()
        return raw

    def _too_large(self) -> Refusal:
        return Refusal("body_too_large", detail=f"The limit is {self._max_bytes} bytes.")

    async def _arriving(self, request: web.BaseRequest) -> bytes:
        raw = bytearray()
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(self._patience):
                while len(raw) <= self._max_bytes:
                    chunk = await request.content.readany()
                    if not chunk:
                        break
                    raw += chunk
        except TimeoutError:
            raise Refusal("invalid_json", detail="The body did not arrive in time.") from None
        except RequestPayloadError:
            raise Refusal("invalid_json", detail="The body is not framed as HTTP wants it.") from None
        return bytes(raw)


def _absent(operation: Operation) -> tuple[None, list[FieldError], int]:
    return None, [field_error("required", "pointer", "")] if operation.body_required else [], 0


def _is_taken(media: str, taken: tuple[str, ...]) -> bool:
    """Is a Content-Type one of `taken`, in any case and spelling, with no charset but UTF-8?"""
    message = Message()
    message[hdrs.CONTENT_TYPE] = media
    kind = media.partition(";")[0].strip().lower()
    if kind not in taken:
        return False
    charset = message.get_param("charset", "utf-8")
    return isinstance(charset, str) and charset.strip().lower() in ("utf-8", "utf8")
