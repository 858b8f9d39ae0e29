"""agent.invoke: who may make which agent work where, and which reason is told when there are several."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from tests.access.conftest import Stand

Change = Callable[[Stand, dict[str, Any]], Any]
GENERAL, ESCALATION = "Support/General", "Support/Escalation"


def changed(statement: str) -> Change:
    """A change of rows; :alex, :lotse, :owner, :channel and :thread stand for their ids."""

    def change(stand: Stand, resource: dict[str, Any]) -> None:
        names = {
            "alex": stand.id("alex"),
            "lotse": stand.id("lotse"),
            "owner": stand.id("owner"),
            "channel": stand.world.channels[GENERAL],
            "thread": resource["thread_id"],
        }
        filled = statement
        for name, value in names.items():
            filled = filled.replace(f":{name}", f"'{value}'")
        stand.sql(filled)

    return change


def other_agent(stand: Stand, resource: dict[str, Any]) -> None:
    resource["active_agent_id"] = stand.id("texter")


# In the order in which they are told.
DENIALS: dict[str, Change] = {
    "user_disabled": changed(
        "UPDATE livebox.principals SET status = 'disabled', version = version + 1 WHERE id = :alex"
    ),
    "thread_deleted": changed(
        "UPDATE livebox.threads SET deleted_at = livebox.clock(), version = version + 1 WHERE id = :thread"
    ),
    "access_revoked": changed("DELETE FROM livebox.grants WHERE principal_id = :alex"),
    "channel_read_only": changed(
        "UPDATE livebox.channels SET read_only = true, version = version + 1 WHERE id = :channel"
    ),
    "no_trigger_right": changed(
        "UPDATE livebox.grants SET level = 'write', version = version + 1 WHERE principal_id = :alex"
    ),
    "agent_disabled": changed(
        "UPDATE livebox.principals SET status = 'disabled', version = version + 1 WHERE id = :lotse"
    ),
    "agent_not_allowed_here": changed(
        "UPDATE livebox.channels SET operator_agent_id = NULL, version = version + 1 WHERE id = :channel"
    ),
    "billing_mode_personal_not_holder": changed(
        "UPDATE livebox.principals SET billing_mode = 'personal', credential_holder_id = :owner, version = version + 1 WHERE id = :lotse"
    ),
    "tool_class_owner_only": changed(
        "UPDATE livebox.principals SET tool_class = 'owner_only', version = version + 1 WHERE id = :lotse"
    ),
    "run_active_other_agent": other_agent,
}


def asked(stand: Stand) -> dict[str, Any]:
    """Alex asks Lotse in a thread of General, which he may."""
    thread = stand.do("create_thread", "alex", {"title": "T"}, channel_id=stand.world.channels[GENERAL])
    return {"agent_id": stand.id("lotse"), "thread_id": thread.body["id"], "origin": "human"}


def test_allowed(stand: Stand) -> None:
    resource = asked(stand)
    assert stand.authorize("alex", "agent.invoke", **resource) is None
    assert stand.authorize("alex", "agent.invoke", **resource, active_agent_id=stand.id("lotse")) is None


@pytest.mark.parametrize("reason", DENIALS)
def test_each_denial_alone(stand: Stand, reason: str) -> None:
    resource = asked(stand)
    DENIALS[reason](stand, resource)
    assert stand.authorize("alex", "agent.invoke", **resource) == reason


@pytest.mark.parametrize(("first", "second"), list(combinations(DENIALS, 2)))
def test_of_two_denials_the_first_is_told(stand: Stand, first: str, second: str) -> None:
    resource = asked(stand)
    for reason in (second, first):
        DENIALS[reason](stand, resource)
    assert stand.authorize("alex", "agent.invoke", **resource) == first


@pytest.mark.parametrize(
    ("who", "agent", "place", "reason"),
    [
        ("alex", "lotse", GENERAL, None),
        ("alex", "texter", GENERAL, "agent_not_allowed_here"),  # no guests there
        ("alex", "texter", ESCALATION, None),  # a guest with write
        ("alex", "assistent", ESCALATION, "agent_not_allowed_here"),  # a guest without
        ("robin", "lotse", ESCALATION, "no_trigger_right"),
        ("sam", "lotse", GENERAL, "no_trigger_right"),
        ("owner", "lotse", GENERAL, None),
        ("owner", "assistent", "Research/General", None),  # who holds its credential
        ("lotse", "texter", ESCALATION, "no_trigger_right"),  # agents trigger nobody
        ("alex", "sam", GENERAL, "agent_disabled"),  # no agent at all
        ("alex", "lotse", "alex+sam", "no_trigger_right"),  # nobody has trigger in a DM
    ],
)
def test_in_the_test_world(stand: Stand, who: str, agent: str, place: str, reason: str | None) -> None:
    resource = {"agent_id": stand.id(agent), "thread_id": stand.world.threads[place], "origin": "human"}
    assert stand.authorize(who, "agent.invoke", **resource) == reason


def test_personal_agents_work_for_their_holder_only(stand: Stand) -> None:
    stand.do(
        "grant_access",
        "owner",
        {"principal_id": stand.id("alex"), "space_id": stand.world.spaces["Research"], "level": "trigger"},
    )
    resource = {"agent_id": stand.id("assistent"), "thread_id": stand.world.threads["Research/General"]}
    assert stand.authorize("alex", "agent.invoke", **resource) == "billing_mode_personal_not_holder"


def test_only_what_people_write_triggers(stand: Stand) -> None:
    assert stand.authorize("alex", "agent.invoke", **(asked(stand) | {"origin": "import"})) == "no_trigger_right"


def test_a_threads_operator_stands_for_the_channels(stand: Stand) -> None:
    body = {"title": "T", "operator_agent_id": stand.id("texter")}
    thread = stand.do("create_thread", "owner", body, channel_id=stand.world.channels[GENERAL]).body["id"]
    for agent, reason in {"texter": None, "lotse": "agent_not_allowed_here"}.items():
        assert stand.authorize("alex", "agent.invoke", agent_id=stand.id(agent), thread_id=thread) == reason
    assert stand.authorize("texter", "message.write", thread_id=thread) == "not_found", "and gives no right by itself"


def test_every_denial_is_a_reason_of_runs_or_messages(stand: Stand) -> None:
    known = {
        code
        for (code,) in stand.sql(
            "SELECT code FROM livebox.run_reasons UNION SELECT code FROM livebox.rejection_reasons"
        )
    }
    assert set(DENIALS) <= known


def test_an_unknown_action_is_an_error(stand: Stand) -> None:
    with pytest.raises(Exception, match="unknown action") as raised:
        stand.authorize("alex", "message.burn", thread_id=stand.world.threads[GENERAL])
    assert getattr(raised.value, "pgcode", None) == "LB005"
