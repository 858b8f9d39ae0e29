"""The HTTP layer by itself: our way of a request against a bare aiohttp handler, in one loop, without a database."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import uvloop
from aiohttp import web

from db import Answer, Caller
from livebox.app import App
from livebox.server import Server
from livebox.settings import Settings
from tests.bench.load import Job, offer, request
from tests.bench.plan import Plan
from tests.bench.report import Detail, Findings, Row
from tests.bench.samples import Rate, median_rate, rate, server_ratios

CALLERS: Final = 8
_ROOMY: Final = {f"rl.{name}.{what}": 1_000_000 for name in ("read", "write") for what in ("rate", "burst")}
_RUN: Final = "01900000-0000-7000-8000-000000000001"
_THREAD: Final = "01900000-0000-7000-8000-000000000002"
_PERSON: Final = "01900000-0000-7000-8000-000000000003"
_BODY: Final = json.dumps(
    {
        "schema": "run_document.v1",
        "id": _RUN,
        "thread_id": _THREAD,
        "agent_id": _PERSON,
        "state": "running",
        "version": 3,
        "headline": "Reading the folder",
        "steps": {f"01900000-0000-7000-8000-00000000010{n}": {"kind": "tool", "name": "read"} for n in range(8)},
    }
).encode()
_GET: Final = (
    "a bare handler asks nobody who they are; ours reads the token and the rate limit and gives each answer its ids and"
    " headers. Runs of this varied from 0.79 to 1.01"
)
_HEADERS: Final = {"Authorization": "Bearer lbx_measured"}


class _Readers:
    """In the place of the database: the answer is there at once."""

    async def call(self, function: str, caller: Caller | None, args: dict[str, Any]) -> Answer:
        if function == "authenticate_token":
            return Answer("ok", json.dumps({"principal": _PERSON, "token": _RUN}).encode())
        return Answer("ok", _BODY, 3)


class _Lane:
    async def submit(self, operation: str, caller: Caller, args: dict[str, Any]) -> Answer:
        return Answer("created", _BODY, 1)


class _Writer:
    async def run(self, statement: str, *values: object) -> list[tuple[int, None]]:
        return [(int(time.time() * 1_000_000), None)]  # the touch of a server that starts


def measure(plan: Plan) -> Findings:
    """GET and POST of both, in turns, by requests per CPU second of the process that serves them."""
    rates = uvloop.run(_measure(plan))
    bare = "bare aiohttp handler"
    rows = [
        Row(
            "HTTP layer, GET", bare, server_ratios(rates["GET, Livebox"], rates["GET, bare"]), at_least=0.85, note=_GET
        ),
        Row("HTTP layer, POST", bare, server_ratios(rates["POST, Livebox"], rates["POST, bare"]), at_least=0.8),
    ]
    return Findings(rows, [Detail(f"HTTP layer: {name}", median_rate(found)) for name, found in rates.items()])


async def _measure(plan: Plan) -> dict[str, list[Rate]]:
    with tempfile.TemporaryDirectory() as folder:
        app = App(Settings.load({}, {"data": folder, **_ROOMY}), "")
        database: Any = app.database
        database.readers, database.lane, database.writer = _Readers(), _Lane(), _Writer()
        await app._availability.touch()
        ours = Server(app.edge, "127.0.0.1", 0, 0)
        await ours.start()
        runner, port = await _bare()
        rates: dict[str, list[Rate]] = {}
        try:
            for _ in range(plan.rounds):
                for method in ("GET", "POST"):
                    requests = [_requests(method, plan.requests) for _ in range(CALLERS)]
                    for name, where in (("bare", port), ("Livebox", ours.port)):
                        rates.setdefault(f"{method}, {name}", []).append(await _offer(where, requests))
        finally:
            await runner.cleanup()
            await ours.stop()
            app.telemetry.close()
    return rates


async def _bare() -> tuple[web.AppRunner, int]:
    """What aiohttp does for a handler that reads the body and answers with bytes: routing, no checks."""

    async def get(request: web.Request) -> web.Response:
        return web.Response(body=_BODY, content_type="application/json")

    async def post(request: web.Request) -> web.Response:
        await request.json()
        return web.Response(body=_BODY, status=201, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/runs/{run_id}", get)
    app.router.add_post("/v1/threads/{thread_id}/messages", post)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, runner.addresses[0][1]


def _requests(method: str, count: int) -> list[bytes]:
    if method == "GET":
        return [request("GET", f"/v1/runs/{_RUN}", _HEADERS)] * count
    body = {"body": "Please look at the folder and say what is in it.", "client_msg_id": str(uuid.uuid4())}
    return [request("POST", f"/v1/threads/{_THREAD}/messages", _HEADERS, json.dumps(body).encode())] * count


async def _offer(port: int, requests: Sequence[list[bytes]]) -> Rate:
    before = time.process_time()
    outcome = await offer(Job(port, list(requests)))
    used = time.process_time() - before
    if not set(outcome.statuses) <= {200, 201}:
        raise RuntimeError(f"unexpected answers {outcome.statuses}: {outcome.sample!r}")
    return Rate(rate(outcome.completions), used / sum(len(each) for each in requests))
