"""A message opens a run, follows one up, is rejected, or asks for nothing - and what is not written then."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from db import Database
from tests.runs.stage import LIMITS, Outcome, Stage

GENERAL = "Support/General"
ESCALATION = "Support/Escalation"
OPENED = {"messages": 2, "runs": 1, "events": 4}


def assert_rejected(stage: Stage, message: dict[str, Any], reason: str, audited: bool = True) -> None:
    """The message alone was written, with the reason on it."""
    assert (message["trigger_state"], message["trigger_state_reason"], message["version"]) == ("failed", reason, 2)
    expected = {"messages": 1, "events": 2, **({"audit_log": 1} if audited else {})}
    assert stage.written() == expected
    assert stage.event_types() == ["message.created text", "message.updated failed"]


def assert_nothing(stage: Stage, message: dict[str, Any]) -> None:
    """The message alone was written, and nothing is said of agents."""
    assert "trigger_state" not in message
    assert message["version"] == 1
    assert stage.written() == {"messages": 1, "events": 1}


async def test_operator_answers_in_a_thread(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    stage.mark()
    message = await stage.say("alex", thread)
    assert (message["trigger_state"], message["version"]) == ("received", 2)
    (run,) = stage.runs(thread)
    assert (run["state"], run["version"], run["agent_id"]) == ("queued", 1, stage.id("lotse"))
    assert (run["triggering_message_id"], run["triggered_by"]) == (message["id"], stage.id("alex"))
    assert run["billing_mode_expected"] == "organization"
    assert run["invocation_jti"] is not None
    (anchor,) = stage.sql("SELECT * FROM livebox.messages WHERE run_id = %s", run["id"])
    assert (anchor["thread_id"], anchor["author_id"], anchor["origin"]) == (thread, stage.id("lotse"), "agent")
    assert (anchor["kind"], anchor["body"], anchor["silent"]) == ("run", "", True)
    assert anchor["trigger_state"] is None
    assert stage.written() == OPENED


async def test_events_of_an_opened_run_are_in_order(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    stage.mark()
    await stage.say("alex", thread)
    assert stage.event_types() == [
        "message.created text",
        "message.created run",
        "run.state_changed queued",
        "message.updated received",
    ]
    numbers = [event["thread_seq"] for event in stage.events()]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    changed = stage.events()[2]["payload"]
    assert changed["trigger_state"] == "received"
    assert changed["run"]["version"] == 1
    assert "trigger_state" not in stage.events()[0]["payload"]["message"]


async def test_mention_in_the_main_thread_opens_a_thread(stage: Stage) -> None:
    stage.mark()
    message = await stage.say("alex", GENERAL, "lotse")
    assert message["thread_id"] == stage.world.threads[GENERAL]
    assert message["trigger_state"] == "received"
    (thread,) = stage.sql("SELECT * FROM livebox.threads WHERE parent_message_id = %s", message["id"])
    assert (thread["title"], thread["title_source"], thread["is_main"]) == ("", "auto", False)
    assert thread["operator_agent_id"] == stage.id("lotse")
    (run,) = stage.runs(thread["id"])
    (anchor,) = stage.sql("SELECT thread_id FROM livebox.messages WHERE run_id = %s", run["id"])
    assert anchor["thread_id"] == thread["id"]
    assert stage.event_types() == [
        "message.created text",
        "thread.created",
        "message.created run",
        "run.state_changed queued",
        "message.updated received",
    ]
    for thread_id in (thread["id"], message["thread_id"]):
        numbers = [event["thread_seq"] for event in stage.events() if event["thread_id"] == thread_id]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == len(numbers)
    assert stage.written() == {"messages": 2, "threads": 1, "runs": 1, "events": 5}


async def test_two_agents_mentioned(stage: Stage) -> None:
    stage.mark()
    message = await stage.say("alex", GENERAL, "lotse", "texter")
    assert_rejected(stage, message, "multiple_agents_mentioned", audited=False)


async def test_one_agent_and_people_mentioned_is_one_agent(stage: Stage) -> None:
    message = await stage.say("alex", GENERAL, "sam", "lotse", "owner")
    assert message["trigger_state"] == "received"


async def test_no_guests_here(stage: Stage) -> None:
    stage.mark()
    message = await stage.say("alex", GENERAL, "texter")
    assert_rejected(stage, message, "agent_not_allowed_here")
    assert stage.audit() == [("alex", "agent.invoke", "agent_not_allowed_here")]


async def test_permitted_guest(stage: Stage) -> None:
    message = await stage.say("alex", ESCALATION, "texter")
    assert message["trigger_state"] == "received"


async def test_guest_without_write(stage: Stage) -> None:
    stage.mark()
    message = await stage.say("alex", ESCALATION, "assistent")
    assert_rejected(stage, message, "agent_not_allowed_here")


async def test_mention_without_trigger(stage: Stage) -> None:
    stage.mark()
    message = await stage.say("robin", ESCALATION, "lotse")
    assert_rejected(stage, message, "no_trigger_right")
    assert stage.audit() == [("robin", "agent.invoke", "no_trigger_right")]


@pytest.mark.parametrize("scene", ["idle", "running", "waiting"])
async def test_no_mention_without_trigger_says_nothing(stage: Stage, scene: str) -> None:
    thread = await stage.thread("owner", ESCALATION)
    if scene != "idle":
        agent = "texter" if scene == "running" else "lotse"
        await stage.say("alex", thread, agent)
        (work,) = await stage.claim(agent)
        await stage.start(work)
        if scene == "waiting":
            stage.wait(work.run_id)
    stage.mark()
    before = stage.runs(thread)
    assert_nothing(stage, await stage.say("robin", thread))
    assert stage.runs(thread) == before


async def test_steering_needs_trigger(stage: Stage) -> None:
    thread = await stage.thread("owner", ESCALATION)
    await stage.say("alex", thread, "lotse")
    stage.mark()
    message = await stage.say("robin", thread, "lotse")
    assert_rejected(stage, message, "no_trigger_right")


async def test_thread_busy_with_another_agent(stage: Stage) -> None:
    thread = await stage.thread("owner", ESCALATION)
    await stage.say("alex", thread, "lotse")
    stage.mark()
    message = await stage.say("alex", thread, "texter")
    assert_rejected(stage, message, "run_active_other_agent")
    assert stage.audit()[-1] == ("alex", "agent.invoke", "run_active_other_agent")


async def test_other_agent_in_the_main_thread_gets_a_thread(stage: Stage) -> None:
    await stage.say("alex", ESCALATION, "lotse")
    assert (await stage.say("alex", ESCALATION, "texter"))["trigger_state"] == "received"


async def test_answer_to_a_waiting_guest(stage: Stage) -> None:
    thread = await stage.thread("owner", ESCALATION)
    await stage.say("alex", thread, "texter")
    (work,) = await stage.claim("texter")
    await stage.start(work)
    stage.wait(work.run_id)
    stage.mark()
    answer = await stage.say("alex", thread)
    assert (answer["trigger_state"], answer["version"]) == ("received", 2)
    assert stage.written() == {"messages": 1, "run_followups": 1, "events": 2}
    (row,) = stage.sql("SELECT * FROM livebox.run_followups WHERE run_id = %s", work.run_id)
    assert (row["message_id"], row["position"], row["state"]) == (answer["id"], 1, "pending")


async def test_answer_in_a_main_thread_stays_there(stage: Stage) -> None:
    stage.sql(
        "UPDATE livebox.channels SET auto_thread = false, operator_replies_in_main = true, version = version + 1 "
        "WHERE id = %s",
        stage.world.channels[GENERAL],
    )
    await stage.say("alex", GENERAL)
    (work,) = await stage.claim("lotse")
    await stage.start(work)
    stage.wait(work.run_id)
    stage.sql(
        "UPDATE livebox.channels SET auto_thread = true, version = version + 1 WHERE id = %s",
        stage.world.channels[GENERAL],
    )
    stage.mark()
    await stage.say("alex", GENERAL)
    assert stage.written() == {"messages": 1, "run_followups": 1, "events": 2}


async def test_disabled_agent(stage: Stage) -> None:
    stage.disable("lotse")
    stage.mark()
    assert_rejected(stage, await stage.say("alex", GENERAL, "lotse"), "agent_disabled")


async def test_personal_agent_of_somebody_else(stage: Stage) -> None:
    grant = {"principal_id": stage.id("alex"), "space_id": stage.world.spaces["Research"], "level": "trigger"}
    assert (await stage.write("grant_access", "owner", body=grant)).code == "created"
    stage.mark()
    message = await stage.say("alex", "Research/General", "assistent")
    assert_rejected(stage, message, "billing_mode_personal_not_holder")
    assert (await stage.say("owner", "Research/General", "assistent"))["trigger_state"] == "received"
    (run,) = stage.sql("SELECT billing_mode_expected FROM livebox.runs")
    assert run["billing_mode_expected"] == "personal"


async def test_owner_only_tools(stage: Stage) -> None:
    stage.sql(
        "UPDATE livebox.principals SET tool_class = 'owner_only', version = version + 1 WHERE id = %s",
        stage.id("lotse"),
    )
    stage.mark()
    assert_rejected(stage, await stage.say("alex", GENERAL, "lotse"), "tool_class_owner_only")
    assert (await stage.say("owner", GENERAL, "lotse"))["trigger_state"] == "received"


async def test_agents_trigger_nobody(stage: Stage) -> None:
    stage.mark()
    assert_nothing(stage, await stage.say("lotse", ESCALATION, "texter"))


async def test_dm_opens_nothing(stage: Stage) -> None:
    stage.mark()
    assert_nothing(stage, await stage.say("alex", "alex+sam", "lotse"))


async def test_main_thread_without_a_mention(stage: Stage) -> None:
    stage.mark()
    assert_nothing(stage, await stage.say("alex", GENERAL))


async def test_channel_without_an_operator(stage: Stage) -> None:
    thread = await stage.thread("owner", "Engineering/General")
    stage.mark()
    assert_nothing(stage, await stage.say("owner", thread))


@pytest.mark.parametrize(
    ("switch", "where", "opens"),
    [
        ("operator_replies_in_threads = false", "thread", False),
        ("operator_replies_in_main = true", "main", True),
        ("auto_thread = false", "thread", True),
    ],
)
async def test_switches_of_the_channel(stage: Stage, switch: str, where: str, opens: bool) -> None:
    thread = await stage.thread("owner", GENERAL) if where == "thread" else GENERAL
    stage.sql(
        f"UPDATE livebox.channels SET {switch}, version = version + 1 WHERE id = %s", stage.world.channels[GENERAL]
    )
    stage.mark()
    message = await stage.say("alex", thread)
    assert ("trigger_state" in message) == opens
    assert stage.written().get("runs", 0) == opens
    assert stage.written().get("threads", 0) == (opens and where == "main")


async def test_main_thread_without_auto_thread_keeps_the_run(stage: Stage) -> None:
    stage.sql(
        "UPDATE livebox.channels SET auto_thread = false, version = version + 1 WHERE id = %s",
        stage.world.channels[GENERAL],
    )
    stage.mark()
    await stage.say("alex", GENERAL, "lotse")
    assert stage.written() == OPENED
    assert len(stage.runs(stage.world.threads[GENERAL])) == 1


async def test_thread_operator_overrides_the_channels(stage: Stage) -> None:
    thread = await stage.thread("owner", ESCALATION)
    stage.sql(
        "UPDATE livebox.threads SET operator_agent_id = %s, version = version + 1 WHERE id = %s",
        stage.id("texter"),
        thread,
    )
    await stage.say("alex", thread)
    assert stage.runs(thread)[0]["agent_id"] == stage.id("texter")


async def test_denied_operator_without_a_mention_is_told_and_audited(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    stage.disable("lotse")
    stage.mark()
    assert_rejected(stage, await stage.say("alex", thread), "agent_disabled")


async def test_followups_are_rows_in_order_and_bounded(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    await stage.say("alex", thread)
    stage.mark()
    sent = [await stage.say("alex", thread) for _ in range(4)]
    assert [message["trigger_state"] for message in sent] == ["received"] * 3 + ["failed"]
    assert sent[3]["trigger_state_reason"] == "followup_limit"
    (run,) = stage.runs(thread)
    assert run["version"] == 4
    rows = stage.sql("SELECT * FROM livebox.run_followups WHERE run_id = %s ORDER BY position", run["id"])
    assert [(row["message_id"], row["position"]) for row in rows] == [
        (message["id"], position) for position, message in enumerate(sent[:3], start=1)
    ]
    assert stage.written() == {"messages": 4, "run_followups": 3, "events": 8}
    document = (await stage.run("alex", run["id"])).body
    assert set(document["followups"]) == {message["id"] for message in sent[:3]}


async def test_ended_run_makes_room(stage: Stage) -> None:
    message, work = await stage.working()
    await stage.finish(work)
    again = await stage.say("alex", message["thread_id"])
    assert again["trigger_state"] == "received"
    assert [run["state"] for run in stage.runs(message["thread_id"])] == ["completed", "queued"]


@pytest.mark.parametrize("state", ["queued", "running", "waiting_input"])
async def test_active_run_in_each_state_takes_followups(stage: Stage, state: str) -> None:
    thread = await stage.thread("owner", GENERAL)
    await stage.say("alex", thread)
    if state != "queued":
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        if state == "waiting_input":
            stage.wait(work.run_id)
    stage.mark()
    await stage.say("alex", thread)
    assert stage.written() == {"messages": 1, "run_followups": 1, "events": 2}


async def test_repeat_of_a_message_opens_nothing_more(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    body = {"body": "hello", "client_msg_id": "0193a000-0000-4000-8000-0000000000a1"}
    first = await stage.write("create_message", "alex", thread_id=thread, body=body)
    stage.mark()
    again = await stage.write("create_message", "alex", thread_id=thread, body=body)
    assert again.body == first.body
    assert stage.written() == {}
    other = await stage.write("create_message", "alex", thread_id=thread, body={**body, "body": "other"})
    assert other.code == "idempotency_key_reused"


async def test_two_messages_at_once(stage: Stage) -> None:
    other = Database(stage.dsn)
    await other.start()
    try:
        for _ in range(200):
            thread = await stage.thread("owner", GENERAL)
            first, second = await asyncio.gather(stage.post("alex", thread), stage.post("owner", thread, db=other))
            assert {first.body["trigger_state"], second.body["trigger_state"]} == {"received"}
            (run,) = stage.runs(thread)
            (followup,) = stage.sql("SELECT message_id FROM livebox.run_followups WHERE run_id = %s", run["id"])
            assert {run["triggering_message_id"], followup["message_id"]} == {first.body["id"], second.body["id"]}
    finally:
        await other.stop()


async def test_who_loses_the_race_for_a_thread_follows_up(stage: Stage) -> None:
    """Both orders of the race that the lane's lock does not see: two sessions that accept without it."""
    thread = await stage.thread("owner", GENERAL)
    stage.sql("CREATE OR REPLACE FUNCTION livebox.lock_log() RETURNS void LANGUAGE sql AS ''")
    stage.sql(
        "CREATE FUNCTION livebox.racer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF current_setting('livebox.raced', true) IS DISTINCT FROM 'yes' THEN "
        "PERFORM set_config('livebox.raced', 'yes', true); "
        "INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, trigger_kind, triggered_by, "
        "billing_mode_expected, invocation_jti, queued_at) VALUES (livebox.new_id(), NEW.thread_id, NEW.agent_id, "
        "'queued', NEW.queued_at, 'message', NEW.triggered_by, 'organization', gen_random_uuid(), NEW.queued_at); "
        "END IF; RETURN NEW; END $$"
    )
    stage.sql("CREATE TRIGGER zz_racer BEFORE INSERT ON livebox.runs FOR EACH ROW EXECUTE FUNCTION livebox.racer()")
    stage.mark()
    message = await stage.say("alex", thread)
    assert message["trigger_state"] == "received"
    assert stage.written() == {"messages": 1, "runs": 1, "run_followups": 1, "events": 2}
    assert stage.event_types() == ["message.created text", "message.updated received"]


@pytest.mark.parametrize(
    ("decision", "scene", "reason"),
    [
        ("NULL", "disabled", "agent_disabled"),
        ("NULL", "busy", "run_active_other_agent"),
        ("NULL", "no trigger", "no_trigger_right"),
        ("'no_trigger_right'", "fine", "no_trigger_right"),
        ("'agent_disabled'", "fine", "agent_disabled"),
        ("'run_active_other_agent'", "fine", "run_active_other_agent"),
    ],
)
async def test_disagreement_fails_closed(stage: Stage, decision: str, scene: str, reason: str) -> None:
    thread = await stage.thread("owner", ESCALATION)
    if scene == "disabled":
        stage.disable("lotse")
    elif scene == "busy":
        await stage.say("alex", thread, "texter")
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.authorize_invoke(p_principal uuid, p_resource jsonb) RETURNS text "
        f"LANGUAGE sql STABLE AS $$ SELECT {decision}::text $$"
    )
    stage.mark()
    outcome = await stage.post("robin" if scene == "no trigger" else "alex", thread, "lotse")
    assert_rejected(stage, outcome.body, reason, audited=decision != "NULL")
    assert outcome.effects == [{"kind": "log", "level": "error", "event": "trigger_decision_mismatch"}]


async def test_denial_that_is_in_no_list_is_kept_and_logged(stage: Stage) -> None:
    thread = await stage.thread("owner", GENERAL)
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.authorize_invoke(p_principal uuid, p_resource jsonb) RETURNS text "
        "LANGUAGE sql STABLE AS $$ SELECT 'something_new'::text $$"
    )
    stage.mark()
    # Past the stage's check against the contract, whose closed list cannot know the word.
    body = {"body": "hello", "client_msg_id": str(uuid.uuid4())}
    answer = await stage.db.lane.submit(
        "create_message", stage.caller("alex"), {"thread_id": thread, "limits": LIMITS, "body": body}
    )
    outcome = Outcome(answer, json.loads(answer.body or b""))
    assert (outcome.body["trigger_state"], outcome.body["trigger_state_reason"]) == ("failed", "something_new")
    assert outcome.effects == [{"kind": "log", "level": "error", "event": "trigger_denial_unlisted"}]
