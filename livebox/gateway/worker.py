"""Who is told of sessions beside the hub: what hands out work, what knows which runs have somebody at the other end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from livebox.gateway.session import Session


class Worker(Protocol):
    """Told of the sessions of one process, in the order of what happens."""

    def begun(self, session: Session) -> None:
        """A session has begun."""
        ...

    def told(self, session: Session) -> None:
        """It said anew how much work it wants."""
        ...

    def holds(self, session: Session, run_id: str) -> None:
        """It works on a run."""
        ...

    def acknowledged(self, session: Session, frame: Mapping[str, Any]) -> None:
        """It acknowledged personal work."""
        ...

    def ended(self, session: Session) -> None:
        """The session is over."""
        ...
