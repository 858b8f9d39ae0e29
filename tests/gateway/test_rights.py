"""What the tail hands out is what listEvents gives, whatever the world and whatever happens in it.

The oracle is SQL: after each event everybody asks for what came since, and each must have been handed just that. Where
the tail comes late, several changes behind, the two may differ by what changed in between, and only one way: nothing is
handed out that was to be seen at no moment.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from db import SUCCESS, Database, DatabaseUnavailable
from livebox.gateway.rights import View
from tests.access.random_world import Random_, RandomWorld, Shown
from tests.fixtures.database import connect
from tests.gateway.feed_stand import Row, Tail, tail

SEEDS = range(8)


def choices(seed: int) -> list[int]:
    return [(seed * 7919 + n * 104729 + n * n) % 1009 for n in range(150)]


@pytest.fixture
def world(database_dsn: str, request: pytest.FixtureRequest) -> Iterator[RandomWorld]:
    """A world whose changes are committed one by one."""
    with closing(connect(database_dsn)) as connection, connection.cursor() as cursor:
        yield RandomWorld(cursor, Random_(choices(getattr(request, "param", 0))))


def top(world: RandomWorld) -> int:
    world.cursor.execute("SELECT livebox.last_seq()")
    return int(world.cursor.fetchone()[0])


def active(world: RandomWorld, who: str) -> bool:
    world.cursor.execute("SELECT status = 'active' FROM livebox.principals WHERE id = %s", (who,))
    return bool(world.cursor.fetchone()[0])


def told(world: RandomWorld, who: str, after: int) -> list[Row]:
    """What listEvents gives now of what came after."""
    return world.events(who, after) if active(world, who) else []


def register(world: RandomWorld) -> None:
    """A run without a thread, and the event that tells of it."""
    registrar, agent = world.random.of(world.agents), world.random.of(world.agents)
    person = world.random.of(world.people)
    world.cursor.execute(
        "WITH made AS (INSERT INTO livebox.runs (agent_id, state, state_changed_at, trigger_kind, billing_mode_expected,"
        " external_id, queued_at, registered_at, registered_by, agents, user_dims)"
        " SELECT %s, 'queued', at, 'registration', 'organization', livebox.new_id()::text, at, at, %s, ARRAY[%s]::uuid[], %s"
        " FROM livebox.clock() AS at RETURNING *)"
        " SELECT livebox.run_event('run.registered', made, made.registered_by) FROM made",
        (agent, registrar, agent, json.dumps({"user_id": person, "team": "x"})),
    )


def act(world: RandomWorld) -> None:
    if world.random.below(12) == 0:
        register(world)
    else:
        world.act()


async def followed(world: RandomWorld, made: Tail, steps: int) -> None:
    """After each change everybody has been handed just what listEvents gives them of it."""
    for _ in range(steps):
        after = top(world)
        act(world)
        await made.follow(top(world))
        for who, got in made.got.items():
            assert [row for row in got if row["seq"] > after] == told(world, who, after)


@pytest.mark.parametrize("world", SEEDS, indirect=True)
async def test_everybody_is_handed_what_list_events_gives(db: Database, world: RandomWorld) -> None:
    async with tail(db) as made:
        await made.watch(world.everybody)
        await followed(world, made, 40)
        assert any(made.got.values())


@pytest.mark.parametrize("world", SEEDS, indirect=True)
async def test_who_comes_late_is_handed_nothing_that_was_never_to_be_seen(db: Database, world: RandomWorld) -> None:
    async with tail(db) as made:
        await made.watch(world.everybody)
        for _ in range(8):
            after = top(world)
            await made.feed.stop()
            ever: dict[str, set[int]] = {who: set() for who in world.everybody}
            always: dict[str, dict[int, int]] = {who: {} for who in world.everybody}
            moments = 6
            for moment in range(moments):
                before = top(world)
                act(world)
                for who in world.everybody:
                    seen = {row["seq"] for row in told(world, who, after)}
                    ever[who] |= seen
                    for seq in range(before + 1, top(world) + 1):
                        always[who][seq] = moment
                    always[who] = {seq: since for seq, since in always[who].items() if seq in seen}
            await made.feed.start(after)
            await made.follow(top(world))
            for who, got in made.got.items():
                handed = {row["seq"] for row in got if row["seq"] > after}
                assert handed <= ever[who]
                assert set(always[who]) <= handed


async def compared(dsn: str, db: Database, twin: str) -> None:
    """The comparison with a twin of the rights, in one world after the other."""
    for seed in SEEDS:
        with closing(connect(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE livebox.principals DISABLE TRIGGER principals_last_owner")
            cursor.execute("UPDATE livebox.principals SET handle = id::text, role = NULL, version = version + 1")
            cursor.execute("UPDATE livebox.groups SET name = id::text, version = version + 1")
            world = RandomWorld(cursor, Random_(choices(seed)))
            async with tail(db) as made:
                await made.watch(world.everybody)
                break_(made, twin)
                await followed(world, made, 40)


@pytest.mark.parametrize("twin", ["never advances", "sees everything", "tells of no places"])
async def test_the_comparison_can_fail(database_dsn: str, db: Database, twin: str) -> None:
    """Rights that are loaded once, or not asked, give something else than listEvents in one of a few worlds."""
    with pytest.raises(AssertionError):
        await compared(database_dsn, db, twin)


def break_(made: Tail, twin: str) -> None:
    receives = made.rights.receives
    if twin == "never advances":
        made.feed.before_event = None
    elif twin == "sees everything":
        made.rights.receives = lambda who, event: event.body  # type: ignore[method-assign]
    else:
        made.rights.receives = lambda who, event: receives(who, event) and event.body  # type: ignore[method-assign]


class Late(NamedTuple):
    """Somebody who reads nothing yet, and a thread in a channel."""

    world: RandomWorld
    who: str
    channel: str
    thread: str
    other: str
    hidden: str

    def do(self, operation: str, args: Row) -> Shown:
        shown = self.world.perform(operation, self.world.owner, args)
        assert shown.code in SUCCESS, shown
        return shown

    def grant(self, channel: str) -> None:
        self.do("grant_access", {"body": {"principal_id": self.who, "channel_id": channel, "level": "read"}})

    def say(self) -> int:
        body = {"body": "x", "client_msg_id": str(uuid.uuid4())}
        self.do("create_message", {"thread_id": self.thread, "body": body, "request_hash": "h"})
        return top(self.world)

    def take_away(self, delete: bool) -> None:
        if delete:
            self.do("delete_thread", {"thread_id": self.thread})
        else:
            self.do("move_thread", {"thread_id": self.thread, "body": {"channel_id": self.hidden}})


@pytest.fixture
def late(world: RandomWorld) -> Late:
    owner = world.owner
    who = world.made("create_principal", owner, kind="person", handle="late", display_name="Late")
    space = world.made("create_space", owner, name="S")
    channel, other, hidden = (
        world.made("create_channel", owner, kind="channel", space_id=space, name=name) for name in "123"
    )
    thread = world.perform("create_thread", owner, {"channel_id": channel, "body": {"title": "T"}}).body["id"]
    return Late(world, who, channel, thread, other, hidden)


async def handed_late(db: Database, late: Late, *, delete: bool, forgetful: bool = False) -> tuple[list[int], int]:
    """What a tail hands them that loads their rights when more has happened; and the seq of what was said before that."""
    async with tail(db) as made:
        await made.watch([late.who])
        await made.feed.stop()
        after = made.feed.position
        late.grant(late.other)  # here their rights are loaded, which by then are those after the last grant
        said = late.say()
        late.take_away(delete)
        late.grant(late.channel)
        assert said not in [row["seq"] for row in late.world.events(late.who, after)]
        if forgetful:
            read = made.rights._read

            async def without(principals: Any) -> dict[str, View]:
                return {who: view._replace(places={}) for who, view in (await read(principals)).items()}

            made.rights._read = without  # type: ignore[method-assign]
        await made.feed.start(after)
        await made.follow(top(late.world))
        return [row["seq"] for row in made.got[late.who]], said


@pytest.mark.parametrize("delete", [True, False], ids=["deleted", "moved"])
async def test_what_left_before_they_came_is_not_told_of(db: Database, late: Late, delete: bool) -> None:
    """Newer rights give nothing that was said in a thread which was gone when they were given."""
    handed, said = await handed_late(db, late, delete=delete)
    assert handed
    assert said not in handed


async def test_without_the_places_of_threads_it_would_be(db: Database, late: Late) -> None:
    handed, said = await handed_late(db, late, delete=False, forgetful=True)
    assert said in handed


async def test_of_a_deleted_thread_only_its_end_is_told(db: Database, late: Late) -> None:
    """A tail that comes late hands out no move of a thread that is gone; who was left behind hears that it left."""
    async with tail(db) as made:
        late.grant(late.channel)
        owner = late.world.owner
        await made.watch([late.who, owner])
        await made.feed.stop()
        after = top(late.world)
        late.say()
        late.take_away(delete=False)
        late.take_away(delete=True)
        await made.feed.start(after)
        await made.follow(top(late.world))
        for who, types in ((late.who, ["thread.moved"]), (owner, ["thread.deleted"])):
            told_now = late.world.events(who, after)
            assert [row["type"] for row in told_now] == types
            assert [row for row in made.got[who] if row["seq"] > after] == told_now


async def test_rights_are_loaded_while_they_change(db: Database, late: Late) -> None:
    """An event that is handed out while a session begins is in the rights that it begins with."""
    async with tail(db) as made:
        read, once = made.rights._read, [True]

        async def slow(principals: Any) -> dict[str, View]:
            found = await read(principals)
            if once:
                once.clear()
                late.grant(late.channel)
                await made.follow(top(late.world))
            return found

        made.rights._read = slow  # type: ignore[method-assign]
        await made.watch([late.who])
        assert made.rights.sees(late.who, late.channel)


async def test_rights_are_held_while_a_session_is_there(db: Database, late: Late) -> None:
    async with tail(db) as made:
        late.grant(late.channel)
        await made.watch([late.who, late.who])
        made.rights.forget(late.who)
        assert made.rights.sees(late.who, late.channel)
        made.rights.forget(late.who)
        assert not made.rights.sees(late.who, late.channel)
        assert await made.rights.load(str(uuid.uuid4())) >= 0
        late.do("update_principal", {"principal_id": late.who, "body": {"status": "disabled"}})
        await made.watch([late.who])
        assert not made.rights.active(late.who)


async def test_after_a_gap_rights_are_those_of_now(db: Database, late: Late) -> None:
    async with tail(db) as made:
        late.grant(late.channel)
        await made.watch([late.who])
        await made.feed.stop()
        position = made.feed.position
        late.world.cursor.execute("SELECT id::text FROM livebox.grants WHERE principal_id = %s", (late.who,))
        late.do("revoke_access", {"grant_id": late.world.cursor.fetchone()[0]})
        late.world.cursor.execute("SELECT livebox.expire_events(-1, 10000)")
        await made.feed.start(position)
        await made.follow(top(late.world))
        assert made.gaps == [top(late.world)]
        assert not made.rights.sees(late.who, late.channel)


async def test_a_change_is_told_though_the_first_try_did_not_get_to_its_end(
    db: Database, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights that are loaded in parts, and an outage between the parts: each change is told when all are there."""
    monkeypatch.setattr("livebox.gateway.rights.TOGETHER", 1)
    async with tail(db) as made:
        await made.watch([late.who, late.world.owner])
        changed: list[set[str]] = []
        read, failures = made.rights._read, [True]

        async def in_parts(principals: Any) -> dict[str, View]:
            if late.world.owner in principals and failures:
                failures.clear()
                raise DatabaseUnavailable("away")
            return await read(principals)

        made.rights._read = in_parts  # type: ignore[method-assign]
        await made.feed.stop()
        late.grant(late.channel)
        late.world.cursor.execute("SELECT livebox.expire_events(-1, 10000)")

        async def gap(seq: int) -> None:
            changed.append(await made.rights.reload(seq))

        made.feed.on_gap = gap
        await made.feed.start(made.feed.position)
        await made.follow(top(late.world))
        assert not failures
        assert changed == [{late.who}]
