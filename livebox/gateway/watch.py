"""Looks after the sessions from time to time: silence, expired tokens, devices that stay behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from livebox.jobs.loop import Loop
from livebox.settings import Settings

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub
    from livebox.gateway.session import Session

SLOTS: Final = 8
"""In so many parts the sessions are probed within one interval, so that not all are probed at once."""
MISSED_MAX: Final = 2
SWEEP: Final = 0.05
"""Seconds between two looks at devices that are behind."""


class Watch:
    """Runs while the hub does."""

    def __init__(self, hub: Hub, settings: Settings) -> None:
        self._hub = hub
        self._interval = settings.number("gateway.heartbeat_interval")
        self._slow = settings.number("gateway.slow_consumer_timeout")
        self._recheck = Loop("gateway", settings.number("gateway.recheck_interval"), hub.recheck)
        self._late: set[Session] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._probing: asyncio.TimerHandle | None = None
        self._slot = 0

    def start(self) -> None:
        """Begin."""
        self._recheck.start()
        self._next_probe()

    async def stop(self) -> None:
        """End it."""
        await self._recheck.stop()
        for timer in (self._probing, self._sweeping):
            if timer is not None:
                timer.cancel()
        self._probing = self._sweeping = None

    def wake(self) -> None:
        """Check all tokens now."""
        self._recheck.wake()

    def forget(self, session: Session) -> None:
        """The session is over."""
        self._late.discard(session)

    # silence

    def _next_probe(self) -> None:
        self._probing = asyncio.get_running_loop().call_later(self._interval / SLOTS, self._probe)

    def _probe(self) -> None:
        self._next_probe()
        self._slot = (self._slot + 1) % SLOTS
        for session in [*self._hub.sessions]:
            if session.slot % SLOTS != self._slot:
                continue
            connection = session.connection
            session.missed = 0 if connection.heard else session.missed + 1
            connection.heard = False
            if session.missed >= MISSED_MAX:
                session.lost()
            else:
                connection.probe()

    # devices that are behind

    def late(self, session: Session) -> None:
        """This one was left out of something."""
        self._late.add(session)
        if self._sweeping is None:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(SWEEP, loop.call_soon, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = None
        for session in [*self._late]:
            if session.gone or self._made_good(session, loop.time()):
                self._late.discard(session)
        if self._late:
            self._sweeping = loop.call_later(SWEEP, loop.call_soon, self._sweep)

    def _made_good(self, session: Session, now: float) -> bool:
        hub = self._hub
        unsent = session.connection.unsent()
        if unsent > hub.soft:
            session.behind_since = session.behind_since or now
            if now - session.behind_since > self._slow:
                hub.bye_slow(session)
            return False
        if unsent > hub.soft // 2 or hub.tail.silent:
            return False
        session.behind_since = 0.0
        session.catch_up_documents()
        if not session.follows and session.ready:
            hub.tail.begin(session, session.seq)
        return not session.stale
