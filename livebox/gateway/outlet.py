"""The live frames of one run on their way to the sessions that look at it.

They gather once for all of them, so that under load a patch costs one entry in a list and an interval one write for
each device, however many patches it held. The first frame after quiet leaves at once. One that found no company in its
interval ends it: a run that changes once in an interval waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from livebox.gateway.connection import GATHER_MAX, Gathering
from livebox.gateway.frames import message

if TYPE_CHECKING:
    from livebox.gateway.hub import Hub
    from livebox.gateway.session import Session


class Outlet:
    """What is sent of one run. `sessions` are those who get it; who is added has its document, and nothing gathers."""

    __slots__ = ("_bytes", "_frames", "_gathering", "_hot", "_hub", "_most", "_run_id", "sessions")

    def __init__(self, hub: Hub, gathering: Gathering, run_id: str) -> None:
        self._hub = hub
        self._gathering = gathering
        self._run_id = run_id
        self._most = min(GATHER_MAX, hub.soft)
        self._frames: list[bytes] = []
        self._bytes = 0
        self._hot = False
        self.sessions: set[Session] = set()

    def put(self, payload: bytes) -> None:
        """Send this to all, soon."""
        data = message(payload)
        if self._hot:
            self._frames.append(data)
            self._bytes += len(data)
            if self._bytes > self._most:
                self.settle()
        else:
            self._hand_out(data, 1)
            if self._gathering.interval:
                self._hot = True
                self._gathering.begin(self)

    def settle(self) -> None:
        """Send what has gathered."""
        if self._frames:
            frames, self._frames, self._bytes = self._frames, [], 0
            self._hand_out(frames[0] if len(frames) == 1 else b"".join(frames), len(frames))

    def flush(self) -> bool:
        """The interval is over; False, and quiet again, when hardly anything came in it."""
        self._hot = len(self._frames) > 1
        self.settle()
        return self._hot

    def _hand_out(self, data: bytes, count: int) -> None:
        if self._hub.tail.silent:
            self._leave_out(self.sessions, count)
            return
        run_id, soft, late = self._run_id, self._hub.soft, []
        for session in self.sessions:
            if run_id in session.stale or session.connection.unsent() > soft:
                late.append(session)
            else:
                session.connection.pass_on(data)
        if late:
            self._leave_out(late, count)

    def _leave_out(self, sessions: Iterable[Session], count: int) -> None:
        for session in sessions:
            session.leave_out(self._run_id, count)
