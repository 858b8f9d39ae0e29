"""The composition root: makes every part of the server from the configuration, starts and stops them in order."""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from db import Answer, Database
from db.notify import Listener, Poke, Poker
from generated import handlers as contract
from generated.operations import OPERATIONS
from generated.validators import DOCUMENT
from livebox import jwks
from livebox.auth import Authenticator, Issuer
from livebox.bodies import Bodies
from livebox.context import Plant
from livebox.cursors import Cursors
from livebox.edge import Edge, Handler, ResponseCheck
from livebox.gateway.entrance import Entrance
from livebox.gateway.feed import Feed
from livebox.gateway.hub import Hub
from livebox.gateway.presence import Presence
from livebox.gateway.rights import Rights
from livebox.gateway.work import Work
from livebox.invocations import Invocations
from livebox.jobs.availability import Availability
from livebox.jobs.consequences import Consequences
from livebox.jobs.life import Life
from livebox.jobs.outage import Outage
from livebox.jobs.reaper import Reaper
from livebox.jobs.retention import Retention
from livebox.keyring import Keyring
from livebox.limits import Limit
from livebox.live.owner import new_owner
from livebox.live.plane import Plane
from livebox.log import logger
from livebox.responses import Reply
from livebox.server import Server
from livebox.service import Service
from livebox.settings import Settings
from livebox.telemetry import Telemetry

KEYS_FOLDER: Final = "keys"
RATE_CLASSES: Final = ("read", "write", "patch")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = logger("app")


class StartError(Exception):
    """The server cannot start; the text says why, for whoever runs it."""


class App:
    """One server on the database `dsn`, whose schema is there already. `port` is known once it is started."""

    def __init__(self, settings: Settings, dsn: str) -> None:
        """Raises StartError, `keyring.KeyringError` or `jwks.KeySetError` when something is missing or wrong."""
        handlers = load_handlers()
        self.asked_to_stop = asyncio.Event()
        self._name = new_owner()
        self._poker = Poker(dsn, sender=self._name)
        self._listener = Listener(dsn, self._heard)
        keyring = Keyring(Path(settings.text("data")) / KEYS_FOLDER)
        self.telemetry = Telemetry(DOCUMENT["schemas"]["RunReason"]["enum"])
        self.database = Database(
            dsn,
            readers=settings.integer("db.readers"),
            batch_max=settings.integer("lane.batch_max"),
            queue_max=settings.integer("lane.queue_max"),
            statement_timeout=settings.number("db.statement_timeout"),
            on_batch=self.telemetry.batch,
            on_commit=self._grown,
            on_effects=self._committed,
        )
        self.invocations = Invocations(keyring.invocation_keys())
        self.service = Service(self.database, self.telemetry, self.invocations)
        turn, outage = self.telemetry.turn, Outage()
        self.life = Life(self.database, settings, on_turn=turn, outage=outage)
        self._availability = Availability(self.database, settings, on_turn=turn, outage=outage)
        self._reaper = Reaper(self.database, settings, self.life, on_turn=turn, outage=outage)
        self._consequences = Consequences(self.database, settings, on_turn=turn, outage=outage)
        self._retention = Retention(self.database, settings, on_turn=turn, outage=outage)
        self.plane = Plane(
            self.database, settings, self.life, self.telemetry, self._name, self._availability.now, outage
        )
        self.plane.on_poke = self._poke
        plant = Plant(
            settings,
            self.database,
            self.telemetry,
            self.service,
            Cursors(keyring.cursor_key()),
            self.invocations,
            self.life,
        )
        plant.plane = self.plane
        authenticator = Authenticator(self._resolve, issuer(settings), now=self._availability.now)
        limits, attempts = {name: _limit(settings, name) for name in RATE_CLASSES}, _limit(settings, "auth")
        self.feed = plant.feed = Feed(self.database, settings)
        self.hub = Hub(plant, self.feed, Rights(self.database, self.feed), self.plane, authenticator, limits, attempts)
        self._work, self._presence = Work(plant, on_turn=turn), Presence(self.database, settings, on_turn=turn)
        self.hub.workers += [self._presence, self._work]
        self.hub.tail.listeners.append(self._work.heard)
        self.edge = Edge(
            plant,
            handlers,
            authenticator,
            limits,
            attempts,
            Bodies(settings.integer("api.body_max_bytes"), settings.number("http.body_timeout")),
            check=response_check() if settings.flag("check.responses") else None,
            log_requests=settings.flag("log.requests"),
        )
        self.edge.entrance = Entrance(self.hub, settings.text("gateway.origins"))
        self._server = Server(
            self.edge, settings.text("http.host"), settings.integer("http.port"), settings.number("http.shutdown_grace")
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    async def start(self) -> None:
        """Open the database, then listen. Raises `db.DatabaseError` or OSError; then nothing is left open."""
        await self.database.start()
        try:
            await self._availability.touch()
            await self.feed.start()
            await self.plane.start()
            await self._poker.start()
            await self._listener.start()
            await self._server.start()
        except BaseException:
            await self._end()
            raise
        jobs = (self._availability, self.life, self._reaper, self._consequences, self._retention)
        for job in (*jobs, self._presence, self._work):
            job.start()
        self.hub.start()

    async def stop(self) -> None:
        """Say not ready, accept no more, finish what was accepted, then end the sessions of the database."""
        self.service.stopping = True
        await self._work.stop()
        await self.hub.stop()
        await self._presence.end()
        await self._server.stop()
        for job in (self._reaper, self._consequences, self._retention, self._availability):
            await job.stop()
        await self.life.end()
        await self._end()
        self.telemetry.close()

    async def _end(self) -> None:
        await self._listener.stop()
        await self.plane.stop()
        await self.feed.stop()
        await self._poker.stop()
        await self.database.stop()

    def _grown(self, seq: int | None) -> None:
        if seq is not None:
            self.feed.wake(seq)
            self._poker.poke(seq)

    def _poke(self, kind: str, run_ids: list[str]) -> None:
        if kind == "handover":
            for run_id in run_ids:
                self._poker.ask(run_id, self._name)
        else:
            self._poker.tell(kind, run_ids)

    def _heard(self, poke: Poke) -> None:
        if poke.sender == self._name:
            return
        if poke.everything or poke.seq is not None:
            self.feed.wake(poke.seq)
        self.plane.raised(poke.runs)
        self.plane.watching(poke.watching)
        wanted = [run_id for run_id, _ in poke.handover]
        if wanted or poke.everything:
            self.hub.spawn(self.plane.handover(wanted) if wanted else self.plane.poll())

    def _committed(self, effects: list[dict[str, Any]]) -> None:
        self.telemetry.record(effects)
        self.plane.committed(effects)
        self._consequences.heard(effects)

    async def _resolve(self, token_hash: str) -> Answer:
        return await self.database.readers.call("authenticate_token", None, {"hash": token_hash})


async def serve(settings: Settings, dsn: str, started: Callable[[App], None] | None = None) -> None:
    """Run a server until SIGTERM or SIGINT; `started` is told once it listens. A second signal ends it at once."""
    app = App(settings, dsn)
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(_run(app, started))
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        app.asked_to_stop.set()
        if asked > 1:
            serving.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, ask)
    try:
        await serving
    except asyncio.CancelledError:
        if asked < 2:
            raise
        _log.warning("ended_at_once")
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _run(app: App, started: Callable[[App], None] | None) -> None:
    await app.start()
    try:
        _log.info("started", port=app.port)
        if started is not None:
            started(app)
        await app.asked_to_stop.wait()
        _log.info("stopping")
    finally:
        await app.stop()


def load_handlers() -> Mapping[str, Handler]:
    """The function of each operation. Raises StartError where contract and handlers differ, either way."""
    modules = {}
    missing = []
    for name in sorted({operation.module for operation in OPERATIONS.values()}):
        try:
            modules[name] = importlib.import_module(f"handlers.{name}")
        except ModuleNotFoundError:
            missing.append(f"there is no module handlers/{name}.py")
    findings = missing or contract.check(modules)
    if findings:
        raise StartError("contract and handlers differ:\n" + "\n".join(findings))
    return contract.functions(modules)


def issuer(settings: Settings) -> Issuer | None:
    """Whose JWTs are taken; None when the configuration names nobody."""
    name, file = settings.text("auth.jwt_issuer"), settings.text("auth.jwt_jwks_file")
    if not name and not file:
        return None
    if not name or not file:
        raise StartError("auth.jwt_issuer and auth.jwt_jwks_file go together: set both or none")
    audience, leeway = settings.text("auth.jwt_audience"), settings.number("auth.jwt_leeway")
    return Issuer(name, audience, jwks.read(Path(file)), leeway)


def response_check() -> ResponseCheck:
    """Checks each response against the contract. Raises StartError where openapi-core is not installed."""
    try:
        from livebox.conformance import Conformance, Seen
    except ImportError:
        raise StartError("check.responses needs openapi-core: install livebox[dev]") from None
    conformance = Conformance()

    def check(request: web.BaseRequest, response: Reply) -> list[str]:
        body = response.body if request.method != "HEAD" else b""
        return conformance.findings(
            Seen(request.method, request.rel_url.raw_path, response.status, response.headers, body)
        )

    return check


def _limit(settings: Settings, name: str) -> Limit:
    return Limit(settings.number(f"rl.{name}.rate"), settings.integer(f"rl.{name}.burst"))
