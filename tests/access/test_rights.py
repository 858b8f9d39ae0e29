"""Rights as they are given, taken and told, operation by operation."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.access.conftest import Stand

GENERAL, ESCALATION, MARKETING = "Support/General", "Support/Escalation", "Marketing/General"
ABSENT = "01933b7e-0000-7000-8000-00000000dead"


def posted(stand: Stand, who: str, place: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    """A message of theirs in the main thread of a place."""
    body = {"body": text, "client_msg_id": str(uuid.uuid4()), **more}
    shown = stand.do("create_message", who, body, thread_id=stand.world.threads.get(place, place), request_hash="h")
    assert shown.code == "created", shown
    return dict(shown.body)


def told(stand: Stand, who: str, after: int) -> list[dict[str, Any]]:
    """What the log tells them after a seq."""
    return list(stand.ask("list_events", who, after=after, limit=200).body["items"])


def now(stand: Stand) -> int:
    """The newest seq."""
    return int(stand.sql("SELECT livebox.last_seq()")[0][0])


def test_a_dm_is_its_members_only(stand: Stand) -> None:
    main = stand.world.threads["alex+sam"]
    posted(stand, "alex", "alex+sam")
    for who in ("alex", "sam"):
        assert stand.ask("list_thread_messages", who, thread_id=main).code == "ok"
    for who in ("owner", "robin", "lotse"):
        assert stand.ask("list_thread_messages", who, thread_id=main) == stand.ask(
            "list_thread_messages", who, thread_id=ABSENT
        )
    assert (
        stand.do("update_channel", "alex", {"name": "X"}, channel_id=stand.world.channels["alex+sam"]).code
        == "forbidden"
    )
    body = {"principal_id": stand.id("robin"), "channel_id": stand.world.channels["alex+sam"], "level": "read"}
    assert stand.do("grant_access", "alex", body).code == "forbidden"
    assert stand.do("grant_access", "owner", body).code == "not_found"


def test_a_grant_works_at_once_and_ends_at_once(stand: Stand) -> None:
    thread = stand.world.threads[GENERAL]
    assert stand.ask("get_thread", "robin", thread_id=thread).code == "not_found"
    body = {"principal_id": stand.id("robin"), "channel_id": stand.world.channels[GENERAL], "level": "read"}
    grant = stand.do("grant_access", "owner", body).body
    assert stand.ask("get_thread", "robin", thread_id=thread).code == "ok"
    assert stand.do("revoke_access", "owner", grant_id=grant["id"]).code == "no_content"
    assert stand.ask("get_thread", "robin", thread_id=thread).code == "not_found"
    assert stand.do("revoke_access", "owner", grant_id=grant["id"]).code == "not_found"


def test_granting_again_replaces_the_level(stand: Stand) -> None:
    body = {"principal_id": stand.id("robin"), "channel_id": stand.world.channels[GENERAL]}
    first = stand.do("grant_access", "owner", body | {"level": "read"}).body
    before = now(stand)
    same = stand.do("grant_access", "owner", body | {"level": "read"}).body
    assert (same, now(stand)) == (first, before)
    raised = stand.do("grant_access", "owner", body | {"level": "manage"}).body
    assert (raised["id"], raised["version"], raised["level"]) == (first["id"], 2, "manage")
    assert [event["payload"]["level"] for event in told(stand, "robin", before)] == ["manage"]


def test_a_groups_grant_is_its_members(stand: Stand) -> None:
    assert stand.ask("get_thread", "sam", thread_id=stand.world.threads[GENERAL]).code == "ok"
    path = {"group_id": stand.world.groups["Readers"], "principal_id": stand.id("sam")}
    before = now(stand)
    assert stand.do("remove_group_member", "owner", **path).code == "no_content"
    assert stand.ask("get_thread", "sam", thread_id=stand.world.threads[GENERAL]).code == "not_found"
    assert [event["payload"]["change"] for event in told(stand, "sam", before)] == ["membership"]
    before = now(stand)
    assert stand.do("remove_group_member", "owner", **path).code == "no_content"
    assert now(stand) == before, "who is not in it leaves nothing"


@pytest.mark.parametrize(
    ("operation", "args"),
    [
        ("create_space", {"body": {"name": "X"}}),
        ("create_principal", {"body": {"kind": "person", "handle": "x", "display_name": "X"}}),
        ("update_principal", {"principal_id": "sam", "body": {"status": "disabled"}}),
        ("update_principal", {"principal_id": ABSENT, "body": {"status": "disabled"}}),
        ("create_group", {"body": {"name": "X"}}),
        ("add_group_member", {"group_id": "Readers", "principal_id": "sam"}),
        ("add_group_member", {"group_id": ABSENT, "principal_id": ABSENT}),
        ("remove_group_member", {"group_id": ABSENT, "principal_id": "sam"}),
    ],
)
def test_what_is_the_owners_alone_is_refused_before_looking(stand: Stand, operation: str, args: dict[str, Any]) -> None:
    names = stand.world.principals | stand.world.groups
    filled = {key: names.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
    for who in ("alex", "lotse"):
        shown = stand.do(operation, who, **filled)
        assert (shown.code, shown.text) == ("forbidden", "")


def test_the_last_owner_stays(stand: Stand) -> None:
    disable = {"principal_id": stand.id("owner"), "body": {"status": "disabled"}}
    assert stand.do("update_principal", "owner", **disable).code == "last_owner"
    second = stand.do(
        "create_principal", "owner", {"kind": "person", "handle": "o2", "display_name": "O", "role": "owner"}
    ).body["id"]
    assert stand.do("update_principal", second, **disable).code == "ok"
    assert stand.do("update_principal", second, principal_id=second, body={"status": "disabled"}).code == "last_owner"


def test_disabling_ends_everything(stand: Stand) -> None:
    assert stand.ask("list_channels", "alex").body["items"]
    assert stand.do("update_principal", "owner", {"status": "disabled"}, principal_id=stand.id("alex")).code == "ok"
    assert stand.ask("list_channels", "alex").code == "invalid_token"
    body = {"body": "x", "client_msg_id": str(uuid.uuid4())}
    assert stand.do("create_message", "alex", body, thread_id=stand.world.threads[GENERAL]).code == "invalid_token"
    assert stand.sql("SELECT * FROM livebox.visible_channels(%s)", stand.id("alex")) == []


def test_a_revoked_or_expired_token_is_no_caller(stand: Stand) -> None:
    ((token,),) = stand.sql("SELECT token_id FROM livebox.issue_token('alex', %s, 60)", "ab" * 32)
    caller = f'{{"principal": "{stand.id("alex")}", "token": "{token}"}}'
    assert stand.sql("SELECT livebox.caller_active(%s)", caller) == [(True,)]
    of_another = f'{{"principal": "{stand.id("sam")}", "token": "{token}"}}'
    assert stand.sql("SELECT livebox.caller_active(%s)", of_another) == [(False,)]
    found = stand.sql(
        "SELECT code, body::jsonb->>'principal' FROM livebox.authenticate_token(%s)", f'{{"hash": "{"ab" * 32}"}}'
    )
    assert found == [("ok", stand.id("alex"))]
    stand.sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql AS $$SELECT clock_timestamp() + interval '61 s'$$"
    )
    assert stand.sql("SELECT livebox.caller_active(%s)", caller) == [(False,)]
    assert stand.sql("SELECT code FROM livebox.authenticate_token(%s)", f'{{"hash": "{"ab" * 32}"}}') == [
        ("token_expired",)
    ]
    stand.sql("SELECT livebox.revoke_token(%s)", token)
    for hashed in ("ab" * 32, "cd" * 32):
        assert stand.sql("SELECT code FROM livebox.authenticate_token(%s)", f'{{"hash": "{hashed}"}}') == [
            ("invalid_token",)
        ]


def test_a_moved_thread_takes_its_readers_along(stand: Stand) -> None:
    thread = stand.do("create_thread", "alex", {"title": "T"}, channel_id=stand.world.channels[ESCALATION]).body["id"]
    posted(stand, "alex", thread)
    before = now(stand)
    moved = stand.do("move_thread", "owner", {"channel_id": stand.world.channels[MARKETING]}, thread_id=thread)
    assert moved.body["channel_id"] == stand.world.channels[MARKETING]
    assert stand.ask("get_thread", "sam", thread_id=thread).code == "ok"
    assert stand.ask("get_thread", "alex", thread_id=thread).code == "not_found"

    (for_sam,) = told(stand, "sam", before)
    assert for_sam["payload"] == {"thread_id": thread, "thread": moved.body}, "where it was, Sam may not look"
    (for_alex,) = told(stand, "alex", before)
    assert (for_alex["payload"], for_alex["scope"]) == ({"thread_id": thread}, {"thread_id": thread})
    assert told(stand, "robin", before)[0]["payload"] == {"thread_id": thread}
    assert told(stand, "owner", before)[0]["payload"]["from_channel_id"] == stand.world.channels[ESCALATION]
    channels = {
        event["payload"].get("message", {}).get("channel_id")
        for event in told(stand, "sam", 0)
        if event["scope"].get("thread_id") == thread
    }
    assert channels == {None, stand.world.channels[MARKETING]}, "older events speak of where it is now"


@pytest.mark.parametrize(
    ("who", "target", "code"),
    [
        ("alex", MARKETING, "forbidden"),
        ("sam", MARKETING, "not_found"),
        ("owner", "alex+sam", "not_found"),
        ("owner", ABSENT, "not_found"),
    ],
)
def test_who_may_not_move_a_thread(stand: Stand, who: str, target: str, code: str) -> None:
    thread = stand.do("create_thread", "alex", {"title": "T"}, channel_id=stand.world.channels[ESCALATION]).body["id"]
    body = {"channel_id": stand.world.channels.get(target, target)}
    assert stand.do("move_thread", who, body, thread_id=thread).code == code


def test_main_threads_stay(stand: Stand) -> None:
    main = stand.world.threads[GENERAL]
    body = {"channel_id": stand.world.channels[MARKETING]}
    assert stand.do("move_thread", "owner", body, thread_id=main).code == "main_thread"
    assert stand.do("delete_thread", "owner", thread_id=main).code == "main_thread"
    assert stand.do("delete_thread", "alex", thread_id=main).code == "forbidden"


def test_of_a_thread_that_moved_away_and_was_deleted_there(stand: Stand) -> None:
    """Who was left behind had it, and must hear that it is gone."""
    thread = stand.do("create_thread", "alex", {"title": "T"}, channel_id=stand.world.channels[ESCALATION]).body["id"]
    before = now(stand)
    stand.do("move_thread", "owner", {"channel_id": stand.world.channels[MARKETING]}, thread_id=thread)
    assert stand.do("delete_thread", "owner", thread_id=thread).code == "no_content"
    (for_alex,) = told(stand, "alex", before)
    assert (for_alex["type"], for_alex["payload"]) == ("thread.moved", {"thread_id": thread})
    (for_sam,) = told(stand, "sam", before)
    assert (for_sam["type"], for_sam["payload"]) == ("thread.deleted", {"thread_id": thread})


def test_of_a_deleted_thread_only_its_end_is_told(stand: Stand) -> None:
    before = now(stand)
    thread = stand.do("create_thread", "alex", {"title": "T"}, channel_id=stand.world.channels[GENERAL]).body["id"]
    message = posted(stand, "alex", thread, "secret words")
    assert stand.do("delete_thread", "owner", thread_id=thread).code == "no_content"
    for who in ("alex", "owner", "sam"):
        assert [event["type"] for event in told(stand, who, before)] == ["thread.deleted"]
        assert stand.ask("get_message", who, message_id=message["id"]).code == "not_found"
    assert stand.do("delete_thread", "owner", thread_id=thread).code == "not_found"


def test_a_deleted_message_is_deleted_in_the_log_too(stand: Stand) -> None:
    before = now(stand)
    message = posted(stand, "robin", ESCALATION, "secret words")
    edited = stand.do("edit_message", "robin", {"body": "more secret words"}, message_id=message["id"])
    assert edited.body["body"] == "more secret words"
    assert stand.do("delete_message", "alex", message_id=message["id"]).code == "forbidden"
    gone = stand.do("delete_message", "owner", message_id=message["id"], if_match='"2"').body
    assert "body" not in gone
    assert gone["deleted_at"]
    assert stand.do("delete_message", "robin", message_id=message["id"]).body == gone, "again answers with it"
    events = told(stand, "alex", before)
    assert [event["type"] for event in events] == ["message.created", "message.updated", "message.deleted"]
    assert "secret" not in str(events)
    assert stand.do("edit_message", "robin", {"body": "x"}, message_id=message["id"]).code == "message_not_editable"
    assert stand.sql("SELECT version, body FROM livebox.message_revisions WHERE message_id = %s", message["id"]) == [
        (1, "secret words")
    ]


@pytest.mark.parametrize(
    ("if_match", "code"),
    [
        ('"1"', "ok"),
        ("*", "ok"),
        ('"7", "1"', "ok"),
        ('"2"', "version_mismatch"),
        ('W/"1"', "version_mismatch"),
        ("1", "version_mismatch"),
    ],
)
def test_if_match(stand: Stand, if_match: str, code: str) -> None:
    message = posted(stand, "robin", ESCALATION)
    shown = stand.do("edit_message", "robin", {"body": "changed"}, message_id=message["id"], if_match=if_match)
    assert shown.code == code


def test_audit_entries_are_for_who_manages(stand: Stand) -> None:
    stand.sql(
        "SELECT livebox.audit(%s, 'agent.invoke', 'no_trigger_right', 'agent', NULL, %s)",
        stand.id("robin"),
        stand.world.channels[ESCALATION],
    )
    assert len(stand.ask("list_audit_entries", "owner").body["items"]) == 1
    assert stand.ask("list_audit_entries", "alex").body["items"] == []
    body = {"principal_id": stand.id("alex"), "channel_id": stand.world.channels[ESCALATION], "level": "manage"}
    stand.do("grant_access", "owner", body)
    assert len(stand.ask("list_audit_entries", "alex").body["items"]) == 1
    assert len(stand.ask("list_audit_entries", "alex", channel_id=stand.world.channels[ESCALATION]).body["items"]) == 1
    assert stand.ask("list_audit_entries", "alex", channel_id=stand.world.channels[GENERAL]).body["items"] == []


def test_a_replay_is_under_the_rights_of_now(stand: Stand) -> None:
    args = {"thread_id": stand.world.threads[GENERAL], "body": {"body": "x", "client_msg_id": "k"}}
    first = stand.do("create_message", "alex", **args, request_hash="h")
    before = now(stand)
    assert stand.do("create_message", "alex", **args, request_hash="h") == first
    assert stand.do("create_message", "alex", **args, request_hash="other").code == "idempotency_key_reused"
    edited = stand.do("edit_message", "alex", {"body": "changed"}, message_id=first.body["id"])
    again = stand.do("create_message", "alex", **args, request_hash="h")
    assert (again.code, again.body) == ("created", edited.body)
    stand.sql("DELETE FROM livebox.grants WHERE principal_id = %s", stand.id("alex"))
    for hashed in ("h", "other"):
        assert stand.do("create_message", "alex", **args, request_hash=hashed).code == "not_found"
    assert now(stand) == before + 1, "of all these only the edit wrote"
