"""Says once that the database is away and once that it is back, however many jobs find out, and how often."""

from __future__ import annotations

from typing import Final

from db import DatabaseUnavailable
from livebox.log import logger

RETRY: Final = 10.0
"""Seconds after which a job that found the database away looks again, if its interval is longer."""

_log = logger("jobs")


class Outage:
    """What the jobs of one process know together: it begins with the first that fails and ends when none fails."""

    def __init__(self) -> None:
        self._jobs: set[str] = set()

    def away(self, job: str, error: DatabaseUnavailable) -> None:
        """The job could not do its work because the database is away."""
        if not self._jobs:
            _log.warning("database_away", job=job, reason=str(error))
        self._jobs.add(job)

    def there(self, job: str) -> None:
        """The job got an answer."""
        if job in self._jobs:
            self._jobs.remove(job)
            if not self._jobs:
                _log.warning("database_back", job=job)
