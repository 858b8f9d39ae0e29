"""What has changed between two contracts, one entry a change, and how bad the whole is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

BREAKING, ADDITIVE, DOCS = "breaking", "additive", "docs"
LEVELS = (BREAKING, ADDITIVE, DOCS)
REQUEST, RESPONSE, BOTH = "request", "response", "both"

_BOTH_WAYS = [
    "type.widened",
    "type.narrowed",
    "values.widened",
    "values.narrowed",
    "limit.widened",
    "limit.narrowed",
    "constraint.widened",
    "constraint.narrowed",
    "constraint.changed",
    "inner.widened",
    "inner.narrowed",
    "member.removed",
    "member.required",
    "member.optional",
    "member.added",
    "variants.changed",
    "variant.removed",
    "variant.widened",
    "media.removed",
    "media.added",
    "frame.removed",
    "frame.added",
]
#: Every rule there is. Each has a pair of contracts in tests/contract/test_contract_diff.py that differ by it alone.
RULES = frozenset(f"{direction}.{rule}" for direction in (REQUEST, RESPONSE) for rule in _BOTH_WAYS) | frozenset(
    [
        "request.member.added_required",
        "request.member.added_to_free",
        "request.others.widened",
        "request.others.narrowed",
        "request.default.added",
        "request.default.changed",
        "response.values.lost",
        "response.others.gained",
        "response.others.lost",
        "patchable.gained",
        "patchable.lost",
        "keyword.changed",
        "operation.removed",
        "operation.added",
        "operation.renamed",
        "rate.changed",
        "root.changed",
        "security.widened",
        "security.narrowed",
        "security.scheme",
        "parameter.removed",
        "parameter.added",
        "parameter.added_required",
        "parameter.required",
        "parameter.optional",
        "parameter.style",
        "body.removed",
        "body.added",
        "body.added_required",
        "body.required",
        "body.optional",
        "media.schema",
        "status.removed",
        "status.added",
        "header.removed",
        "header.added",
        "code.added",
        "code.removed",
        "code.status",
        "codes.union",
        "channel.removed",
        "channel.bindings",
        "channel.moved",
        "frame.media",
        "close.added",
        "close.added_unexpected",
        "close.reconnect",
        "close.name",
        "close.removed",
        "prose",
        "form",
    ]
)


@dataclass(frozen=True)
class Change:
    """One change. `pointer` leads into the new documents, or into the old ones for what is gone."""

    level: str
    rule: str
    pointer: str
    direction: str
    """`request` for what a client sends, `response` for what it is sent, `both` for what is neither."""
    message: str
    used_by: str
    """One place where it is used, such as `createMessage request`."""

    def line(self) -> str:
        """For people."""
        used = f" ({self.used_by})" if self.used_by else ""
        return f"{self.level:8}  {self.pointer}\n          {self.message}{used} [{self.rule}]"


class Report:
    """Collects changes; the same change of a shared schema counts once in each direction."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, ...], Change] = {}
        self._marked: set[str] = set()
        self.used_by = ""

    def add(self, level: str, rule: str, message: str, pointer: str, *more: str, direction: str = BOTH) -> None:
        """Note a change at `pointer`; what is told of it is told of the pointers `more` too."""
        if rule not in RULES:
            raise KeyError(rule)
        change = Change(level, rule, pointer, direction, message, self.used_by)
        self._changes.setdefault((rule, pointer, direction, message), change)
        self._marked |= {pointer, *more}

    def tells_of(self, pointer: str) -> bool:
        """Whether a change lies at the pointer, above it or below it."""
        return any(
            mark == pointer or mark.startswith(f"{pointer}/") or pointer.startswith(f"{mark}/") for mark in self._marked
        )

    def changes(self) -> list[Change]:
        """The worst first, then in the order of the documents."""
        return sorted(self._changes.values(), key=lambda change: LEVELS.index(change.level))


def worst(changes: Iterable[Change]) -> str:
    """The level of the whole; empty where nothing has changed."""
    levels = {change.level for change in changes}
    return next((level for level in LEVELS if level in levels), "")


def as_text(changes: list[Change]) -> str:
    """For people: each change in two lines, and a last line that counts."""
    counted = ", ".join(f"{sum(change.level == level for change in changes)} {level}" for level in LEVELS)
    return "\n".join([*(change.line() for change in changes), counted if changes else "no change"])


def as_json(base: str, changes: list[Change]) -> str:
    """For programs: `base`, the `level` of the whole (`none` where nothing has changed) and the `changes`."""
    found = {"base": base, "level": worst(changes) or "none", "changes": [asdict(change) for change in changes]}
    return json.dumps(found, indent=2, ensure_ascii=False)
