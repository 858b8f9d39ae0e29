"""The rules of access once more, in Python and from bare rows: what the SQL functions are compared with.

Nothing here asks a function of the database: rows are read as they lie in the tables and everything is worked out anew,
so that a mistake would have to be made twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]

LEVELS: Final = {"read": 1, "write": 2, "trigger": 3, "manage": 4}
ACTIVE: Final = ("queued", "running", "waiting_input")
TABLES: Final = (
    "principals",
    "group_members",
    "spaces",
    "channels",
    "channel_members",
    "threads",
    "grants",
    "messages",
    "events",
    "runs",
    "audit_log",
)


def read_rows(cursor: Any) -> dict[str, list[Row]]:
    """All rows of the tables that decide or show something, ids as text."""
    found: dict[str, list[Row]] = {}
    for table in TABLES:
        cursor.execute(f"SELECT to_jsonb(t) FROM livebox.{table} t")
        found[table] = [row for (row,) in cursor.fetchall()]
    return found


@dataclass
class Oracle:
    """Who may see what, by the rows of one moment."""

    rows: dict[str, list[Row]]

    def __post_init__(self) -> None:
        self.principals = {row["id"]: row for row in self.rows["principals"]}
        self.channels = {row["id"]: row for row in self.rows["channels"]}
        self.threads = {row["id"]: row for row in self.rows["threads"]}
        self.messages = {row["id"]: row for row in self.rows["messages"]}
        self.members = {(row["principal_id"], row["channel_id"]) for row in self.rows["channel_members"]}
        self.groups: dict[str, set[str]] = {}
        for row in self.rows["group_members"]:
            self.groups.setdefault(row["principal_id"], set()).add(row["group_id"])

    def active(self, who: str) -> bool:
        return bool(self.principals[who]["status"] == "active")

    def owner(self, who: str) -> bool:
        return self.active(who) and self.principals[who]["role"] == "owner"

    def level(self, who: str, channel_id: str | None) -> int:
        """0 none, 1 read, 2 write, 3 trigger, 4 manage."""
        channel = self.channels.get(channel_id or "")
        if channel is None or not self.active(who):
            return 0
        if channel["kind"] == "dm":
            return 2 if (who, channel["id"]) in self.members else 0
        if self.owner(who):
            return 4
        found = [LEVELS[row["level"]] for row in self._grants(who) if self._covers(row, channel)]
        if channel["operator_agent_id"] == who:
            found.append(2)
        return max(found, default=0)

    def space_level(self, who: str, space_id: str) -> int | None:
        """None where the space is not seen, 0 where only channels of it are."""
        if self.owner(who):
            return 4
        found = [LEVELS[row["level"]] for row in self._grants(who) if row["space_id"] == space_id]
        if any(self.level(who, row["id"]) for row in self.channels.values() if row["space_id"] == space_id):
            found.append(0)
        return max(found, default=None) if self.active(who) else None

    def _grants(self, who: str) -> list[Row]:
        mine = self.groups.get(who, set())
        return [row for row in self.rows["grants"] if row["principal_id"] == who or row["group_id"] in mine]

    @staticmethod
    def _covers(grant: Row, channel: Row) -> bool:
        return bool(
            grant["channel_id"] == channel["id"] or (grant["space_id"] and grant["space_id"] == channel["space_id"])
        )

    def sees_thread(self, who: str, thread_id: str) -> bool:
        thread = self.threads[thread_id]
        return thread["deleted_at"] is None and self.level(who, thread["channel_id"]) > 0

    def sees_message(self, who: str, message_id: str) -> bool:
        return self.sees_thread(who, self.messages[message_id]["thread_id"])

    def sees_event(self, who: str, event: Row) -> bool:
        """Whether the log tells them of it, given that they may ask at all."""
        if event["audience_principal"] or event["audience_group"]:
            mine = event["audience_principal"] == who or event["audience_group"] in self.groups.get(who, set())
            return bool(event["type"] == "access.changed" and mine)
        if event["resource_kind"] == "space":
            return self.space_level(who, event["space_id"]) is not None
        if event["thread_id"] is None:
            return self.level(who, event["channel_id"]) > 0
        thread = self.threads[event["thread_id"]]
        reads = self.level(who, thread["channel_id"]) > 0
        if event["type"] == "thread.moved" and not reads:
            return self.level(who, event["payload"]["from_channel_id"]) > 0
        if thread["deleted_at"] is not None:
            return reads and event["type"] == "thread.deleted"
        return reads

    def hidden_ids(self, who: str) -> set[str]:
        """The ids of everything that must not be spoken of to them."""
        hidden = {channel for channel in self.channels if not self.level(who, channel)}
        hidden |= {row["id"] for row in self.rows["spaces"] if self.space_level(who, row["id"]) is None}
        hidden |= {thread for thread in self.threads if not self.sees_thread(who, thread)}
        hidden |= {message for message in self.messages if not self.sees_message(who, message)}
        return hidden | {row["id"] for row in self.rows["runs"] if not self.sees_thread(who, row["thread_id"])}
