"""One HTTP connection to a Livebox server: sends operations of the contract, and repeats them until they are answered.

A repeat is safe: whatever creates something carries a key or an id that the client chose, so that the same request is
answered with what the first one made.
"""

from __future__ import annotations

import asyncio
import errno
import random
import uuid
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from generated.operations import OPERATIONS, Operation
from livebox.client.problems import Problem, Unreachable

_BUSY: Final = frozenset({429, 502, 503, 504})
_FIRST_PAUSE: Final = 0.05  # seconds; doubles up to the longest
_LONGEST_PAUSE: Final = 2.0
_NO_ANSWER: Final = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


class Reply(NamedTuple):
    """An answer of success: its status and its decoded body, None where it has none."""

    status: int
    body: Any


class Connection:
    """Sends requests of one principal. `patience` is how many seconds a request is repeated while there is no answer or
    the server is too busy; 0 tries once. `timeout` is how many seconds one try may take."""

    def __init__(self, url: str, token: str, *, patience: float = 30.0, timeout: float = 20.0) -> None:
        self._base = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, application/problem+json"}
        self._patience = patience
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(
        self,
        operation_id: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        patience: float | None = None,
    ) -> Reply:
        """Send one operation of the contract by its id, and give its answer. `patience` is that of this request alone.

        Raises Problem when the server refuses it, Unreachable when no answer came within the patience.
        """
        operation = OPERATIONS[operation_id]
        names = {name: quote(value, safe="") for name, value in (path or {}).items()}
        url = URL(self._base + operation.path.format(**names), encoded=True)
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None}
        sent = {**self._headers, **(headers or {})}
        if operation.idempotent:
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        data = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        end = asyncio.get_running_loop().time() + (self._patience if patience is None else patience)
        return await self._answered(operation, url.update_query(parameters), sent, data, end)

    async def _items(
        self, operation_id: str, path: Mapping[str, str], query: Mapping[str, str | int | None] | None = None
    ) -> AsyncIterator[Any]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = (await self.call(operation_id, path=path, query={**(query or {}), "cursor": cursor})).body
            for item in page["items"]:
                yield item
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def _answered(
        self, operation: Operation, url: URL, headers: Mapping[str, str], data: bytes | None, end: float
    ) -> Reply:
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._once(operation, url, headers, data)
            except Problem as problem:
                wait = max(problem.retry_after or 0.0, pause)
                if problem.status not in _BUSY or loop.time() + wait > end:
                    raise
            except _NO_ANSWER as error:
                wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - so that clients do not come back all at once
                if loop.time() + wait > end:
                    raise Unreachable(f"no answer from {self._base}: {_why(error)}") from error
            await asyncio.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _once(self, operation: Operation, url: URL, headers: Mapping[str, str], data: bytes | None) -> Reply:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        async with self._session.request(
            operation.method, url, headers=headers, data=data, allow_redirects=False
        ) as answer:
            content = await answer.read()
            if answer.status in operation.success or answer.status == 304:
                return Reply(answer.status, _decoded(content) if content and "json" in answer.content_type else None)
            raise _problem(answer.status, content, answer.headers.get("Retry-After", ""))


def _why(error: Exception) -> str:
    """In plain words what kept the answer away, where they are known."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno == errno.ECONNREFUSED:
        return "connection refused; is `livebox serve` running there?"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "there is no host of that name"
    return str(error) or type(error).__name__


def _decoded(content: bytes) -> Any:
    return msgspec.json.decode(content)


def _problem(status: int, content: bytes, retry_after: str) -> Problem:
    try:
        document = _decoded(content)
    except msgspec.DecodeError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    if "retry_after_ms" in document:
        return Problem.of(status, document, document["retry_after_ms"] / 1000)
    return Problem.of(status, document, float(retry_after) if retry_after.isdecimal() else None)
