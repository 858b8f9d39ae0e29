"""Every rule of the ground's tables, broken from plain SQL, one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.db.run_rows import Refused, Rows, Sql
from tests.fixtures.database import connect

NULL_INSIDE = '{"a": [{"b": null}]}'
PAST_INT4 = 2**31 - 2


@pytest.fixture
def rows(module_dsn: str) -> Iterator[Rows]:
    with closing(connect(module_dsn)) as connection:
        connection.autocommit = False
        yield Rows(connection)
        connection.rollback()


def refusal(action: Callable[[], Any]) -> str | None:
    """The rule that refused the action."""
    with pytest.raises(Refused) as refused:
        action()
    return refused.value.rule


def event(rows: Rows, **columns: object) -> dict[str, Any]:
    """An event by plain INSERT."""
    given = {
        "type": "space.created",
        "resource_kind": "space",
        "resource_id": "x",
        "receive_action": "space.read",
        "payload": "{}",
    }
    return rows.insert("events", **given | columns)


def audited(rows: Rows) -> str:
    """The id of an audit entry."""
    entry = rows.insert("audit_log", principal_id=rows.person, action="agent.invoke", reason="x", resource_kind="agent")
    return str(entry["id"])


def revised(rows: Rows) -> str:
    """The id of a message with a revision."""
    message = rows.message()
    rows.insert("message_revisions", message_id=message, version=1, body="x", mentions="{}", replaced_by=rows.person)
    return message


def dm(rows: Rows) -> str:
    """The id of a DM channel."""
    return str(rows.insert("channels", kind="dm", name="")["id"])


def only_owner(rows: Rows) -> str:
    """The id of the one active owner."""
    return str(rows.insert("principals", kind="person", handle=uuid.uuid4().hex, display_name="O", role="owner")["id"])


def agent(**columns: object) -> Callable[[Rows], Any]:
    given = {
        "kind": "agent",
        "handle": uuid.uuid4().hex,
        "display_name": "A",
        "billing_mode": "organization",
        "tool_class": "standard",
    }
    return lambda rows: rows.insert("principals", **given | columns)


def message(**columns: object) -> Callable[[Rows], Any]:
    return lambda rows: rows.message(**columns)


def grant(**columns: object) -> Callable[[Rows], Any]:
    def insert(rows: Rows) -> Any:
        given: dict[str, object] = {"principal_id": rows.person, "space_id": rows.space, "level": "read"}
        return rows.insert("grants", **{key: value for key, value in (given | columns).items() if value is not None})

    return insert


RULES: dict[str, tuple[Callable[[Rows], Any], str]] = {
    # people and places
    "an agent without a policy": (agent(billing_mode=None, tool_class=None), "principals_agent_policy"),
    "a person with a policy": (agent(kind="person"), "principals_agent_policy"),
    "an agent that owns": (agent(role="owner"), "principals_only_people_own"),
    "a handle in another case": (
        lambda rows: [agent(handle=handle)(rows) for handle in ("Somebody", "someBody")],
        "principals_handle",
    ),
    "a group's name in another case": (
        lambda rows: [rows.insert("groups", name=name) for name in ("Some", "sOME")],
        "groups_name",
    ),
    "a channel without a space": (lambda rows: rows.insert("channels", name="x"), "channels_dm_has_no_space"),
    "a DM in a space": (
        lambda rows: rows.insert("channels", kind="dm", space_id=rows.space),
        "channels_dm_has_no_space",
    ),
    "a DM with an operator": (
        lambda rows: rows.insert("channels", kind="dm", operator_agent_id=rows.agent),
        "channels_dm_has_no_operator",
    ),
    "a channel that goes elsewhere": (
        lambda rows: rows.update("channels", rows.channel, space_id=rows.insert("spaces", name="x")["id"], version=2),
        "LB008",
    ),
    "a second main thread": (
        lambda rows: [rows.insert("threads", channel_id=rows.channel, is_main=True) for _ in range(2)],
        "threads_main",
    ),
    "a main thread that is deleted": (
        lambda rows: rows.insert("threads", channel_id=rows.channel, is_main=True, deleted_at=Sql("livebox.clock()")),
        "threads_main_stays",
    ),
    "a member of a channel that is no DM": (
        lambda rows: rows.insert("channel_members", principal_id=rows.person, channel_id=rows.channel),
        "LB009",
    ),
    "a member of a DM who goes to a channel": (
        lambda rows: [
            rows.insert("channel_members", principal_id=rows.person, channel_id=dm(rows)),
            rows.run_sql("UPDATE livebox.channel_members SET channel_id = %s", rows.channel),
        ],
        "LB009",
    ),
    "a transition less": (lambda rows: rows.run_sql("DELETE FROM livebox.run_transitions"), "LB001"),
    "another transition": (
        lambda rows: rows.run_sql("UPDATE livebox.run_transitions SET to_state = 'failed'"),
        "LB001",
    ),
    "a reason less": (lambda rows: rows.run_sql("DELETE FROM livebox.run_reasons"), "LB001"),
    "another setter of a reason": (
        lambda rows: rows.run_sql("UPDATE livebox.run_reasons SET setter = 'both'"),
        "LB001",
    ),
    "a grant on a DM": (lambda rows: grant(space_id=None, channel_id=dm(rows))(rows), "LB008"),
    "a grant on two places": (lambda rows: grant(channel_id=rows.channel)(rows), "grants_one_place"),
    "a grant to nobody": (grant(principal_id=None), "grants_one_holder"),
    "a grant given twice": (lambda rows: [grant()(rows), grant(level="write")(rows)], "grants_principal_space"),
    "a grant that changes hands": (
        lambda rows: rows.update("grants", grant()(rows)["id"], principal_id=rows.agent, version=2),
        "LB002",
    ),
    "an unknown level": (grant(level="own"), "grants_level_check"),
    "the last owner disabled": (
        lambda rows: rows.update("principals", only_owner(rows), status="disabled", version=2),
        "LB007",
    ),
    "the last owner demoted": (lambda rows: rows.update("principals", only_owner(rows), role=None, version=2), "LB007"),
    "the last owner removed": (
        lambda rows: rows.run_sql("DELETE FROM livebox.principals WHERE id = %s", only_owner(rows)),
        "LB007",
    ),
    "a change without a version": (lambda rows: rows.update("spaces", rows.space, name="Other"), "LB003"),
    "a version that falls": (lambda rows: [rows.update("spaces", rows.space, version=v) for v in (5, 4)], "LB003"),
    "another id": (lambda rows: rows.update("spaces", rows.space, id=Sql("livebox.new_id()"), version=2), "LB002"),
    # messages
    "an edit without a version": (lambda rows: rows.update("messages", rows.message(), body="other"), "LB003"),
    "another author": (lambda rows: rows.update("messages", rows.message(), author_id=rows.agent, version=2), "LB002"),
    "another thread": (
        lambda rows: rows.update("messages", rows.message(), thread_id=rows.thread(), version=2),
        "LB002",
    ),
    "a tombstone that comes back": (
        lambda rows: rows.update(
            "messages", rows.message(body="", deleted_at=Sql("livebox.clock()")), deleted_at=None, version=2
        ),
        "LB002",
    ),
    "a tombstone with text": (message(deleted_at=Sql("livebox.clock()")), "messages_tombstone_is_empty"),
    "an anchor with text": (message(kind="run", origin="agent", silent=True), "messages_anchor_is_empty"),
    "an anchor of a person": (message(kind="run", body="", silent=True), "messages_anchor_is_empty"),
    "a run on a text": (message(run_id=Sql("livebox.new_id()")), "messages_only_anchors_have_runs"),
    "a trigger state of an agent": (
        message(origin="agent", trigger_state="received", trigger_state_at=Sql("livebox.clock()")),
        "messages_only_people_trigger",
    ),
    "a trigger state without a time": (message(trigger_state="received"), "messages_trigger_time"),
    "a failure without a reason": (
        message(trigger_state="failed", trigger_state_at=Sql("livebox.clock()")),
        "messages_trigger_reason",
    ),
    "a reason without a failure": (
        message(trigger_state="done", trigger_state_reason="stale", trigger_state_at=Sql("livebox.clock()")),
        "messages_trigger_reason",
    ),
    "a client's id without its request": (message(client_msg_id="x"), "messages_request"),
    "a client's id twice": (
        lambda rows: [rows.message(client_msg_id="x", request_hash="x") for _ in range(2)],
        "messages_client_msg_id",
    ),
    "a place in the thread twice": (
        lambda rows: [
            rows.insert("messages", thread_id=thread, author_id=rows.person, origin="human", body="x", thread_seq=1)
            for thread in [rows.thread()] * 2
        ],
        "messages_thread",
    ),
    # what only grows
    "a revision rewritten": (
        lambda rows: rows.run_sql(
            "UPDATE livebox.message_revisions SET body = 'y' WHERE message_id = %s", revised(rows)
        ),
        "LB001",
    ),
    "a revision removed": (
        lambda rows: rows.run_sql("DELETE FROM livebox.message_revisions WHERE message_id = %s", revised(rows)),
        "LB001",
    ),
    "revisions emptied": (lambda rows: rows.run_sql("TRUNCATE livebox.message_revisions"), "LB001"),
    "an audit entry rewritten": (lambda rows: rows.update("audit_log", audited(rows), reason="y"), "LB001"),
    "an audit entry removed": (
        lambda rows: rows.run_sql("DELETE FROM livebox.audit_log WHERE id = %s", audited(rows)),
        "LB001",
    ),
    "the audit log emptied": (lambda rows: rows.run_sql("TRUNCATE livebox.audit_log"), "LB001"),
    "an event rewritten": (
        lambda rows: rows.run_sql(
            "UPDATE livebox.events SET actor_id = %s WHERE seq = %s", rows.person, event(rows)["seq"]
        ),
        "LB001",
    ),
    "an event removed": (
        lambda rows: rows.run_sql("DELETE FROM livebox.events WHERE seq = %s", event(rows)["seq"]),
        "LB001",
    ),
    "the log emptied": (lambda rows: rows.run_sql("TRUNCATE livebox.events"), "LB001"),
    "a floor that falls": (
        lambda rows: [rows.run_sql("UPDATE livebox.log_state SET floor = %s", floor) for floor in (5, 4)],
        "LB004",
    ),
    "no floor": (lambda rows: rows.run_sql("DELETE FROM livebox.log_state"), "LB004"),
    "floors emptied": (lambda rows: rows.run_sql("TRUNCATE livebox.log_state"), "LB004"),
    "a second floor": (lambda rows: rows.insert("log_state", singleton=False), "log_state_singleton_check"),
    # the log
    "an unknown type of event": (lambda rows: event(rows, type="space.burned"), "events_type_check"),
    "a null in a payload": (lambda rows: event(rows, payload=NULL_INSIDE), "events_payload_no_null"),
    "an event for two audiences": (
        lambda rows: event(rows, audience_principal=rows.person, audience_group=Sql("livebox.new_id()")),
        "events_one_audience",
    ),
    "an event out of its thread's order": (lambda rows: event(rows, thread_seq=1), "events_thread_order"),
    "a number of a thread twice": (
        lambda rows: [event(rows, thread_id=thread, thread_seq=1) for thread in [rows.thread()] * 2],
        "events_thread",
    ),
    "an event of a thread that is not there": (
        lambda rows: rows.run_sql(
            "SELECT livebox.append_event('thread.created', NULL, jsonb_build_object('thread_id', livebox.new_id()),"
            " 'thread', 'x', 1, 'message.read', '{}')"
        ),
        "LB006",
    ),
    # requests and tokens
    "a null in a batch's answers": (
        lambda rows: rows.insert("lane_batches", batch=Sql("livebox.new_id()"), answers="[null]"),
        "lane_batches_answers_no_null",
    ),
    "a token that is no hash": (
        lambda rows: rows.insert(
            "access_tokens", principal_id=rows.person, hash=b"short", expires_at=Sql("livebox.clock() + interval '1 h'")
        ),
        "access_tokens_hash_check",
    ),
    "a refusal kept under a key": (
        lambda rows: rows.insert(
            "idempotency_keys",
            principal_id=rows.person,
            operation="x",
            key="x",
            request_hash="x",
            code="forbidden",
            resource_kind="x",
            resource_id="x",
        ),
        "idempotency_keys_code_check",
    ),
}


@pytest.mark.parametrize("broken", RULES)
def test_the_database_refuses(rows: Rows, broken: str) -> None:
    action, rule = RULES[broken]
    assert refusal(lambda: action(rows)) == rule


def test_a_change_that_raises_the_version_is_taken(rows: Rows) -> None:
    assert rows.update("spaces", rows.space, name="Other", version=3)["version"] == 3
    assert rows.update("messages", rows.message(), body="other", version=2)["body"] == "other"


def test_every_sqlstate_is_documented(rows: Rows) -> None:
    raised = rows.run_sql(
        r"SELECT DISTINCT m[1] AS state FROM pg_proc p, regexp_matches(p.prosrc, 'ERRCODE = ''(LB\d{3})''', 'g') AS m"
        " WHERE p.pronamespace = 'livebox'::regnamespace"
    )
    documented = rows.run_sql("SELECT sqlstate AS state FROM livebox.sqlstates")
    assert {row["state"] for row in raised} == {row["state"] for row in documented}


@pytest.mark.parametrize("change", ["title = 'x'", "deleted_at = livebox.clock()", "created_by = NULL, title = 'y'"])
def test_counting_an_event_hides_no_other_change(rows: Rows, change: str) -> None:
    thread = rows.thread()
    rows.run_sql("UPDATE livebox.threads SET last_thread_seq = last_thread_seq + 1 WHERE id = %s", thread)
    with pytest.raises(Refused) as refused:
        rows.run_sql(
            f"UPDATE livebox.threads SET last_thread_seq = last_thread_seq + 1, {change} WHERE id = %s", thread
        )
    assert refused.value.sqlstate == "LB003"


def test_numbers_go_on_past_four_bytes(rows: Rows) -> None:
    rows.run_sql("SELECT setval('livebox.event_seq', %s)", PAST_INT4)
    thread = rows.thread()
    rows.run_sql("UPDATE livebox.threads SET last_thread_seq = %s WHERE id = %s", PAST_INT4, thread)
    message = rows.message(thread)
    for version in range(PAST_INT4, PAST_INT4 + 4):
        rows.update("messages", message, version=version)
    scope = "jsonb_build_object('thread_id', %s)"
    statement = (
        f"SELECT livebox.append_event('thread.created', NULL, {scope}, 'thread', %s, 1, 'message.read', '{{}}') AS seq"
    )
    seqs = [rows.run_sql(statement, thread, thread)[0]["seq"] for _ in range(4)]
    assert seqs == [PAST_INT4 + n for n in range(1, 5)]
    shown = rows.run_sql(
        "SELECT livebox.event_json(e) AS event, livebox.message_json(m) AS message"
        " FROM livebox.events e, livebox.messages m WHERE e.seq = %s AND m.id = %s",
        seqs[-1],
        message,
    )[0]
    assert (shown["event"]["seq"], shown["event"]["thread_seq"]) == (PAST_INT4 + 4, PAST_INT4 + 5)
    assert (shown["message"]["version"], shown["message"]["thread_seq"]) == (PAST_INT4 + 3, PAST_INT4 + 1)
