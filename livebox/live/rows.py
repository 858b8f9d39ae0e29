"""What the live plane asks of the database: never rights, always by the ids of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from db import Database

CHUNK: Final = 100
"""Most runs in one statement that carries whole documents."""
VERSIONS: Final = 1000
"""Most runs in one statement that asks for versions."""
FREED: Final = 500
"""Most live documents that are freed in one statement."""

_DOCUMENTS: Final = "SELECT d::text FROM livebox.run_documents(%s::text[]::uuid[]) AS d"
_VERSIONS: Final = "SELECT run_id, version, epoch, jti FROM livebox.run_versions(%s::text[]::uuid[])"
_TOUCH: Final = "SELECT livebox.touch_live_owner(%s)::text"
_FREE: Final = "SELECT run::text FROM livebox.free_live(%s::text[], %s, %s) AS run"
_OWNERS: Final = "SELECT owner FROM livebox.live_owners"

_decode = msgspec.json.Decoder(type=dict[str, Any]).decode


class Moved(NamedTuple):
    """Where the row of a run is: its version and epoch, and the ids of the tokens that pass, joined."""

    version: int
    epoch: int
    tokens: str


class Rows:
    """The rows of live documents. Everything here raises `db.DatabaseError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def documents(self, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Runs whole, by id, and what is known beside (see the SQL function); those that are not there are left out."""
        found = {}
        for chunk in chunks(run_ids, CHUNK):
            for (text,) in await self._database.readers.rows(_DOCUMENTS, chunk):
                row = _decode(text)
                found[str(row["run"]["id"])] = row
        return found

    async def document(self, run_id: str) -> dict[str, Any] | None:
        """One run whole; None when it is not there."""
        return (await self.documents([run_id])).get(run_id)

    async def versions(self, run_ids: Iterable[str]) -> dict[str, Moved]:
        """Where runs are, by id."""
        found = {}
        for chunk in chunks(run_ids, VERSIONS):
            for run_id, version, epoch, tokens in await self._database.readers.rows(_VERSIONS, chunk):
                found[run_id.decode()] = Moved(version, epoch, tokens.decode())
        return found

    async def save(self, function: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One of take_live, save_live, reserve_versions and release_live, beside the lane; a result for each row."""
        return await self._database.writer.save(function, rows)

    async def touch(self, owner: str) -> None:
        """Say that this process is there."""
        await self._database.writer.run(_TOUCH, owner)

    async def free(self, dead: Sequence[str], lease: float) -> list[str]:
        """Free what processes owned that are dead, or were not seen for `lease` seconds; the runs."""
        freed: list[str] = []
        while True:
            rows = await self._database.writer.run(_FREE, list(dead), lease, FREED)
            freed += [run_id.decode() for (run_id,) in rows]
            if len(rows) < FREED:
                return freed

    async def owners(self) -> list[str]:
        """All processes that serve live documents, dead ones too."""
        return [owner.decode() for (owner,) in await self._database.writer.run(_OWNERS)]


def chunks(run_ids: Iterable[str], size: int) -> Iterable[list[str]]:
    """The ids in lists of at most `size`."""
    waiting = iter(list(run_ids))
    while chunk := list(islice(waiting, size)):
        yield chunk
