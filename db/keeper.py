"""Starts an embedded server again that ended while it was needed: its postmaster was killed, or crashed."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

import psycopg2

from .embedded import Server
from .programs import EmbeddedError

LOOK: Final = 0.25
"""Seconds between two looks at the server."""
PAUSES: Final = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each try to start it. After the last one it is left to others."""
STABLE: Final = 60.0
"""Seconds a server has to run before tries are counted anew: one that ends soon after each start is given up too."""

_log = logging.getLogger("livebox.db.keeper")


class Keeper:
    """Watches a server that this process has started, from a thread of its own, until ``stop``.

    Any number of processes may keep the same server: whoever is first starts it, the others find it running.
    ``look``, ``pauses``, ``stable``: seconds, see above.
    """

    def __init__(
        self, server: Server, *, look: float = LOOK, pauses: tuple[float, ...] = PAUSES, stable: float = STABLE
    ) -> None:
        self._server = server
        self._look = look
        self._pauses = pauses
        self._stable = stable
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database keeper", daemon=True)
        self._tries = 0

    def start(self) -> None:
        """Begins to watch. The server runs already."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch; a start under way comes to its end first. Then the server may be stopped."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        running_since = time.monotonic()
        while not self._over.wait(self._look):
            if self._server.postmaster() is not None:
                if time.monotonic() - running_since > self._stable:
                    self._tries = 0
                continue
            _log.warning("the embedded database has ended")
            self._bring_back()
            if self._server.postmaster() is not None:
                _log.warning("the embedded database runs again")
            running_since = time.monotonic()

    def _bring_back(self) -> None:
        """Returns when the server runs, whoever started it, or at the end of the watch."""
        reason = "it ended again"
        while self._tries < len(self._pauses):
            if self._over.wait(self._pauses[self._tries]):
                return
            self._tries += 1
            try:
                self._server.revive()
            except (EmbeddedError, OSError, psycopg2.Error) as error:
                reason = str(error)
            else:
                if self._server.postmaster() is not None:
                    return
                reason = "it ended at once"
        _log.error("the embedded database is given up after %d tries: %s", self._tries, reason)
        while self._server.postmaster() is None and not self._over.wait(self._look):
            pass
