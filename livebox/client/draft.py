"""What an agent shows of its run: a local draft of the live document, of which patches are made."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar, Unpack, cast

import msgspec

from generated.models import LiveMetrics, LivePlanItem, LiveTool, LiveUnit, Reference, Run, UnitState, WaitingOn
from livebox.client.document import members, without_empty

TEXT_MAX_BYTES: Final = 16 * 1024  # the server's run.text_max_bytes unless it was changed
LINE_MAX: Final = 300  # characters of headlines and titles
NAME_MAX: Final = 200
DETAIL_MAX: Final = 2000
_LINES: Final = {"name": NAME_MAX, "headline": LINE_MAX}
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")

T = TypeVar("T")
Units = Literal["subagents", "workflows", "jobs"]
PlanStatus = Literal["pending", "in_progress", "done", "skipped"]


class Draft:
    """The live part of a run document, to be changed as the work goes. Nothing here waits: what changed is sent later.

    Lines that are too long or hold control characters are made to fit; of the text the end is kept. What is no JSON
    raises TypeError or ValueError and changes nothing.
    """

    def __init__(self, run: Mapping[str, Any], changed: Callable[[], None], *, text_max: int = TEXT_MAX_BYTES) -> None:
        self._members: dict[str, Any] = copy.deepcopy(members(run))
        self._changed = changed
        self.text = LiveTextDraft(self._members, changed, text_max)
        self.plan = Plan(self._members, changed)

    @property
    def document(self) -> Run:
        """A copy of the live members as they are here."""
        return cast(Run, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """A copy of the live members, without empty containers."""
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._members))
        without_empty(copied)
        return copied

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Let `change` alter the members as it likes: `run.edit(lambda live: live.update(...))`.

        Raises TypeError for what is no JSON, and changes nothing then.
        """
        altered = self.snapshot()
        change(altered)
        msgspec.json.encode(altered)
        self._members.clear()
        self._members.update(altered)
        self._changed()

    @property
    def headline(self) -> str | None:
        """What it does now, in one line."""
        return self._members.get("headline")

    @headline.setter
    def headline(self, line: str | None) -> None:
        self._set("headline", fitting(line) if line and fitting(line) else None)

    @property
    def waiting_on(self) -> WaitingOn | None:
        """What it is blocked on."""
        return self._members.get("waiting_on")

    @waiting_on.setter
    def waiting_on(self, what: WaitingOn | None) -> None:
        self._set("waiting_on", what)

    def tool(
        self, name: str, *, title: str | None = None, progress: float | None = None, detail: str | None = None
    ) -> None:
        """Show the tool in use; again with the same name to show its progress (0 to 1)."""
        name = fitting(name, NAME_MAX)
        tool = cast(LiveTool, dict(self._members.get("tool", {})))
        if tool.get("name") != name:
            tool = {"name": name, "started_at": now()}
        if title is not None:
            tool["title"] = fitting(title)
        if progress is not None:
            tool["progress"] = progress
        if detail is not None:
            tool["detail"] = storable(detail)[:DETAIL_MAX]
        self._set("tool", tool)

    def no_tool(self, name: str | None = None) -> None:
        """Show no tool any more; with `name` only when it is the one that is shown."""
        if name is None or self._members.get("tool", {}).get("name") == fitting(name, NAME_MAX):
            self._set("tool", None)

    def metrics(self, **numbers: Unpack[LiveMetrics]) -> None:
        """Set or replace numbers: tokens, tool calls, per cent of the context used, cost (for display)."""
        self._members.setdefault("metrics", {}).update(checked(numbers))
        self._changed()

    def subagent(self, key: str, state: UnitState | None = None, **more: Any) -> None:
        """Show or update a sub-agent: `name`, `headline`, `progress`, `tokens_used`, `step_id`."""
        self._unit("subagents", key, state, more)

    def workflow(self, key: str, state: UnitState | None = None, **more: Any) -> None:
        """Show or update a workflow."""
        self._unit("workflows", key, state, more)

    def job(self, key: str, state: UnitState | None = None, **more: Any) -> None:
        """Show or update a background job."""
        self._unit("jobs", key, state, more)

    def forget(self, what: Units, key: str) -> None:
        """Show a sub-agent, workflow or job no more."""
        if self._members.get(what, {}).pop(key, None) is not None:
            self._changed()

    def reference(
        self,
        key: str,
        kind: Literal["artifact", "gate", "receipt", "approval"],
        reference: str,
        label: str | None = None,
    ) -> None:
        """Point to what came of the work: an artifact, a gate, a receipt or an approval."""
        made: Reference = {"kind": kind, "reference": reference}
        if label is not None:
            made["label"] = fitting(label)
        self._members.setdefault("refs", {}).update(checked({key: made}))
        self._changed()

    def _unit(self, what: Units, key: str, state: UnitState | None, more: Mapping[str, Any]) -> None:
        fitted = {name: fitting(value, _LINES[name]) if name in _LINES else value for name, value in more.items()}
        checked({key: fitted, "state": state})
        units: dict[str, LiveUnit] = self._members.setdefault(what, {})
        unit = units.get(key)
        if unit is None:
            unit = units[key] = {"name": fitting(key, NAME_MAX), "state": state or "running", "started_at": now()}
        if state is not None:
            unit["state"] = state
        unit.update(cast(LiveUnit, fitted))
        self._changed()

    def _set(self, name: str, value: Any) -> None:
        if value is None:
            if self._members.pop(name, None) is None:
                return
        else:
            self._members[name] = checked(value)
        self._changed()


class LiveTextDraft:
    """The last text of the agent: its end, at most `limit` bytes of it."""

    def __init__(self, live: dict[str, Any], changed: Callable[[], None], limit: int) -> None:
        self._live = live
        self._changed = changed
        self._limit = limit

    def append(self, text: str) -> None:
        """Add to what is shown, as a model writes it."""
        self.set(str(self) + text)

    def set(self, text: str, format: Literal["plain", "markdown"] | None = None) -> None:
        """Show this text instead."""
        text = storable(text)
        data = text.encode()
        if len(data) > self._limit:
            text = data[-self._limit :].decode("utf-8", "ignore")
        before = self._live.get("text", {})
        self._live["text"] = {**before, "content": text, **({"format": format} if format else {})}
        self._changed()

    def clear(self) -> None:
        """Show no text."""
        if self._live.pop("text", None) is not None:
            self._changed()

    def __str__(self) -> str:
        content: str = self._live.get("text", {}).get("content", "")
        return content


class Plan:
    """What the agent means to do, point by point."""

    def __init__(self, live: dict[str, Any], changed: Callable[[], None]) -> None:
        self._live = live
        self._changed = changed

    def item(self, key: str, title: str | None = None, status: PlanStatus | None = None) -> None:
        """Add a point at the end, or update the one of that key."""
        items: dict[str, LivePlanItem] = self._live.setdefault("plan", {}).setdefault("items", {})
        known = items.get(key)
        if known is None:
            ordinal = max((item["ordinal"] for item in items.values()), default=0) + 1
            known = items[key] = {"ordinal": ordinal, "title": fitting(title or key), "status": "pending"}
        if title is not None:
            known["title"] = fitting(title)
        if status is not None:
            known["status"] = status
        self._changed()

    def remove(self, key: str) -> None:
        """Take a point out."""
        if self._live.get("plan", {}).get("items", {}).pop(key, None) is not None:
            self._changed()

    def clear(self) -> None:
        """Take all points out."""
        if self._live.pop("plan", None) is not None:
            self._changed()


def fitting(line: str, longest: int = LINE_MAX) -> str:
    """The text as one line without control and formatting characters, at most `longest` characters."""
    clean = _UNPRINTABLE.sub(" ", line).strip()
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def checked(value: T) -> T:
    """The value, as it is. Raises TypeError or ValueError where it is no JSON, so that who gave it hears of it: with it
    nothing more could be sent."""
    msgspec.json.encode(value)
    return value


def storable(text: str) -> str:
    """The text without what no JSON text of the contract may hold: NUL, and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def now() -> str:
    """The time of this machine as the contract writes it. For display: the server counts by its own clock."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
