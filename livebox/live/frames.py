"""Frames about live documents, as devices get them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from livebox.live.entry import Entry

MAX_OPS: Final = 10_000
"""Operations in one frame; a larger difference is told as the whole document."""

_encode = msgspec.json.Encoder().encode


def updated(run_id: str, base: int, version: int, ops: list[dict[str, Any]]) -> bytes:
    """The frame run.updated."""
    return _encode({"type": "run.updated", "run_id": run_id, "base_version": base, "version": version, "ops": ops})


def whole(entry: Entry) -> bytes:
    """The frame run.document."""
    return _encode({"type": "run.document", "run": entry.document})
