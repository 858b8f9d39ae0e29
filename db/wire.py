"""aiopg's connection, read to its end when the other side has ended it.

When a backend ends with a request unread, the kernel marks our socket as failed though its last words can still be
read. uvloop then calls the reader once and never again. libpq may need several calls to find out that nothing more
comes, so a statement under way would wait until its time is up. Here one call reads on until that is known.
"""

from __future__ import annotations

import select
from typing import Any, Final

import aiopg

__all__ = ["Wire"]

_ENDED: Final = select.POLLERR | select.POLLHUP
_READS_MAX: Final = 100_000  # far more than what a session can have left; the loop is never held for ever


class Wire(aiopg.Connection):
    """A connection whose statements end when the session does, on every event loop. ``await Wire(dsn)`` opens it."""

    def __init__(self, dsn: str) -> None:
        # No timeout of aiopg's: one timer of ours costs a tenth of its wait_for around every statement.
        none: Any = None
        super().__init__(dsn, none, enable_hstore=False, enable_uuid=False)

    @staticmethod
    def _ready(weak_self: Any) -> None:
        """Called by the loop, and before each wait: reads what is there."""
        wire = weak_self()
        if wire is not None:
            wire._read(weak_self)
            reads = 1
            while reads < _READS_MAX and wire._waits() and wire._ended():
                wire._read(weak_self)
                reads += 1

    def _read(self, weak_self: Any) -> None:
        descriptor = self._fileno
        aiopg.Connection._ready(weak_self)
        if descriptor is not None and self._fileno is None:  # it was closed: libuv aborts if it is to watch it
            self._loop.remove_writer(descriptor)

    def _waits(self) -> bool:
        """Could more be read, by a statement that waits for it or to find out that an idle session is over?"""
        return not self._conn.closed and (self._waiter is None or not self._waiter.done())

    def _ended(self) -> bool:
        if self._fileno is None:
            return False
        poll = select.poll()
        poll.register(self._fileno, 0)
        return any(events & _ENDED for _, events in poll.poll(0))
