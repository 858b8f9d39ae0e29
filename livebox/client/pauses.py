"""How long to wait between tries, so that many clients do not come back all at once."""

from __future__ import annotations

import random
from typing import Final

FIRST: Final = 0.1  # seconds
LONGEST: Final = 10.0


class Pauses:
    """Pauses in seconds that double from `first` to `longest`, each shortened by chance."""

    def __init__(self, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self, asked: float | None = None) -> float:
        """The next pause; at least what the server `asked` for."""
        pause = self._next * random.uniform(0.3, 1.0)  # noqa: S311 - no secret
        self._next = min(self._next * 2, self._longest)
        return max(pause, asked or 0.0)

    def reset(self) -> None:
        """It worked: begin with the shortest again."""
        self._next = self._first
