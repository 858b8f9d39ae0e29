"""Small worlds made at random by the operations themselves, and what their people are shown."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

Row = dict[str, Any]

FAR: Final = 10**6
PAGES: Final = 500


class Shown(NamedTuple):
    """An answer: its code, its document, where it goes on, and its text as it leaves."""

    code: str
    body: Any
    cursor: Any
    text: str


class Random_:
    """Choices by numbers, so that hypothesis can shrink them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)
        self._next = 0

    def below(self, size: int) -> int:
        number = self._numbers[self._next % len(self._numbers)] if self._numbers else 0
        self._next += 1
        return (number + self._next // max(1, len(self._numbers))) % size

    def of(self, items: Sequence[Any]) -> Any:
        return items[self.below(len(items))]


class RandomWorld:
    """One world in one transaction of a plain connection. The people in it do random things, allowed or not."""

    def __init__(self, cursor: Any, random: Random_) -> None:
        self.cursor = cursor
        self.random = random
        self.keys: list[tuple[str, str, dict[str, Any]]] = []
        cursor.execute("SELECT livebox.create_owner('owner', 'Owner')::text")
        self.owner = cursor.fetchone()[0]
        self.people = [self.owner, *(self._principal("person", f"p{n}") for n in range(3))]
        self.agents = [self._principal("agent", f"a{n}") for n in range(2)]
        self.everybody = [*self.people, *self.agents]
        self.groups = [self.made("create_group", self.owner, name=f"G{n}") for n in range(2)]
        self.spaces = [self.made("create_space", self.owner, name=f"S{n}") for n in range(2)]
        self.channels = [
            self.made(
                "create_channel",
                self.owner,
                kind="channel",
                space_id=space,
                name=f"C{n}",
                allow_mentioned_agents=n == 1,
            )
            for space in self.spaces
            for n in range(2)
        ]
        self.channels.append(
            self.made("create_channel", self.people[1], kind="dm", member_ids=[self.people[1], self.people[2]])
        )
        for agent, channel in zip(self.agents, self.channels, strict=False):
            self.perform("update_channel", self.owner, {"channel_id": channel, "body": {"operator_agent_id": agent}})
        for _ in range(4):
            self._grant()
        for _ in range(3):
            self._thread()
        for _ in range(5):
            self._post()

    def _principal(self, kind: str, handle: str) -> str:
        policy = {"agent": {"billing_mode": "organization", "tool_class": "standard"}} if kind == "agent" else {}
        return self.made("create_principal", self.owner, kind=kind, handle=handle, display_name=handle, **policy)

    def perform(self, operation: str, who: str, args: dict[str, Any]) -> Shown:
        """One writing operation, as the lane runs it."""
        self.cursor.execute(
            "SELECT code, body, cursor FROM livebox.perform(%s, %s, %s)",
            (operation, json.dumps({"principal": who}), json.dumps(args)),
        )
        return self._shown()

    def read(self, function: str, who: str, **args: Any) -> Shown:
        """One reading operation."""
        self.cursor.execute(
            f"SELECT code, body, cursor FROM livebox.{function}(%s, %s)",
            (json.dumps({"principal": who}), json.dumps(args)),
        )
        return self._shown()

    def _shown(self) -> Shown:
        code, body, cursor = self.cursor.fetchone()
        return Shown(code, json.loads(body) if body else None, cursor, body or "")

    def made(self, operation: str, who: str, **body: Any) -> str:
        """Something new by a request with a key of its own."""
        args = {"body": body, "idempotency": {"key": uuid.uuid4().hex, "hash": "x"}}
        shown = self.perform(operation, who, args)
        assert shown.code == "created", (operation, shown)
        self.keys.append((operation, who, args))
        return str(shown.body["id"])

    def pages(self, function: str, who: str, **args: Any) -> tuple[list[Row], str]:
        """All of a list by pages of a random small size, and every text that was shown."""
        items: list[Row] = []
        texts: list[str] = []
        limit = 1 + self.random.below(3)
        for _ in range(PAGES):
            shown = self.read(function, who, limit=limit, **args)
            assert shown.code == "ok", (function, shown)
            texts.append(shown.text)
            items += shown.body["items"]
            if shown.cursor is None:
                return items, "".join(texts)
            assert len(shown.body["items"]) == limit, "a page that goes on is full"
            args["cursor"] = shown.cursor
        raise AssertionError(f"{function} has no end")

    def events(self, who: str, after: int = 0) -> list[Row]:
        """The log as it is told to them, by pages of a random small size."""
        items: list[Row] = []
        limit = 1 + self.random.below(5)
        for _ in range(PAGES):
            shown = self.read("list_events", who, after=after, limit=limit)
            assert shown.code == "ok", shown
            items += shown.body["items"]
            assert shown.body["next_after"] >= after
            after = shown.body["next_after"]
            if not shown.body["has_more"]:
                return items
            assert len(shown.body["items"]) == limit, "a page that goes on is full"
        raise AssertionError("the log has no end")

    # what people do

    def act(self) -> Shown:
        """Somebody does something, whether they may or not."""
        return self.random.of(ACTIONS)(self)

    def _any(self, table: str, condition: str = "true", *values: object) -> str:
        """Mostly one that meets the condition."""
        if not self.random.below(6):
            condition, values = "true", ()
        self.cursor.execute(f"SELECT id::text FROM livebox.{table} t WHERE {condition} ORDER BY id", values or None)
        found = [row for (row,) in self.cursor.fetchall()]
        return str(self.random.of(found)) if found else str(uuid.uuid4())

    def _post(self) -> Shown:
        mentions = [self.random.of(self.agents)] if self.random.below(2) else []
        body = {"body": "x" * (1 + self.random.below(40)), "client_msg_id": str(uuid.uuid4())}
        who = self.random.of(self.everybody)
        place = self._any("threads", "livebox.channel_level(%s, t.channel_id) >= 2", who)
        args = {"thread_id": place, "body": body | ({"mentions": mentions} if mentions else {}), "request_hash": "h"}
        shown = self.perform("create_message", who, args)
        if shown.code == "created":
            self.keys.append(("create_message", who, args))
        return shown

    def _edit(self) -> Shown:
        return self.perform(
            "edit_message", self._author(), {"message_id": self.message, "body": {"body": f"e{self.random.below(9)}"}}
        )

    def _delete(self) -> Shown:
        return self.perform("delete_message", self._author(), {"message_id": self.message})

    def _author(self) -> str:
        self.message = self._any("messages")
        self.cursor.execute("SELECT author_id::text FROM livebox.messages WHERE id = %s", (self.message,))
        row = self.cursor.fetchone()
        return str(row[0]) if row and self.random.below(4) else str(self.random.of(self.everybody))

    def _thread(self) -> Shown:
        who = self.random.of(self.everybody)
        place = self._any("channels", "livebox.channel_level(%s, t.id) >= 2", who)
        args = {"channel_id": place, "body": {"title": "T"}, "idempotency": {"key": uuid.uuid4().hex, "hash": "x"}}
        shown = self.perform("create_thread", who, args)
        if shown.code == "created":
            self.keys.append(("create_thread", who, args))
        return shown

    def _move(self) -> Shown:
        args = {
            "thread_id": self._any("threads", "NOT t.is_main"),
            "body": {"channel_id": self._any("channels", "t.kind = 'channel'")},
        }
        return self.perform("move_thread", self._manager(), args)

    def _remove(self) -> Shown:
        return self.perform("delete_thread", self._manager(), {"thread_id": self._any("threads", "NOT t.is_main")})

    def _manager(self) -> str:
        return str(self.owner if self.random.below(3) else self.random.of(self.everybody))

    def _grant(self) -> Shown:
        holder = (
            {"principal_id": self.random.of(self.everybody)}
            if self.random.below(2)
            else {"group_id": self.random.of(self.groups)}
        )
        place = (
            {"space_id": self.random.of(self.spaces)} if self.random.below(2) else {"channel_id": self._any("channels")}
        )
        body = {**holder, **place, "level": self.random.of(["read", "write", "trigger", "manage"])}
        args = {"body": body, "idempotency": {"key": uuid.uuid4().hex, "hash": "x"}}
        who = self._manager()
        shown = self.perform("grant_access", who, args)
        if shown.code == "created":
            self.keys.append(("grant_access", who, args))
        return shown

    def _revoke(self) -> Shown:
        return self.perform("revoke_access", self._manager(), {"grant_id": self._any("grants")})

    def _membership(self) -> Shown:
        operation = "add_group_member" if self.random.below(3) else "remove_group_member"
        args = {"group_id": self.random.of(self.groups), "principal_id": self.random.of(self.everybody)}
        return self.perform(operation, self._manager(), args)

    def _status(self) -> Shown:
        args = {
            "principal_id": self.random.of(self.everybody),
            "body": {"status": self.random.of(["active", "active", "disabled"])},
        }
        return self.perform("update_principal", self._manager(), args)

    def _channel(self) -> Shown:
        body: Row = self.random.of(
            [{"read_only": True}, {"read_only": False}, {"unset": ["operator_agent_id"]}, {"name": "N"}]
            + [{"operator_agent_id": agent} for agent in self.agents]
        )
        return self.perform("update_channel", self._manager(), {"channel_id": self._any("channels"), "body": body})


ACTIONS: Final[tuple[Callable[[RandomWorld], Shown], ...]] = (
    RandomWorld._post,
    RandomWorld._post,
    RandomWorld._post,
    RandomWorld._edit,
    RandomWorld._delete,
    RandomWorld._thread,
    RandomWorld._move,
    RandomWorld._move,
    RandomWorld._remove,
    RandomWorld._grant,
    RandomWorld._grant,
    RandomWorld._grant,
    RandomWorld._revoke,
    RandomWorld._membership,
    RandomWorld._status,
    RandomWorld._channel,
)
