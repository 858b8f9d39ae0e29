"""Changes of rights and places, and what follows for the runs that are at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from db import Database
from livebox.jobs.consequences import Consequences
from livebox.settings import Settings
from tests.runs.stage import Stage

Change = Callable[[Stage, str], Awaitable[None]]
"""A change that concerns the run of a thread."""

CHUNK: Final = 3
"""Smaller than what most tests have, so that everything is done in several steps."""


def consequences(database: Database, chunk: int = CHUNK) -> Consequences:
    """The job of one process, which does not look by itself for an hour."""
    return Consequences(database, Settings.load({}, {"jobs.chunk": chunk, "jobs.reap_interval": 3600}))


async def follow(stage: Stage) -> None:
    """All that is pending happens."""
    await consequences(stage.db).sweep()
    assert pending(stage) == []


def pending(stage: Stage) -> list[str]:
    """The reasons of what is pending, oldest first."""
    return [row["reason"] for row in stage.sql("SELECT reason FROM livebox.pending_consequences ORDER BY id")]


async def must(stage: Stage, operation: str, who: str = "owner", **args: Any) -> Any:
    """An operation that must pass: its body."""
    outcome = await stage.write(operation, who, **args)
    assert outcome.code in ("ok", "created", "no_content"), outcome
    return outcome.body


async def status(stage: Stage, who: str, value: str) -> None:
    """Disables or enables a principal."""
    await must(stage, "update_principal", principal_id=stage.id(who), body={"status": value})


async def read_only(stage: Stage, channel: str, value: bool) -> None:
    """Sets a channel read-only, or not."""
    channel_id = stage.world.channels[channel]
    await must(stage, "update_channel", channel_id=channel_id, body={"read_only": value})


async def grant(stage: Stage, level: str, **body: str) -> str:
    """The id of a grant."""
    return str((await must(stage, "grant_access", body={"level": level, **body}))["id"])


async def revoke(stage: Stage, who: str, **where: str) -> None:
    """Takes a principal's own grant on a space or channel."""
    (column, place), *_ = where.items()
    (row,) = stage.sql(
        f"SELECT id FROM livebox.grants WHERE principal_id = %s AND {column} = %s",
        stage.id(who),
        place,
    )
    await must(stage, "revoke_access", grant_id=row["id"])


async def move(stage: Stage, thread: str, channel: str) -> None:
    """Moves a thread."""
    await must(stage, "move_thread", thread_id=thread, body={"channel_id": stage.world.channels[channel]})


async def person_in_group(stage: Stage) -> None:
    """Kim, who may trigger in Support/General by being in a group."""
    body = {"kind": "person", "handle": "kim", "display_name": "Kim"}
    stage.world.principals["kim"] = (await must(stage, "create_principal", body=body))["id"]
    stage.world.groups["Helpers"] = (await must(stage, "create_group", body={"name": "Helpers"}))["id"]
    await membership(stage, "add")
    channel_id = stage.world.channels["Support/General"]
    await grant(stage, "trigger", group_id=stage.world.groups["Helpers"], channel_id=channel_id)


async def membership(stage: Stage, verb: str) -> None:
    """Kim comes into the group, or leaves it."""
    ids = {"group_id": stage.world.groups["Helpers"], "principal_id": stage.id("kim")}
    await must(stage, f"{verb}_group_member", **ids)


# --- the changes, each with the run of a thread of Support/General in mind ---------------------------------------------


async def disables_person(stage: Stage, thread: str) -> None:
    await status(stage, "alex", "disabled")


async def disables_agent(stage: Stage, thread: str) -> None:
    await status(stage, "lotse", "disabled")


async def revokes(stage: Stage, thread: str) -> None:
    await revoke(stage, "alex", space_id=stage.world.spaces["Support"])


async def moves(stage: Stage, thread: str) -> None:
    await move(stage, thread, "Marketing/General")


async def sets_read_only(stage: Stage, thread: str) -> None:
    await read_only(stage, "Support/General", True)


async def moves_to_read_only(stage: Stage, thread: str) -> None:
    await read_only(stage, "Support/Escalation", True)
    await follow(stage)  # what was there before is over; only the move brings this run there
    await move(stage, thread, "Support/Escalation")


async def deletes(stage: Stage, thread: str) -> None:
    await must(stage, "delete_thread", thread_id=thread)


CHANGES: Final[dict[str, tuple[Change, str]]] = {
    "person disabled": (disables_person, "user_disabled"),
    "agent disabled": (disables_agent, "agent_disabled"),
    "grant revoked": (revokes, "access_revoked"),
    "thread moved": (moves, "access_revoked"),
    "channel read-only": (sets_read_only, "channel_read_only"),
    "thread moved to a read-only channel": (moves_to_read_only, "channel_read_only"),
    "thread deleted": (deletes, "thread_deleted"),
}
"""Each change, and what the run of that thread ends with."""


async def enables_person(stage: Stage, thread: str) -> None:
    await status(stage, "alex", "active")


async def enables_agent(stage: Stage, thread: str) -> None:
    await status(stage, "lotse", "active")


async def grants_again(stage: Stage, thread: str) -> None:
    await grant(stage, "read", principal_id=stage.id("alex"), channel_id=stage.world.channels["Support/General"])


async def moves_back(stage: Stage, thread: str) -> None:
    await move(stage, thread, "Support/General")


async def sets_writable(stage: Stage, thread: str) -> None:
    await read_only(stage, "Support/General", False)


UNDOINGS: Final[dict[str, Change]] = {
    "person disabled": enables_person,
    "agent disabled": enables_agent,
    "grant revoked": grants_again,
    "thread moved": moves_back,
    "channel read-only": sets_writable,
    "thread moved to a read-only channel": moves_back,
}
"""What makes a change untrue again; there is no way back from a deleted thread."""
