"""Lists of runs: who sees what, pages across hidden rows, and lists that do not shift while they are read."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.runs.stage import Stage

PLACES = {"Support/General": "lotse", "Support/Escalation": "lotse", "Marketing/General": "texter", "Research/General": "assistent"}  # fmt: skip
SEES = {
    "alex": {"Support/General", "Support/Escalation"},
    "sam": {"Support/General", "Marketing/General"},
    "robin": {"Support/Escalation"},
    "owner": set(PLACES),
}


async def everywhere(stage: Stage) -> dict[str, str]:
    """A queued run in each place: its id by the place."""
    runs = {}
    for place, agent in PLACES.items():
        thread = (await stage.queued("owner", place, agent))["thread_id"]
        runs[place] = stage.runs(thread)[0]["id"]
    return runs


async def pages(stage: Stage, operation: str, who: str, limit: int, **args: Any) -> list[list[str]]:
    """All pages of a list, as ids."""
    found: list[list[str]] = []
    cursor: dict[str, Any] | None = None
    while True:
        outcome = await stage.read(operation, who, limit=limit, **args, **({"cursor": cursor} if cursor else {}))
        assert outcome.code == "ok"
        found.append([item["id"] for item in outcome.body["items"]])
        cursor = outcome.answer.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("who", SEES)
async def test_who_sees_which_runs(stage: Stage, who: str) -> None:
    runs = await everywhere(stage)
    visible = {runs[place] for place in SEES[who]}
    listed = await stage.read("list_active_runs", who)
    assert {item["id"] for item in listed.body["items"]} == visible
    snapshot = await stage.read("get_snapshot", who)
    assert {item["id"] for item in snapshot.body["active_runs"]} == visible
    assert snapshot.body["active_runs"] == listed.body["items"]
    events = await stage.read("list_events", who, after=0, limit=1000)
    told = {e["resource"]["id"] for e in events.body["items"] if e["type"] == "run.state_changed"}
    assert told == visible
    for place, run in runs.items():
        shown = await stage.run(who, run)
        steps = await stage.read("list_run_steps", who, run_id=run)
        thread = stage.sql("SELECT thread_id FROM livebox.runs WHERE id = %s", run)[0]["thread_id"]
        of_thread = await stage.read("list_thread_runs", who, thread_id=thread)
        if place in SEES[who]:
            assert (shown.body["id"], steps.body["items"]) == (run, [])
            assert [item["id"] for item in of_thread.body["items"]] == [run]
        else:
            for outcome in (shown, steps, of_thread):
                assert (outcome.code, outcome.body) == ("not_found", None)
    for operation, parameter in (
        ("get_run", "run_id"),
        ("list_run_steps", "run_id"),
        ("list_thread_runs", "thread_id"),
    ):
        absent = await stage.read(operation, who, **{parameter: str(uuid.uuid4())})
        assert (absent.code, absent.body) == ("not_found", None)


async def test_summary_agrees_with_the_document(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.step(work)
    document = (await stage.run("alex", work.run_id)).body
    (summary,) = (await stage.read("list_active_runs", "alex")).body["items"]
    assert summary == {name: document[name] for name in summary}
    assert summary["step_count"] == 1


async def test_page_is_filled_across_hidden_runs(stage: Stage) -> None:
    order = ["Support/General", "Research/General", "Research/General", "Marketing/General", "Research/General"]
    runs = []
    for place in order:
        thread = (await stage.queued("owner", place, PLACES[place]))["thread_id"]
        runs.append(stage.runs(thread)[0]["id"])
    runs.reverse()  # newest first: hidden, visible, hidden, hidden, visible
    first = await stage.read("list_active_runs", "sam", limit=1)
    assert [item["id"] for item in first.body["items"]] == [runs[1]]
    assert first.answer.cursor is not None
    assert first.answer.cursor["id"] == runs[3]  # the last row that was examined before the next visible one
    second = await stage.read("list_active_runs", "sam", limit=1, cursor=first.answer.cursor)
    assert [item["id"] for item in second.body["items"]] == [runs[4]]
    assert second.answer.cursor is None
    assert (await stage.read("list_active_runs", "sam", limit=2)).answer.cursor is None


async def test_hidden_runs_at_the_end_do_not_show(stage: Stage) -> None:
    await stage.queued("owner", "Research/General", "assistent")
    await stage.queued("owner", "Support/General")
    assert (await stage.read("list_active_runs", "sam", limit=1)).answer.cursor is None


async def test_list_that_examined_its_most_goes_on(stage: Stage) -> None:
    for place in ("Support/General", *["Research/General"] * 4):
        await stage.queued("owner", place, PLACES[place])
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.scan_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 2::bigint'"
    )
    found = await pages(stage, "list_active_runs", "sam", 5)
    assert [len(page) for page in found] == [0, 0, 1]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_each_run_once_at_equal_times(stage: Stage, limit: int) -> None:
    for _ in range(7):
        await stage.queued("owner", "Support/General")
    stage.sql("ALTER TABLE livebox.runs DISABLE TRIGGER USER")
    stage.sql("UPDATE livebox.runs SET queued_at = '2026-01-01 00:00:00.123456Z', state_changed_at = '2026-01-02Z'")
    everything = [row["id"] for row in stage.sql("SELECT id FROM livebox.runs ORDER BY queued_at DESC, id DESC")]
    found = await pages(stage, "list_active_runs", "alex", limit)
    assert [run for page in found for run in page] == everything
    assert len(found[-1]) > 0


async def test_thread_runs_page_and_filter(stage: Stage) -> None:
    thread = await stage.thread("owner", "Support/General")
    for end in ("completed", "failed", "completed", "completed", "failed"):
        await stage.say("alex", thread)
        (work,) = await stage.claim("lotse")
        await stage.start(work)
        await stage.finish(work, end, **({"reason": "runtime_error"} if end == "failed" else {}))
    newest_first = [run["id"] for run in reversed(stage.runs(thread))]
    for limit in (1, 2, 5, 6):
        found = await pages(stage, "list_thread_runs", "alex", limit, thread_id=thread)
        assert [run for page in found for run in page] == newest_first
    found = await pages(stage, "list_thread_runs", "alex", 2, thread_id=thread, state="completed")
    assert [len(page) for page in found] == [2, 1]


async def test_list_does_not_shift_while_it_is_read(stage: Stage) -> None:
    works = [(await stage.working())[1] for _ in range(4)]
    first = await stage.read("list_active_runs", "alex", limit=2)
    await stage.queued()
    await stage.step(works[0])
    await stage.finish(works[3])
    second = await stage.read("list_active_runs", "alex", limit=2, cursor=first.answer.cursor)
    assert [item["id"] for item in second.body["items"]] == [works[1].run_id, works[0].run_id]


async def test_filters_of_active_runs(stage: Stage) -> None:
    _, work = await stage.working("owner", "Support/General")
    runs = await everywhere(stage)
    found = await stage.read("list_active_runs", "owner", agent_id=stage.id("lotse"), state="queued")
    assert {item["id"] for item in found.body["items"]} == {runs["Support/General"], runs["Support/Escalation"]}
    found = await stage.read("list_active_runs", "owner", state="running")
    assert [item["id"] for item in found.body["items"]] == [work.run_id]
    for who, agent in (("alex", stage.id("texter")), ("alex", stage.id("assistent")), ("owner", str(uuid.uuid4()))):
        empty = await stage.read("list_active_runs", who, agent_id=agent)
        assert (empty.code, empty.body, empty.answer.cursor) == ("ok", {"items": []}, None)


async def test_ended_and_deleted_are_not_active(stage: Stage) -> None:
    _, work = await stage.working()
    await stage.finish(work)
    hidden = await stage.queued()
    stage.sql("UPDATE livebox.threads SET deleted_at = livebox.clock(), version = version + 1 WHERE id = %s",
              hidden["thread_id"])  # fmt: skip
    assert (await stage.read("list_active_runs", "owner")).body == {"items": []}
    assert (await stage.run("owner", stage.runs(hidden["thread_id"])[0]["id"])).code == "not_found"


async def test_run_follows_its_thread(stage: Stage) -> None:
    message = await stage.queued("owner", "Support/General")
    (run,) = stage.runs(message["thread_id"])
    assert (await stage.run("robin", run["id"])).code == "not_found"
    moved = await stage.write(
        "move_thread", "owner", thread_id=message["thread_id"],
        body={"channel_id": stage.world.channels["Support/Escalation"]},
    )  # fmt: skip
    assert moved.code == "ok"
    assert (await stage.run("robin", run["id"])).body["channel_id"] == stage.world.channels["Support/Escalation"]
    assert (await stage.run("sam", run["id"])).code == "not_found"
    assert (await stage.read("list_active_runs", "sam")).body == {"items": []}


async def test_filter_and_decision_that_disagree_drop_the_run(stage: Stage) -> None:
    runs = await everywhere(stage)
    stage.sql("ALTER FUNCTION livebox.authorize_run(uuid, text, uuid) RENAME TO authorize_run_before")
    stage.sql(
        "CREATE FUNCTION livebox.authorize_run(p_principal uuid, p_action text, p_run uuid) RETURNS text LANGUAGE sql STABLE "
        f"AS $$ SELECT CASE WHEN p_run = '{runs['Support/General']}' THEN 'not_found' "
        "ELSE livebox.authorize_run_before(p_principal, p_action, p_run) END $$"
    )
    for operation, name in (("list_active_runs", "items"), ("get_snapshot", "active_runs")):
        outcome = await stage.read(operation, "alex")
        assert [item["id"] for item in outcome.body[name]] == [runs["Support/Escalation"]]
        assert outcome.effects == [{"kind": "authz.error", "reason": "filter_mismatch"}]
        assert runs["Support/General"] not in str(outcome.effects)


async def test_inactive_callers_read_nothing(stage: Stage) -> None:
    _, work = await stage.working()
    thread = stage.sql("SELECT thread_id FROM livebox.runs")[0]["thread_id"]
    stage.disable("alex")
    for operation, args in (
        ("get_run", {"run_id": work.run_id}),
        ("list_run_steps", {"run_id": work.run_id}),
        ("list_thread_runs", {"thread_id": thread}),
        ("list_active_runs", {}),
    ):
        assert (await stage.read(operation, "alex", **args)).code == "invalid_token"
    assert (await stage.cancel("alex", work.run_id)).code == "invalid_token"


async def test_overview_is_for_people(stage: Stage) -> None:
    assert (await stage.read("list_active_runs", "lotse")).code == "forbidden"
