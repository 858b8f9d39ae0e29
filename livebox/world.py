"""The test world: the people, agents and places that tests, examples and `livebox world` speak of.

It is loaded through the operations that clients use, and loading it again changes nothing. docs/world.md shows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from db import Answer, Caller, Database

OWNER: Final = "owner"

# handle -> display name
PEOPLE: Final = {"alex": "Alex", "sam": "Sam", "robin": "Robin"}
# handle -> display name, and for a personal agent whose credential it uses
AGENTS: Final = {"lotse": ("Lotse", None), "texter": ("Texter", None), "assistent": ("Assistent", OWNER)}
# space/channel -> operator, and more members of the request
CHANNELS: Final[Mapping[str, tuple[str | None, Mapping[str, Any]]]] = {
    "Support/General": ("lotse", {}),
    "Support/Escalation": ("lotse", {"allow_mentioned_agents": True}),
    "Marketing/General": ("texter", {}),
    "Engineering/General": (None, {}),
    "Research/General": ("assistent", {}),
}
GROUPS: Final = {"Readers": ("sam",)}
# holder (a handle or a group), place (a space or space/channel), level
GRANTS: Final = (
    ("alex", "Support", "trigger"),
    ("sam", "Marketing", "write"),
    ("Readers", "Support/General", "read"),
    ("robin", "Support/Escalation", "write"),
    ("texter", "Support/Escalation", "write"),
)
DMS: Final = (("alex", "sam"),)


class WorldError(Exception):
    """The world cannot be loaded here; the text says which part was refused and why."""


@dataclass(frozen=True, slots=True)
class World:
    """Ids by name: principals by handle, channels by `Space/Channel` (a DM by `alex+sam`), main threads likewise."""

    principals: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)

    def caller(self, handle: str) -> Caller:
        """The principal of that handle, as a caller of operations."""
        return Caller(self.principals[handle])


async def load(database: Database, owner_id: str) -> World:
    """Bring the world about where it is missing, and give all its ids; the owner is there already (db.instance).

    Raises WorldError when an operation is refused.
    """
    return await _Loader(database, owner_id).load()


class _Loader:
    def __init__(self, database: Database, owner_id: str) -> None:
        self._database = database
        self._world = World(principals={OWNER: owner_id})

    async def load(self) -> World:
        world = self._world
        await self._principals()
        for name, members in GROUPS.items():
            world.groups[name] = await self._made("create_group", {"name": name}, kind="group", name=name)
            for handle in members:
                where = {"group_id": world.groups[name], "principal_id": world.principals[handle]}
                await self._write("add_group_member", OWNER, where)
        await self._channels()
        for holder, place, level in GRANTS:
            await self._grant(holder, place, level)
        for handles in DMS:
            members_ids = [world.principals[handle] for handle in handles]
            request = {"kind": "dm", "member_ids": members_ids}
            name = "+".join(handles)
            made = await self._made("create_channel", request, by=handles[0], kind="dm", member_ids=members_ids)
            world.channels[name] = made
        for name, channel_id in world.channels.items():
            found = await self._find(kind="main_thread", channel_id=channel_id)
            if found is None:
                raise WorldError(f"channel {name} has no main thread")
            world.threads[name] = found
        return world

    async def _principals(self) -> None:
        principals = self._world.principals
        for handle, display_name in PEOPLE.items():
            person = {"kind": "person", "handle": handle, "display_name": display_name}
            principals[handle] = await self._made("create_principal", person, kind="principal", name=handle)
        for handle, (display_name, holder) in AGENTS.items():
            policy = {"billing_mode": "personal" if holder else "organization", "tool_class": "standard"}
            if holder:
                policy["credential_holder_id"] = principals[holder]
            request: dict[str, Any] = {"kind": "agent", "handle": handle, "display_name": display_name, "agent": policy}
            principals[handle] = await self._made("create_principal", request, kind="principal", name=handle)

    async def _channels(self) -> None:
        world = self._world
        for path, (operator, more) in CHANNELS.items():
            space, name = path.split("/")
            if space not in world.spaces:
                world.spaces[space] = await self._made("create_space", {"name": space}, kind="space", name=space)
            request = {"kind": "channel", "space_id": world.spaces[space], "name": name, **more}
            if operator:
                request["operator_agent_id"] = world.principals[operator]
            world.channels[path] = await self._made(
                "create_channel", request, kind="channel", name=name, space_id=world.spaces[space]
            )

    async def _grant(self, holder: str, place: str, level: str) -> None:
        world = self._world
        holder_kind, holder_id = (
            ("principal_id", world.principals[holder])
            if holder in world.principals
            else ("group_id", world.groups[holder])
        )
        place_kind, place_id = (
            ("channel_id", world.channels[place]) if "/" in place else ("space_id", world.spaces[place])
        )
        request = {holder_kind: holder_id, place_kind: place_id, "level": level}
        await self._made("grant_access", request, kind="grant", holder_id=holder_id, place_id=place_id, level=level)

    async def _find(self, **named: Any) -> str | None:
        answer = await self._database.readers.call("find_named", None, named)
        return None if answer.code == "not_found" else _id(answer, str(named["kind"]))

    async def _made(self, operation: str, request: dict[str, Any], *, by: str = OWNER, **named: Any) -> str:
        """The id of what is there under that name, or of what `operation` makes now."""
        found = await self._find(**named)
        if found is not None:
            return found
        # Two loaders at the same time find the same nothing; the key lets only one of them make it.
        digest = hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()
        args = {"body": request, "idempotency": {"key": f"world-{digest[:32]}", "hash": digest}}
        answer = await self._write(operation, by, args)
        return _id(answer, operation)

    async def _write(self, operation: str, by: str, args: dict[str, Any]) -> Answer:
        answer = await self._database.lane.submit(operation, self._world.caller(by), args)
        if answer.code not in ("ok", "created", "no_content"):
            raise WorldError(f"{operation} was refused: {answer.code}")
        return answer


def _id(answer: Answer, what: str) -> str:
    if answer.code not in ("ok", "created") or answer.body is None:
        raise WorldError(f"{what}: {answer.code}")
    body = msgspec.json.decode(answer.body)
    return str(body["id"])
