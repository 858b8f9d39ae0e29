"""May this caller patch this run now? Asked of the database, or of what is known in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from db import SUCCESS, Answer, Caller, Database
from livebox.invocations import Invocation
from livebox.live.entry import Entry
from livebox.live.patch import PatchRefused
from livebox.settings import Settings

_members = msgspec.json.Decoder(type=dict[str, Any]).decode


class Hold(NamedTuple):
    """The row of a run as its holder found it; `reads`: the holder may also see the run."""

    version: int
    epoch: int
    reads: bool


class Holds:
    """Judges invocation tokens. `now` are seconds of the epoch by the clock of the database."""

    def __init__(self, database: Database, settings: Settings, now: Callable[[], float]) -> None:
        self._database = database
        self._limits = settings.limits(("invocation.ttl",))
        self._now = now

    def known(self, entry: Entry, caller: Caller, invocation: Invocation) -> bool:
        """Does the token hold the run, by what is known here? When it does not, the database is asked why."""
        if entry.renewed_from_jti:
            # The first use of a renewed token has to be written, so only the old one passes here.
            current = invocation.jti == entry.renewed_from_jti
        else:
            current = invocation.jti == entry.invocation_jti
        return (
            current
            and invocation.run_id == entry.run_id
            and caller.principal == entry.agent_id
            and invocation.expires_at > self._now()
            and entry.active
        )

    async def ask(self, caller: Caller, run_id: str, invocation: Invocation) -> Hold:
        """The hold. Raises PatchRefused with the refusal, or `db.DatabaseError`."""
        args: dict[str, Any] = {"run_id": run_id, "invocation": invocation.claims()}
        answer = await self._database.readers.call("patch_run", caller, args)
        if answer.code not in SUCCESS or answer.body is None:
            raise refusal(answer)
        if any(effect.get("first_use") for effect in answer.effects):
            written = await self._database.lane.submit("beat_run", caller, {**args, "limits": self._limits})
            if written.code not in SUCCESS:
                raise refusal(written)
        return Hold(**_members(answer.body))


def refusal(answer: Answer) -> PatchRefused:
    """The refusal that an operation answered."""
    return PatchRefused(answer.code, extra=_members(answer.body) if answer.body else None)
