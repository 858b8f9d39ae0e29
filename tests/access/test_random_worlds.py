"""In whatever world, whoever asks: nothing is shown that may not be seen, and nothing is missing that may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.access.oracle import ACTIVE, Oracle, read_rows
from tests.access.random_world import Random_, RandomWorld
from tests.access.replica import Replica
from tests.fixtures.database import connect

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ABSENT = "01933b7e-0000-7000-8000-00000000dead"

worlds = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.lists(st.integers(0, 1000), min_size=20, max_size=160)


@contextmanager
def world(dsn: str, choices: list[int]) -> Iterator[RandomWorld]:
    """A world that is gone afterwards."""
    with closing(connect(dsn)) as connection:
        connection.autocommit = False
        with connection.cursor() as cursor:
            try:
                yield RandomWorld(cursor, Random_(choices))
            finally:
                connection.rollback()


def visible(world: RandomWorld, oracle: Oracle, who: str) -> None:
    """Compare all that `who` is shown with the oracle."""
    levels = {channel: oracle.level(who, channel) for channel in oracle.channels}
    levels = {channel: level for channel, level in levels.items() if level}
    world.cursor.execute("SELECT channel_id::text, level FROM livebox.visible_channels(%s)", (who,))
    assert dict(world.cursor.fetchall()) == levels

    texts = []

    def listed(function: str, **args: Any) -> list[str]:
        items, text = world.pages(function, who, **args)
        texts.append(text)
        return [item["id"] for item in items]

    threads = sorted((t for t in oracle.threads if oracle.sees_thread(who, t)), reverse=True)
    assert listed("list_channels") == sorted(levels)
    assert listed("list_spaces") == sorted(
        row["id"] for row in oracle.rows["spaces"] if oracle.space_level(who, row["id"]) is not None
    )
    assert listed("list_threads") == threads
    for channel in [*oracle.channels, ABSENT]:
        assert listed("list_threads", channel_id=channel) == [
            t for t in threads if oracle.threads[t]["channel_id"] == channel
        ]
        audited = [row["id"] for row in oracle.rows["audit_log"] if row["channel_id"] == channel]
        assert listed("list_audit_entries", channel_id=channel) == (
            sorted(audited, reverse=True) if levels.get(channel, 0) >= 4 else []
        )
    for space in [*(row["id"] for row in oracle.rows["spaces"]), ABSENT]:
        expected = [c for c in sorted(levels) if oracle.channels[c]["space_id"] == space]
        assert listed("list_channels", space_id=space) == expected
    assert listed("list_audit_entries") == sorted(
        (row["id"] for row in oracle.rows["audit_log"] if levels.get(row["channel_id"], 0) >= 4), reverse=True
    )
    runs = [row for row in oracle.rows["runs"] if oracle.sees_thread(who, row["thread_id"])]
    active = [row for row in runs if row["state"] in ACTIVE]
    if oracle.principals[who]["kind"] == "person":
        assert sorted(listed("list_active_runs")) == sorted(row["id"] for row in active)
    single(world, oracle, who, texts)

    expected_events = [row["seq"] for row in oracle.rows["events"] if oracle.sees_event(who, row)]
    events = world.events(who)
    assert [event["seq"] for event in events] == sorted(expected_events)
    for event in events:  # of a thread that went where they may not look, and of their own rights, they hear
        minimal = event["type"] == "thread.moved" and "thread" not in event["payload"]
        if minimal:
            assert event["payload"].keys() == {"thread_id"}
            assert event["scope"].keys() == {"thread_id"}
        elif event["type"] != "thread.deleted":
            texts.append(str(event))
    shown = Replica.snapshot(world, who)
    assert set(shown.messages) == {m for m in oracle.messages if oracle.sees_message(who, m)}
    assert set(shown.runs) == {row["id"] for row in active}
    texts.append(str(shown))
    hidden = oracle.hidden_ids(who)
    for text in texts:
        assert not set(ID.findall(text)) & hidden, (set(ID.findall(text)) & hidden, text)


def single(world: RandomWorld, oracle: Oracle, who: str, texts: list[str]) -> None:
    """Things asked for by id: what is hidden answers like what is absent."""
    nothing = {
        "get_thread": "thread_id",
        "get_message": "message_id",
        "list_thread_messages": "thread_id",
        "get_run": "run_id",
    }
    absent = {function: world.read(function, who, **{name: ABSENT}) for function, name in nothing.items()}
    assert {shown.code for shown in absent.values()} == {"not_found"}

    def asked(function: str, identity: str, may: bool) -> None:
        shown = world.read(function, who, **{nothing[function]: identity})
        texts.append(shown.text)
        assert (shown.code == "ok") if may else (shown == absent[function]), (function, shown)

    for thread in oracle.threads:
        asked("get_thread", thread, oracle.sees_thread(who, thread))
        asked("list_thread_messages", thread, oracle.sees_thread(who, thread))
    for message in oracle.messages:
        asked("get_message", message, oracle.sees_message(who, message))
    for row in oracle.rows["runs"]:
        asked("get_run", row["id"], oracle.sees_thread(who, row["thread_id"]))


def decided(world: RandomWorld, oracle: Oracle, who: str) -> None:
    """The decisions, one by one."""
    for channel in [*oracle.channels, ABSENT]:
        level = oracle.level(who, channel)
        read_only = oracle.channels.get(channel, {}).get("read_only")
        for action, least in {"message.read": 1, "message.write": 2, "structure.manage": 4}.items():
            expected = "not_found" if level < 1 else "forbidden" if level < least else None
            if action == "message.write" and expected is None and read_only:
                expected = "channel_read_only"
            world.cursor.execute(
                "SELECT livebox.authorize(%s, %s, jsonb_build_object('channel_id', %s))", (who, action, channel)
            )
            assert world.cursor.fetchone()[0] == expected
    for space in [*(row["id"] for row in oracle.rows["spaces"]), ABSENT]:
        found = oracle.space_level(who, space) if space != ABSENT else None
        world.cursor.execute(
            "SELECT livebox.authorize(%s, 'structure.manage', jsonb_build_object('space_id', %s))", (who, space)
        )
        assert world.cursor.fetchone()[0] == ("not_found" if found is None else "forbidden" if found < 4 else None)
    for run in oracle.rows["runs"]:
        reads = oracle.sees_thread(who, run["thread_id"])
        manages = oracle.level(who, oracle.threads[run["thread_id"]]["channel_id"]) >= 4
        cancels = reads and (manages or run["triggered_by"] == who)
        for action, may in {"run.read": reads, "run.cancel": cancels}.items():
            world.cursor.execute(
                "SELECT livebox.authorize(%s, %s, jsonb_build_object('run_id', %s))", (who, action, run["id"])
            )
            assert world.cursor.fetchone()[0] == (None if may else "forbidden" if reads else "not_found")


def replayed(world: RandomWorld, oracle: Oracle) -> None:
    """A repeated request answers with what it made only where that may be seen now, and writes nothing."""
    for operation, who, args in world.keys:
        world.cursor.execute("SELECT livebox.last_seq()")
        before = world.cursor.fetchone()
        shown = world.perform(operation, who, args)
        world.cursor.execute("SELECT livebox.last_seq()")
        assert world.cursor.fetchone() == before
        if not oracle.active(who):
            assert shown.code == "invalid_token"
        elif shown.code == "created":
            hidden = oracle.hidden_ids(who)
            assert not set(ID.findall(shown.text)) & hidden
        else:
            assert shown.code == "not_found", (operation, shown)


@worlds
@given(choices=numbers)
def test_nothing_is_shown_that_may_not_be_seen(module_dsn: str, choices: list[int]) -> None:
    with world(module_dsn, choices) as made:
        for _ in range(25):
            made.act()
        oracle = Oracle(read_rows(made.cursor))
        for who in made.everybody:
            if oracle.active(who):
                visible(made, oracle, who)
            else:
                assert made.read("list_channels", who).code == "invalid_token"
            decided(made, oracle, who)
        replayed(made, oracle)


def followed(made: RandomWorld) -> None:
    """Everybody's snapshot, kept up with the events, is what a new one shows, while things happen."""
    for _ in range(8):
        made.act()
    kept: dict[str, Replica | None] = dict.fromkeys(made.everybody)
    for _ in range(6):
        oracle = Oracle(read_rows(made.cursor))
        for who, replica in kept.items():
            if not oracle.active(who):
                kept[who] = None
            elif replica is None or not replica.apply(made):
                kept[who] = Replica.snapshot(made, who)
            else:
                assert replica == Replica.snapshot(made, who)
        for _ in range(3):
            made.act()


@worlds
@given(choices=numbers)
def test_a_snapshot_and_the_events_after_it_are_a_new_snapshot(module_dsn: str, choices: list[int]) -> None:
    with world(module_dsn, choices) as made:
        followed(made)


def seeds() -> Iterator[list[int]]:
    """Choices without hypothesis, for tests that must find something."""
    for seed in range(40):
        yield [(seed * 7919 + n * 104729 + n * n) % 1009 for n in range(100)]


@pytest.mark.parametrize("lost", ["message.updated", "message.deleted", "thread.moved"])
def test_the_replica_notices_a_lost_event(database_dsn: str, lost: str) -> None:
    """The comparison can fail: without one kind of event it does."""
    with closing(connect(database_dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE FUNCTION livebox.t_lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        cursor.execute(
            "CREATE TRIGGER zz_lose BEFORE INSERT ON livebox.events FOR EACH ROW"
            f" WHEN (NEW.type = '{lost}') EXECUTE FUNCTION livebox.t_lose()"
        )

    def differs() -> None:
        for choices in seeds():
            with world(database_dsn, choices) as made:
                followed(made)

    with pytest.raises(AssertionError):
        differs()


@pytest.mark.parametrize("rule", ["channel_rights", "owner_sees", "event_for"])
def test_the_oracle_notices_a_broken_rule(database_dsn: str, rule: str) -> None:
    """The comparison can fail: with a rule broken it does."""
    broken = {
        "channel_rights": "CREATE OR REPLACE FUNCTION livebox.channel_rights(p_principal uuid) RETURNS TABLE (channel_id uuid, level smallint)"
        " LANGUAGE sql STABLE AS 'SELECT id, 1::smallint FROM livebox.channels'",
        "owner_sees": "CREATE OR REPLACE FUNCTION livebox.owner_sees(p_channel uuid) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT true'",
        "event_for": "CREATE OR REPLACE FUNCTION livebox.event_for(p_principal uuid, p_event livebox.events, p_channel uuid) RETURNS jsonb"
        " LANGUAGE sql STABLE AS 'SELECT livebox.event_json(p_event)'",
    }[rule]
    with closing(connect(database_dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(broken)

    def leaks() -> None:
        for choices in seeds():
            with world(database_dsn, choices) as made:
                for _ in range(25):
                    made.act()
                oracle = Oracle(read_rows(made.cursor))
                for who in filter(oracle.active, made.everybody):
                    visible(made, oracle, who)

    with pytest.raises(AssertionError):
        leaks()
