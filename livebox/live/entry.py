"""One run in memory: what the server owns of its document, what the agent patches, and what is known of its row."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from generated.patchable_paths import PATCHABLE
from livebox.live.difference import VOLATILE
from livebox.live.patch import size_of

ACTIVE: Final = frozenset({"queued", "running", "waiting_input"})

_encode = msgspec.json.Encoder().encode


class Entry:
    """A run that is served or watched here.

    `server` and `members` are the two halves of the document; both are replaced, never changed, so that who holds one
    holds a state. `version` is the live version, `content` the one that its content came with, `row_version` the last
    that is known of the row. `saved` is the content that the row holds since its version `saved_at`, `saving` what may
    have been saved. Only what is `owned` (at `epoch`) takes patches, up to the version `reserved`.
    """

    __slots__ = (
        "busy",
        "claim_id",
        "content",
        "current",
        "epoch",
        "invocation_jti",
        "members",
        "owned",
        "patched_at",
        "refs",
        "renewed_from_jti",
        "reserved",
        "row_version",
        "run_id",
        "saved",
        "saved_at",
        "saved_content",
        "saving",
        "server",
        "size",
        "version",
        "watched_until",
    )

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.server: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        self.current: dict[str, Any] = {}
        self.version = 0
        self.content = 0
        self.row_version = 0
        self.saved: dict[str, Any] = {}
        self.saved_content = 0
        self.saved_at = 0
        self.saving: tuple[int, dict[str, Any]] | None = None
        self.owned = False
        self.epoch = 0
        self.reserved = 0
        self.size = 0
        self.claim_id = self.invocation_jti = self.renewed_from_jti = ""
        self.busy = asyncio.Lock()
        self.refs = 0
        self.watched_until = 0.0
        self.patched_at = 0.0

    @property
    def thread_id(self) -> str | None:
        """Its thread; a registered run has none."""
        return self.server.get("thread_id")

    @property
    def channel_id(self) -> str | None:
        """The channel of its thread."""
        return self.server.get("channel_id")

    @property
    def agent_id(self) -> str:
        """The agent that works on it."""
        return str(self.server["agent_id"])

    @property
    def state(self) -> str:
        """Its state, as far as it is known here."""
        return str(self.server["state"])

    @property
    def active(self) -> bool:
        """It has not ended."""
        return self.server["state"] in ACTIVE

    @property
    def dirty(self) -> bool:
        """There is content that the row does not have."""
        return self.owned and self.content > self.saved_content

    @property
    def document(self) -> dict[str, Any]:
        """The whole run as it is served."""
        return {**self.members, **self.server, "version": self.version}

    def encode(self) -> bytes:
        """The document as JSON."""
        return _encode(self.document)

    def shown(self, row: Mapping[str, Any]) -> bytes:
        """The document as JSON, with those of its members that are not part of its version as `row` has them."""
        document = self.document
        for name in VOLATILE - {"version"}:
            if name in row:
                document[name] = row[name]
        return _encode(document)

    def position(self) -> dict[str, Any]:
        """Where the run is, for a conflict that explains itself."""
        return {**self.current, "version": self.version}

    def put(self, row: Mapping[str, Any], members: dict[str, Any], version: int) -> None:
        """Take over what the row says, with this content and this version."""
        self.server = server_half(row["run"])
        self.members = members
        self.current = row["current"]
        self.version = version
        self.row_version = row["run"]["version"]
        self.epoch = row["epoch"]
        self.reserved = row["reserved"]
        self.claim_id = row.get("claim_id", "")
        self.invocation_jti = row.get("invocation_jti", "")
        self.renewed_from_jti = row.get("renewed_from_jti", "")
        self.size = size_of(members)


def server_half(run: Mapping[str, Any]) -> dict[str, Any]:
    """What the server owns of a run document, without the version."""
    return {name: value for name, value in run.items() if name not in PATCHABLE and name != "version"}


def patchable_half(run: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent may patch of a run document."""
    return {name: value for name, value in run.items() if name in PATCHABLE}
