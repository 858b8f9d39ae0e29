"""All sessions of this process: who is there, what each is handed, and how sessions end.

Events come from the feed in the order of the log and live frames from the plane in the order of versions; handing one
out never waits. A device that does not keep up is left out and made good for: it gets a fresh document in place of the
patches that it missed, and the events that it missed by their place in the log.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from math import inf
from typing import Any

import msgspec

from db import Caller, DatabaseError
from livebox import responses
from livebox.auth import EXPIRED, INVALID, Authenticator, Unauthenticated
from livebox.context import Plant
from livebox.gateway import frames
from livebox.gateway.connection import CLOSE_PATIENCE, Connection, Gathering
from livebox.gateway.feed import Feed
from livebox.gateway.focus import Focus
from livebox.gateway.outlet import Outlet
from livebox.gateway.rights import Rights
from livebox.gateway.session import Session
from livebox.gateway.tail import Tail
from livebox.gateway.watch import Watch
from livebox.gateway.worker import Worker
from livebox.limits import Limit
from livebox.live.entry import Entry
from livebox.live.plane import Plane
from livebox.log import logger

_log = logger("gateway")


class Opened(msgspec.Struct):
    """What `livebox.open_session` says."""

    principal: msgspec.Raw
    seq: int
    active_runs: msgspec.Raw


class Hub:
    """The sessions. Start it after the feed; `limits` are those of REST, so that a principal has one budget."""

    def __init__(
        self,
        plant: Plant,
        feed: Feed,
        rights: Rights,
        plane: Plane,
        authenticator: Authenticator,
        limits: Mapping[str, Limit],
        attempts: Limit,
    ) -> None:
        settings = plant.settings
        self.plant = plant
        self.limits = limits
        self.plane = plane
        self.soft = settings.integer("gateway.send_queue_soft_bytes")
        self.hello_timeout = settings.number("gateway.hello_timeout")
        self.max_violations = settings.integer("gateway.max_violations")
        self.focus_max = settings.integer("gateway.focus_max")
        self._hard = settings.integer("gateway.send_queue_hard_bytes")
        self._max_frame = settings.integer("gateway.max_frame_bytes")
        self._sessions_max = settings.integer("gateway.sessions_max")
        self._spread = settings.number("gateway.shutdown_spread")
        self._session_limits = {
            "max_frame_bytes": self._max_frame,
            "focus_max": self.focus_max,
            "heartbeat_interval_ms": max(1, round(settings.number("gateway.heartbeat_interval") * 1000)),
        }
        self._feed = feed
        self._rights = rights
        self._authenticator = authenticator
        self.now = authenticator.now
        """Seconds of the epoch by the clock of the database."""
        self._attempts = attempts
        self._telemetry = plant.telemetry
        self._gathering = Gathering(settings.number("gateway.coalesce_interval"))
        self.tail = Tail(self, feed, rights)
        self.focus = Focus(
            plant.database, plane, rights.sees, self.spawn, lambda run_id: Outlet(self, self._gathering, run_id)
        )
        self.workers: list[Worker] = []
        self.sessions: dict[Session, None] = {}
        self.by_principal: dict[str, list[Session]] = {}
        """The oldest session of each comes first."""
        self._holders: defaultdict[str, list[Session]] = defaultdict(list)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch = Watch(self, settings)
        self._connections: set[Connection] = set()
        self._closed = asyncio.Event()
        self.stopping = False
        plane.on_frame = self.frame
        plane.watchers.on_watched = self.watched

    def start(self) -> None:
        """Begin to watch over the sessions."""
        self._watch.start()
        self._telemetry.observe_gateway(lambda: len(self.sessions), lambda: len(self.focus))

    async def stop(self) -> None:
        """Say goodbye to all, finish what was accepted, and end every session."""
        self.stopping = True
        await self._watch.stop()
        for outlet in self.focus.outlets.values():
            outlet.settle()
        for session in [*self.sessions]:
            self._bye(session, "shutdown", "restart")
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * CLOSE_PATIENCE):
                    await self._closed.wait()
        for connection in [*self._connections]:
            connection.abort()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except DatabaseError:
            _log.warning("gateway_work_failed", exc_info=True)
        except Exception:
            _log.exception("gateway_work_failed")

    # sessions

    def connection(self) -> Connection:
        """The socket of a new session."""
        return Connection(self._gathering, max_frame_bytes=self._max_frame, hard=self._hard)

    async def serve(self, connection: Connection, peer: str) -> None:
        """One session, from the handshake to the close."""
        session = Session(self, connection, peer)
        connection.on_overflow = lambda: session.end("slow_consumer")
        self.sessions[session] = None
        self._connections.add(connection)
        try:
            if self.stopping:
                self._bye(session, "shutdown", "restart")
            await session.serve()
        except Exception:
            _log.exception("session_failed")
            session.end("internal_error")
        finally:
            self._leave(session)
            try:
                await connection.finish()
            finally:
                self._connections.discard(connection)
                if self.stopping and not self._connections:
                    self._closed.set()
                self._telemetry.gateway_closed(connection.ending)

    def _leave(self, session: Session) -> None:
        del self.sessions[session]
        mine = self.by_principal.get(session.principal_id, [])
        if session in mine:
            mine.remove(session)
            if not mine:
                del self.by_principal[session.principal_id]
            for run_id in session.held:
                self.released(session, run_id)
            for worker in self.workers:
                worker.ended(session)
            self._rights.forget(session.principal_id)
        self.focus.leave(session)
        self._watch.forget(session)

    async def authenticate(self, token: str, peer: str) -> tuple[Caller, float]:
        """Who this token is, and when that ends (seconds of the epoch). Raises Unauthenticated or Refusal."""
        header = f"Bearer {token}"
        caller = self._authenticator.known(header)
        if caller is None:
            wait = self._attempts.wait(peer)
            if wait:
                raise responses.Refusal("rate_limited", wait=wait)
            try:
                caller = await self._authenticator.authenticate(header)
            except Unauthenticated:
                self._attempts.take(peer)
                raise
        if caller.token is not None:
            refused = await self._refusals([caller])
            if refused:
                self._authenticator.forget(header)
                raise Unauthenticated(refused[0])
        return caller, self._authenticator.until(header)

    async def begin(self, session: Session, caller: Caller, reply_to: str, resume_after: int | None) -> None:
        """The session of an authenticated client: `ready`, then the log from where it wants it."""
        since = await self._rights.load(caller.principal)
        held = True
        try:
            limits = self.plant.settings.limits(("snapshot.active_runs_max",))
            turns = -1
            while turns != self.tail.turns:  # what is told of runs must not be older than the rights by now
                turns = self.tail.turns
                answer = await self.plant.database.readers.call("open_session", caller, {"limits": limits})
            if answer.code != "ok" or answer.body is None:
                session.send(frames.error(INVALID, reply_to=reply_to))
                session.end("invalid_token")
                return
            if session.gone:
                return
            held = False
        finally:
            if held:
                self._rights.forget(caller.principal)
        self._telemetry.record(answer.effects)
        opened = msgspec.json.decode(answer.body, type=Opened)
        session.kind = msgspec.json.decode(opened.principal)["kind"]
        session.principal_id = caller.principal
        mine = self.by_principal.setdefault(caller.principal, [])
        mine.append(session)
        members = {
            "session_id": session.id,
            "principal": opened.principal,
            "seq": opened.seq,
            "active_runs": opened.active_runs,
            "limits": self._session_limits,
        }
        session.send(frames.made("ready", members, reply_to=reply_to))
        if len(mine) > self._sessions_max:
            self._bye(mine[0], "replaced", "replaced")
        for worker in self.workers:
            worker.begun(session)
        session.seq = opened.seq if resume_after is None else min(resume_after, opened.seq)
        if resume_after is not None and resume_after > opened.seq:
            session.send(frames.made("resync", {"after": opened.seq}))
        self.tail.begin(session, opened.seq, since)

    def told(self, session: Session) -> None:
        """The session renewed its token, or said how much work it wants."""
        for worker in self.workers:
            worker.told(session)

    def holds(self, session: Session, run_id: str) -> None:
        """The session works on a run from now on."""
        if session.gone and session not in self.sessions:
            return
        self._holders[run_id].append(session)
        for worker in self.workers:
            worker.holds(session, run_id)
        session.send(frames.made("run.watched", {"run_id": run_id, "watched": self.plane.is_watched(run_id)}))

    def released(self, session: Session, run_id: str) -> None:
        """The session works on a run no more."""
        holders = self._holders.get(run_id, [])
        if session in holders:
            holders.remove(session)
            if not holders:
                del self._holders[run_id]

    def acknowledged(self, session: Session, frame: Mapping[str, Any]) -> None:
        """The session has its personal work."""
        for worker in self.workers:
            worker.acknowledged(session, frame)

    def of(self, principal_id: str) -> list[Session]:
        """The sessions of a principal, the oldest first."""
        return self.by_principal.get(principal_id, [])

    # how sessions end

    def valid(self, session: Session) -> bool:
        """May it still do anything? One whose token has expired is ended now; others are ended where they lose it."""
        if session.expires_at != inf and session.expires_at <= self.now():
            self.refuse(session, EXPIRED)
        return not session.gone

    def refuse(self, session: Session, code: str) -> None:
        """End a session whose token is no good any more."""
        if session.gone:
            return
        session.send(frames.error(code))
        if code == EXPIRED:
            self._bye(session, "token_expired", "token_expired", at_once=True)
        else:
            session.end("invalid_token")

    def bye_slow(self, session: Session) -> None:
        """End a session whose device stayed behind for too long."""
        self._bye(session, "slow_consumer", "slow_consumer")

    def _bye(self, session: Session, reason: str, how: str, *, at_once: bool = False) -> None:
        wait = 0.0 if at_once else random.uniform(0, self._spread)  # noqa: S311 - no secret
        if session.gone:
            return
        session.send(frames.made("bye", {"reason": reason, "retry_after_ms": round(wait * 1000)}))
        session.end(how)

    def recheck_soon(self) -> None:
        """A token was refused somewhere: look at all sessions now."""
        self._watch.wake()

    async def recheck(self) -> None:
        """End the sessions whose tokens expired or were revoked, or whose principal was disabled."""
        sessions = [session for session in self.sessions if session.ready]
        now = self.now()
        for session in sessions:
            if session.expires_at <= now:
                self.refuse(session, EXPIRED)
        callers = list(dict.fromkeys(session.caller for session in sessions))
        refused = await self._refusals(callers) if callers else {}
        if refused:
            codes = {callers[at]: code for at, code in refused.items()}
            for session in sessions:
                if session.caller in codes:
                    self.refuse(session, codes[session.caller])

    async def _refusals(self, callers: list[Caller]) -> dict[int, str]:
        args = {"callers": [caller.document() for caller in callers]}
        answer = await self.plant.database.readers.call("refused_callers", None, args)
        return {row["at"]: row["code"] for row in responses.members(answer.body)["refused"]}

    # what sessions are handed

    def frame(self, document: Entry, payload: bytes) -> None:
        """A frame of the live plane about a run, to everybody who looks at it."""
        outlet = self.focus.outlets.get(document.run_id)
        if outlet is not None:
            outlet.put(payload)

    def watched(self, run_id: str, watched: bool) -> None:
        """Somebody looks at a run now, or nobody any more: its holders are told."""
        for session in self._holders.get(run_id, ()):
            session.send(frames.made("run.watched", {"run_id": run_id, "watched": watched}))

    def fell_behind(self, session: Session) -> None:
        """A session that was left out: make good for it as soon as its device takes more."""
        self._watch.late(session)

    def dropped(self, count: int) -> None:
        """Frames that a slow device did not get."""
        self._telemetry.patches_dropped(count)
