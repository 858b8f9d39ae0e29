"""Who may see what, as a state of the log: what SQL says of each connected principal, loaded again where it changes.

Nothing is decided here by rules of its own. `rights_of` gives all rights of some principals in one snapshot together
with its seq; an event that may change them (grants, members, status, new channels and spaces) has them loaded again
before it and anything after it is handed out. So rights are never older than the event they decide about. They may be
newer: then an event counts only where its thread was also still to be seen in the snapshot of the rights (`places`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from db import Database
from livebox.gateway.feed import Feed, FeedEvent

TOGETHER: Final = 200
"""Principals of one read."""

_COLUMNS: Final = "seq, principal_id, active, owner, channels, spaces, groups, places"
_RIGHTS: Final = f"SELECT {_COLUMNS} FROM livebox.rights_of(%s::uuid[], %s)"  # noqa: S608 - names of ours
_CHANGING: Final = frozenset({"access.changed", "channel.created", "space.created"})
"""Events that may change somebody's rights. A thread that moves changes what is to be seen and nobody's rights; what of
an updated channel changes a right (its operator) is told by access.changed."""


class View(NamedTuple):
    """The rights of one principal at `seq`: levels by channel and by space. `places`: see `livebox.rights_of`."""

    seq: int
    active: bool
    owner: bool
    channels: Mapping[str, int]
    spaces: Mapping[str, int]
    groups: frozenset[str]
    places: Mapping[str, str]

    def differs(self, other: View) -> bool:
        """Does anything but the moment differ?"""
        return self._replace(seq=0, places={}) != other._replace(seq=0, places={})


NOBODY: Final = View(0, False, False, {}, {}, frozenset(), {})


class Rights:
    """The views of all principals that have a session here, counted by `load` and `forget`."""

    def __init__(self, database: Database, feed: Feed) -> None:
        self._database = database
        self._feed = feed
        self._views: dict[str, View] = {}
        self._users: dict[str, int] = {}
        self._changed = 0  # seq of the last event that may have changed rights
        self._untold: set[str] = set()  # whose rights changed in a reload that did not get to its end

    async def load(self, principal_id: str) -> int:
        """Begin to hold the rights of a principal; pair it with `forget`. Raises `db.DatabaseError`: nothing is held.

        Gives the seq after which the events for this principal are to be had from here: what was before it comes from
        listEvents.
        """
        self._users[principal_id] = self._users.get(principal_id, 0) + 1
        try:
            while principal_id not in self._views:
                view = (await self._read([principal_id])).get(principal_id, NOBODY)
                if view.seq >= self._changed or view is NOBODY:
                    # An event that was handed out meanwhile changed nothing that this snapshot does not know.
                    self._views.setdefault(principal_id, view)
        except BaseException:
            self.forget(principal_id)
            raise
        return max(self._feed.position, self._views[principal_id].seq)

    def forget(self, principal_id: str) -> None:
        """One session less of this principal."""
        left = self._users.get(principal_id, 0) - 1
        if left > 0:
            self._users[principal_id] = left
        else:
            self._users.pop(principal_id, None)
            self._views.pop(principal_id, None)

    def view(self, principal_id: str) -> View:
        """All that is held of a principal; nothing of one who is not."""
        return self._views.get(principal_id, NOBODY)

    def active(self, principal_id: str) -> bool:
        """May it do anything at all?"""
        return self.view(principal_id).active

    def sees(self, principal_id: str, channel_id: str | None) -> bool:
        """May it read the channel?"""
        return channel_id in self.view(principal_id).channels

    def level(self, principal_id: str, channel_id: str) -> int:
        """0 none, 1 read, 2 write, 3 trigger, 4 manage."""
        return self.view(principal_id).channels.get(channel_id, 0)

    def sees_space(self, principal_id: str, space_id: str | None) -> bool:
        """Does it see the space, or a channel of it?"""
        return space_id in self.view(principal_id).spaces

    def in_group(self, principal_id: str, group_id: str | None) -> bool:
        """Is it a member?"""
        return group_id in self.view(principal_id).groups

    async def advance(self, event: FeedEvent) -> set[str]:
        """Bring all views up to this event; whose rights changed. Raises `db.DatabaseError`; then call it again."""
        if event.type not in _CHANGING:
            return set()
        self._changed = event.seq
        concerned = [who for who in self._views if self._concerns(who, event) and self._views[who].seq < event.seq]
        return await self._reload(concerned)

    async def reload(self, seq: int) -> set[str]:
        """Load all views again, after a gap in the log up to `seq`; whose rights changed. Raises `db.DatabaseError`."""
        self._changed = seq
        return await self._reload(list(self._views))

    async def _reload(self, principals: list[str]) -> set[str]:
        for start in range(0, len(principals), TOGETHER):
            chunk = principals[start : start + TOGETHER]
            found = await self._read(chunk)
            for who in chunk:
                before, view = self._views.get(who), found.get(who, NOBODY)
                if before is not None:
                    self._views[who] = view
                    if view.differs(before):
                        self._untold.add(who)
        changed, self._untold = self._untold, set()
        return changed

    async def _read(self, principals: Iterable[str]) -> dict[str, View]:
        given = "{" + ",".join(principals) + "}"
        rows = await self._database.readers.rows(_RIGHTS, given, self._feed.position)
        return {row[1].decode(): read_view(row) for row in rows}

    def _concerns(self, who: str, event: FeedEvent) -> bool:
        if event.audience_principal is not None:
            return who == event.audience_principal
        if event.audience_group is not None:
            return self.in_group(who, event.audience_group)
        if event.type == "space.created":
            return self.view(who).owner
        return self.sees_space(who, event.space_id) or self.sees(who, event.channel_id)

    def receives(self, principal_id: str, event: FeedEvent) -> bytes | None:
        """The event as this principal may see it, as JSON; None when it may not. Once `advance` is through with it."""
        view = self.view(principal_id)
        if not view.active:
            return None
        if event.audience_principal is not None or event.audience_group is not None:
            mine = event.audience_principal == principal_id or event.audience_group in view.groups
            if event.type != "access.changed" or not mine:
                return None
            placed = event.payload.get("channel_id") in view.channels or event.payload.get("space_id") in view.spaces
            return event.body if placed else event.elsewhere
        if event.resource_kind == "space":
            return event.body if event.space_id in view.spaces else None
        if event.readers is not None:
            return event.body if view.owner or principal_id in event.readers else None
        if event.thread_id is None:
            return event.body if event.channel_id in view.channels else None
        return _of_thread(view, event)


def _of_thread(view: View, event: FeedEvent) -> bytes | None:
    gone = event.gone
    seen = event.channel_id in view.channels
    place = view.places.get(event.thread_id or "")
    if place is not None and event.seq <= view.seq:
        seen = seen and (place in view.channels or place == "")
        gone = gone or (place == "" and event.type != "thread.deleted")
    if event.type == "thread.moved":
        known = event.payload.get("from_channel_id") in view.channels
        if not seen:
            return event.elsewhere if known else None
        return None if gone else event.body if known else event.arrived
    return event.body if seen and not gone else None


def read_view(row: Any) -> View:
    """A view from a row of `livebox.rights_of`."""
    seq, _, active, owner, channels, spaces, groups, places = row
    return View(
        seq,
        active,
        owner,
        msgspec.json.decode(channels),
        msgspec.json.decode(spaces),
        frozenset(msgspec.json.decode(groups)),
        msgspec.json.decode(places),
    )
