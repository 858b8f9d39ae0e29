"""What a client keeps: a snapshot, and the events after it applied as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.access.oracle import ACTIVE
from tests.access.random_world import RandomWorld

Row = dict[str, Any]

LISTS: Final = ("channels", "threads", "messages", "active_runs")
# Of active runs these move without events; the asker's level is left out of events.
LOOSE: Final = ("step_count", "headline", "version", "level")


def settled(row: Row, *loose: str) -> Row:
    """A row without what moves by itself."""
    return {name: value for name, value in row.items() if name not in loose}


@dataclass
class Replica:
    """All that one principal may see, by id."""

    who: str = field(compare=False)
    seq: int = field(compare=False)
    channels: dict[str, Row]
    threads: dict[str, Row]
    messages: dict[str, Row]
    runs: dict[str, Row]

    @classmethod
    def snapshot(cls, world: RandomWorld, who: str) -> Replica:
        """A fresh snapshot, all of its pages."""
        limits = {f"snapshot.{name}_max": 1 + world.random.below(4) for name in LISTS} | {"event.body_max_bytes": 4096}
        first = world.read("get_snapshot", who, limits=limits)
        assert first.code == "ok", first
        lists = {name: list(first.body[name]) for name in LISTS}
        for name, cursor in (first.cursor or {}).items():
            while cursor:
                page = world.read("get_snapshot", who, limits=limits, cursor=cursor)
                lists[name] += page.body[name]
                assert not any(page.body[other] for other in LISTS if other != name)
                cursor = (page.cursor or {}).get(name)
        keyed = {name: {row["id"]: row for row in rows} for name, rows in lists.items()}
        assert all(len(keyed[name]) == len(lists[name]) for name in LISTS), "no row comes twice"
        return cls(
            who,
            first.body["seq"],
            {key: settled(row, "level") for key, row in keyed["channels"].items()},
            keyed["threads"],
            keyed["messages"],
            {key: settled(row, *LOOSE) for key, row in keyed["active_runs"].items()},
        )

    def apply(self, world: RandomWorld) -> bool:
        """Bring it up to date from the log. False when a right of theirs changed: then a new snapshot is needed."""
        for event in world.events(self.who, self.seq):
            if event["type"] == "access.changed":
                return False
            self._apply(world, event)
            self.seq = event["seq"]
        return True

    def _apply(self, world: RandomWorld, event: Row) -> None:
        kind, payload = event["type"], event["payload"]
        if kind.startswith("message."):
            self.messages[payload["message"]["id"]] = payload["message"]
        elif kind.startswith("channel."):
            self.channels[payload["channel"]["id"]] = payload["channel"]
        elif kind == "thread.created":
            self.threads[payload["thread"]["id"]] = payload["thread"]
        elif kind == "thread.deleted" or (kind == "thread.moved" and "thread" not in payload):
            self._forget(payload["thread_id"])
        elif kind == "thread.moved":
            self._moved(world, payload["thread"])
        elif kind in ("run.state_changed", "run.changed"):
            run = payload["run"]
            self.runs.pop(run["id"], None)
            if run["state"] in ACTIVE:
                self.runs[run["id"]] = settled(run, *LOOSE)

    def _forget(self, thread_id: str) -> None:
        self.threads.pop(thread_id, None)
        for kept in (self.messages, self.runs):
            for key in [key for key, row in kept.items() if row.get("thread_id") == thread_id]:
                del kept[key]

    def _moved(self, world: RandomWorld, thread: Row) -> None:
        """A thread that comes from where they could not look is fetched; one they have comes along."""
        known = thread["id"] in self.threads
        self.threads[thread["id"]] = thread
        if known:
            for row in (*self.messages.values(), *self.runs.values()):
                if row.get("thread_id") == thread["id"]:
                    row["channel_id"] = thread["channel_id"]
            return
        messages, _ = world.pages("list_thread_messages", self.who, thread_id=thread["id"])
        self.messages |= {row["id"]: row for row in messages}
        runs, _ = world.pages("list_thread_runs", self.who, thread_id=thread["id"])
        self.runs |= {row["id"]: settled(row, *LOOSE) for row in runs if row["state"] in ACTIVE}
