"""A patch as it arrives, over REST or the gateway, before anything is decided about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from generated.field_errors import FieldError, field_error
from livebox.live.patch import OPS

_IN_VALUE: Final = re.compile(r"/ops/\d+/value(?:/|$)").match
_OF_OP: Final = re.compile(r"/ops/(\d+)(?:/|$)").match


class Request(NamedTuple):
    """A patch: for which version, what it does, its bytes, and what was found wrong with it already.

    `late` are errors within values, which are told after those of paths, version and targets; `errors` come first.
    """

    base_version: int
    ops: Sequence[Mapping[str, Any]]
    raw_size: int
    errors: Sequence[FieldError] = ()
    late: Sequence[FieldError] = ()


def patch_request(body: Any, found: Sequence[FieldError], size: int) -> Request:
    """A patch from a body or frame with `base_version` and `ops`, of so many bytes, in which `found` is wrong.

    `found` are the errors that reading it and its schema gave. What they say of a single operation that is none of
    ours is said as that: its other members mean nothing here.
    """
    late = [error for error in found if _IN_VALUE(error.name)]
    early = [error for error in found if not _IN_VALUE(error.name)]
    if not early:
        return Request(body["base_version"], body["ops"], size, (), late)
    foreign = _foreign(body)
    told = [field_error("patch_op_forbidden", "pointer", f"/ops/{index}/path") for index in foreign]
    for error in early:
        where = _OF_OP(error.name)
        if where is None or int(where[1]) not in foreign:
            told.append(error)
    return Request(0, (), size, told, late)


def _foreign(body: Any) -> list[int]:
    """The operations that name an op which a patch may not have."""
    ops = body.get("ops") if isinstance(body, dict) else None
    if not isinstance(ops, list):
        return []
    return [
        index
        for index, op in enumerate(ops[:1000])
        if isinstance(op, dict)
        and isinstance(op.get("op"), str)
        and op["op"] not in OPS
        and isinstance(op.get("path"), str)
    ]
