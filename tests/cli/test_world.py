"""The test world is the one that docs/world.md describes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from db import Database, instance
from livebox.world import CHANNELS, OWNER, World, load

ROOT = Path(__file__).resolve().parents[2]
DM = "alex+sam"
READ, WRITE, TRIGGER, MANAGE = 1, 2, 3, 4
LEVELS = {
    "owner": dict.fromkeys(CHANNELS, MANAGE),
    "alex": {"Support/General": TRIGGER, "Support/Escalation": TRIGGER, DM: WRITE},
    "sam": {"Support/General": READ, "Marketing/General": WRITE, DM: WRITE},
    "robin": {"Support/Escalation": WRITE},
    "lotse": {"Support/General": WRITE, "Support/Escalation": WRITE},
    "texter": {"Marketing/General": WRITE, "Support/Escalation": WRITE},
    "assistent": {"Research/General": WRITE},
}


def test_everybody_has_their_levels_and_no_others(world: World, sql: Any) -> None:
    found: dict[str, dict[str, int]] = {}
    with sql.cursor() as cursor:
        for handle, principal in world.principals.items():
            for name, channel in world.channels.items():
                cursor.execute("SELECT livebox.channel_level(%s, %s)", (principal, channel))
                (level,) = cursor.fetchone()
                if level:
                    found.setdefault(handle, {})[name] = level
    assert found == LEVELS


def test_operators_guests_and_policies(world: World, sql: Any) -> None:
    with sql.cursor() as cursor:
        cursor.execute("SELECT id::text, operator_agent_id::text, allow_mentioned_agents FROM livebox.channels")
        channels = {identity: (operator, guests) for identity, operator, guests in cursor.fetchall()}
        cursor.execute(
            "SELECT handle, billing_mode, credential_holder_id::text FROM livebox.principals WHERE kind = 'agent'"
        )
        agents = {handle: (mode, holder) for handle, mode, holder in cursor.fetchall()}
    operators = {"Support": "lotse", "Marketing": "texter", "Research": "assistent"}
    for name, identity in world.channels.items():
        operator = world.principals.get(operators.get(name.split("/")[0], ""))
        assert channels[identity] == (operator, name == "Support/Escalation")
    assert agents == {
        "lotse": ("organization", None),
        "texter": ("organization", None),
        "assistent": ("personal", world.principals["owner"]),
    }


def test_each_channel_has_its_main_thread(world: World, sql: Any) -> None:
    assert set(world.threads) == set(world.channels)
    with sql.cursor() as cursor:
        cursor.execute("SELECT id::text, channel_id::text FROM livebox.threads WHERE is_main")
        mains = dict(cursor.fetchall())
    assert {mains[thread]: name for name, thread in world.threads.items()} == {
        channel: name for name, channel in world.channels.items()
    }


async def test_loaders_at_the_same_time_make_one_world(db: Database, database_dsn: str, sql: Any) -> None:
    owners = await asyncio.gather(
        *(asyncio.to_thread(instance.create_owner, database_dsn, OWNER, "Owner") for _ in range(4))
    )
    (owner,) = set(owners)
    assert owner is not None
    first, *others = await asyncio.gather(*(load(db, owner) for _ in range(4)))
    assert all(other == first for other in others)
    with sql.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM livebox.channels")
        assert cursor.fetchone() == (len(CHANNELS) + 1,)


def test_the_page_about_it_names_everybody_and_every_place(world: World) -> None:
    text = (ROOT / "docs" / "world.md").read_text(encoding="utf-8")
    for handle in world.principals:
        assert f"| `{handle}` |" in text
    for channel in CHANNELS:
        assert f"| {channel} |" in text
