"""What the process knows about itself: whether it can work, what it measured, its documents and public keys."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, Literal

import msgspec

import generated
from db import Answer, Database, DatabaseError
from livebox.invocations import Invocations
from livebox.telemetry import ActiveRuns, Telemetry

DOCUMENT: Final = "document"
"""Resource kind of an answer whose `resource_id` is the digest that makes its ETag."""
NOT_READY: Final = "not_ready"
PATIENCE: Final = 2.0
"""Seconds in which a database that is ready answers, and commits."""

_FOLDER: Final = Path(generated.__file__).parent
_FILES: Final = {"openapi": "openapi.json", "asyncapi": "asyncapi.json"}


class Service:
    """Implements `handlers.context.Service`. `stopping` is set when the server begins to stop."""

    def __init__(self, database: Database, telemetry: Telemetry, invocations: Invocations) -> None:
        self._database = database
        self._telemetry = telemetry
        self.stopping = False
        self._keys = Answer("ok", msgspec.json.encode(invocations.document()))
        self._documents = {name: _document((_FOLDER / file).read_bytes()) for name, file in _FILES.items()}

    async def readiness(self) -> Answer:
        """Body `Readiness`; code ok, or NOT_READY: the database does not answer, nothing is committed, or it stops."""
        database, lane = await asyncio.gather(_within(self._database.ping()), _within(self._database.lane.check()))
        status = "stopping" if self.stopping else "ready" if database and lane else NOT_READY
        checks = {"database": "ok" if database else "failed", "lane": "ok" if lane else "failed"}
        body = msgspec.json.encode({"status": status, "checks": checks})
        return Answer("ok" if status == "ready" else NOT_READY, body)

    async def metrics(self) -> Answer:
        """Everything measured, as Prometheus text."""
        with contextlib.suppress(DatabaseError):
            # Without the database the gauge shows what it showed; the rest is in memory.
            answer = await self._database.readers.call("count_active_runs", None, {})
            self._telemetry.active(msgspec.json.decode(answer.body or b"[]", type=list[ActiveRuns]))
        return Answer("ok", self._telemetry.exposition())

    def document(self, name: Literal["openapi", "asyncapi"]) -> Answer:
        """One of the two contract documents as JSON."""
        return self._documents[name]

    def keys(self) -> Answer:
        """Body `Jwks`: the public keys of invocation tokens."""
        return self._keys


async def _within(answer: Awaitable[object]) -> bool:
    """Does it come in time, and well?"""
    try:
        async with asyncio.timeout(PATIENCE):
            await answer
    except (DatabaseError, TimeoutError):
        return False
    return True


def _document(text: bytes) -> Answer:
    return Answer("ok", text, resource_kind=DOCUMENT, resource_id=hashlib.sha256(text).hexdigest())


def openapi_document() -> bytes:
    """The REST contract as JSON."""
    return (_FOLDER / _FILES["openapi"]).read_bytes()
