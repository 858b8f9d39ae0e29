"""The two readers of one contract: production's edge with stubs in place of everything behind it, and connexion.

Both get the same request object, in this process and without a socket. Each gives the status of its answer.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import MagicMock

from aiohttp import HttpVersion11
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from db import Answer, Caller
from generated.operations import OPERATIONS, Operation
from livebox.auth import INVALID, Unauthenticated
from livebox.bodies import Bodies
from livebox.edge import PATCH, Edge, Handler, Incoming
from livebox.mock.asgi import App, ask, scope_of
from livebox.mock.judge import patch_errors
from livebox.mock.rest import DOCUMENT, EXTENSION, Share, application
from livebox.responses import Envelope, Refusal
from livebox.settings import Settings
from livebox.trace import Trace
from tests.contract.parity_corpus import Case

MAX_BODY: Final = 16 * 1024**2
"""Bytes; above those of the longest list that the contract takes."""


class _Anybody:
    """Takes any token, and no missing one."""

    def known(self, header: str) -> Caller | None:
        return Caller("somebody") if header.startswith("Bearer ") else None

    async def authenticate(self, header: str | None) -> Caller:
        raise Unauthenticated(INVALID)


class _Unlimited:
    """No limit."""

    def wait(self, key: object) -> float:
        return 0.0

    take = wait


def _invocation(token: str, run_id: str) -> object:
    if not token:
        raise Unauthenticated(INVALID)
    return object()


def _handler(operation: Operation) -> Handler:
    """Takes what the edge lets through; of a patch the live plane judges the rest."""

    async def answer(context: Any, parameters: Any, body: Any = None) -> Answer:
        if operation.id == PATCH:
            errors = patch_errors(body, context._arrived.errors, context._arrived.size)
            if errors:
                raise Refusal("validation_failed", errors)
        return Answer("ok", b"{}")

    return answer


def edge() -> Edge:
    """Production's edge, with nothing behind it."""
    settings = Settings.load({})
    plant: Any = SimpleNamespace(
        settings=settings,
        telemetry=SimpleNamespace(request=lambda *_: None),
        cursors=SimpleNamespace(open=lambda *_: {}),
        invocations=SimpleNamespace(verify=_invocation),
    )
    free: Any = _Unlimited()
    limits = dict.fromkeys(("read", "write", "patch"), free)
    handlers = {name: _handler(operation) for name, operation in OPERATIONS.items()}
    return Edge(plant, handlers, cast(Any, _Anybody()), limits, free, Bodies(MAX_BODY, 1.0))


def connexion() -> App:
    """The other reader, on the contract in OpenAPI 3.0."""
    return application(json.loads(DOCUMENT.read_bytes()))


def incoming(case: Case) -> Incoming:
    """The request as a server gets it."""
    loop = asyncio.get_running_loop()
    headers = CIMultiDict({"Host": "localhost", **case.headers})
    raw = tuple((name.encode(), value.encode()) for name, value in headers.items())
    url = URL(case.target, encoded=True)
    message = RawRequestMessage(
        case.method, case.target, HttpVersion11, CIMultiDictProxy(headers), raw, False, None, False, False, url
    )
    payload = EMPTY_PAYLOAD
    if case.body:
        payload = StreamReader(BaseProtocol(loop), 2**16, loop=loop)
        payload.feed_data(case.body)
        payload.feed_eof()
    transport = SimpleNamespace(get_extra_info=lambda name, *_: ("127.0.0.1", 1) if name == "peername" else None)
    protocol: Any = MagicMock(transport=transport, ssl_context=None, peername=("127.0.0.1", 1))
    return Incoming(message, payload, protocol, cast(Any, None), cast(Any, None), loop)


async def edge_status(reader: Edge, case: Case) -> int:
    """What production answers."""
    return (await reader.handle(incoming(case))).status


async def connexion_status(reader: App, case: Case) -> int:
    """What connexion answers."""
    share = Share(Envelope("", Trace.of(None), ""))
    raw = case.body or b""
    return (await ask(reader, scope_of(incoming(case), raw, {EXTENSION: share}), raw)).status
