"""What goes back: answers of operations and problems (RFC 9457), with the headers that every response has."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict, istr

from generated.field_errors import FieldError
from generated.problems import PROBLEMS
from livebox.limits import retry_after
from livebox.trace import Trace

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
STATUS: Final = {"ok": 200, "created": 201, "accepted": 202, "no_content": 204}
"""Answer code of a success -> HTTP status."""

REQUEST_ID: Final = istr("Request-Id")
TRACEPARENT: Final = istr("traceparent")
ETAG: Final = istr("ETag")

MAX_INSTANCE: Final = 2000
MAX_ERRORS: Final = 100
BUSY_SECONDS: Final = 1.0
"""What Retry-After says when nothing better is known."""
_BUSY: Final = frozenset({"overloaded", "timeout", "unavailable"})
_BODYLESS: Final = frozenset({204, 304})
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}

_encode = msgspec.json.Encoder().encode


class Envelope(NamedTuple):
    """What every response to one request carries, and `instance`: the path that was asked for."""

    request_id: str
    trace: Trace
    instance: str


class Reply(web.StreamResponse):
    """A whole response, written at once.

    It takes the place of `aiohttp.web.Response`, whose generality (cookies, compression, chunks, payload types) costs
    a fifth of a small request. `more` are headers beside those that every response has; their values are our own.
    """

    def __init__(
        self, envelope: Envelope, status: int, media: str = "", body: bytes = b"", more: dict[str, str] | None = None
    ) -> None:
        # The constructor of the parent would only build what is not used here.
        self._status = status
        self.envelope = envelope
        self._media = media
        self.body = body
        self._more = more
        self._keep_alive: bool | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._status

    @property
    def headers(self) -> CIMultiDict[str]:
        """The headers as they are sent, for who looks at a response; nothing can be changed by it."""
        lines = self._head(True).decode().split("\r\n")[1:-2]
        return CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send it. Raises ConnectionResetError when the client has gone."""
        keep_alive = request.keep_alive and self._keep_alive is not False
        self._keep_alive = keep_alive
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        head = self._head(keep_alive and request.version >= HttpVersion11)
        transport.write(head if request.method == hdrs.METH_HEAD or not self.body else head + self.body)
        await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""

    def _head(self, keep_alive: bool) -> bytes:
        envelope, media = self.envelope, self._media
        head = (
            f"HTTP/1.1 {self._status} {_REASONS[self._status]}\r\n"
            f"Date: {_date()}\r\n"
            "Server: livebox\r\n"
            f"Request-Id: {envelope.request_id}\r\n"
            f"traceparent: {envelope.trace.traceparent}\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            f"Cache-Control: {'no-store' if media == PROBLEM_JSON else 'private, no-cache'}\r\n"
        )
        if media:
            head += f"Content-Type: {media}\r\n"
        if self._status not in _BODYLESS:
            head += f"Content-Length: {len(self.body)}\r\n"
        if not keep_alive:
            head += "Connection: keep-alive\r\n" if self._keep_alive else "Connection: close\r\n"
        if self._more:
            head += "".join([f"{name}: {value}\r\n" for name, value in self._more.items()])
        return (head + "\r\n").encode()


class _Clock:
    """What is made of the time, once for each second or millisecond."""

    __slots__ = ("date", "millisecond", "prefix", "second")

    def __init__(self) -> None:
        self.second = self.millisecond = 0
        self.date = self.prefix = ""


_clock = _Clock()


def _date() -> str:
    """The Date header."""
    now = int(time.time())
    if now != _clock.second:
        _clock.second, _clock.date = now, formatdate(now, usegmt=True)
    return _clock.date


def new_request_id() -> str:
    """A UUIDv7: sorts by time and names one request in answers and logs. It is no secret."""
    now = time.time_ns() // 1_000_000
    if now != _clock.millisecond:
        _clock.millisecond, _clock.prefix = now, f"{now >> 16:08x}-{now & 0xFFFF:04x}-7"
    noise = f"{random.getrandbits(72):018x}"
    return f"{_clock.prefix}{noise[:3]}-8{noise[3:6]}-{noise[6:]}"


class Refusal(Exception):
    """A request that gets a problem: its `code`, and what explains it.

    `wait` are seconds until a repeat makes sense; `headers` go along, and `extra` are members of the problem. Not for
    what is expected to happen often within one operation: the SQL layer returns its refusals.
    """

    def __init__(
        self,
        code: str,
        errors: Sequence[FieldError] = (),
        *,
        detail: str = "",
        wait: float = 0.0,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.code = code
        self.errors = errors
        self.detail = detail
        self.wait = wait
        self.headers = headers or {}
        self.extra = extra
        super().__init__(code)


def problem(
    envelope: Envelope,
    code: str,
    *,
    errors: Iterable[FieldError] = (),
    detail: str = "",
    wait: float = 0.0,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Reply:
    """The problem `code`. `extra` are members that the SQL layer added; it never holds a null."""
    status = PROBLEMS[code][0]
    document = problem_document(
        code,
        envelope.instance,
        envelope.request_id,
        errors=errors,
        detail=detail,
        wait=wait,
        extra=extra,
    )
    more: dict[str, str] = dict(headers or {})
    if wait or code in _BUSY:
        more["Retry-After"] = retry_after(wait or BUSY_SECONDS)
    if status == HTTPStatus.UNAUTHORIZED:
        more["WWW-Authenticate"] = f'Bearer error="{code}"'
    return Reply(envelope, status, PROBLEM_JSON, _encode(document), more)


def refused(envelope: Envelope, refusal: Refusal) -> Reply:
    """The problem that a refusal is told as."""
    return problem(
        envelope,
        refusal.code,
        errors=refusal.errors,
        detail=refusal.detail,
        wait=refusal.wait,
        headers=refusal.headers,
        extra=refusal.extra,
    )


def problem_document(
    code: str,
    instance: str,
    request_id: str,
    *,
    errors: Iterable[FieldError] = (),
    detail: str = "",
    wait: float = 0.0,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The members of the problem `code` (RFC 9457), as `problem` and the error frames of the gateway show them."""
    status, title = PROBLEMS[code]
    document: dict[str, Any] = {
        "type": f"urn:livebox:problem:{code}",
        "title": title,
        "status": status,
        "code": code,
        "instance": instance,
        "request_id": request_id,
    }
    if detail:
        document["detail"] = detail
    told = [
        {"code": error.code, error.where: error.name, "message": error.message}
        for error, _ in zip(errors, range(MAX_ERRORS), strict=False)
    ]
    if told:
        document["errors"] = told
    if extra:
        document = {**extra, **document}
    if code in _BUSY and not wait:
        wait = BUSY_SECONDS
    if wait:
        document["retry_after_ms"] = max(1, round(wait * 1000))
    return document


_ETAGS: Final = re.compile(r'(?:W/)?"([^"]*)"')


def is_current(if_none_match: str, tag: str) -> bool:
    """Does If-None-Match (RFC 9110, 13.1.2) name `tag`, the opaque tag without quotes? Compared weakly."""
    if if_none_match.strip() == "*":
        return True
    return any(match[1] == tag for match in _ETAGS.finditer(if_none_match))


def with_member(body: bytes, name: str, value: Any) -> bytes:
    """The JSON object `body` with one member more."""
    comma = b"" if body.rstrip().endswith(b"{}") else b","
    return body.rstrip()[:-1] + comma + _encode(name) + b":" + _encode(value) + b"}"


def members(body: bytes | None) -> dict[str, Any]:
    """The members that the SQL layer adds to a problem."""
    return msgspec.json.decode(body, type=dict[str, Any]) if body else {}
