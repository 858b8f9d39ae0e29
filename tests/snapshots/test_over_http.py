"""Units of work over the wire: who sees which, how what is live refines them, and how a tree and its pages hang together."""

from __future__ import annotations

from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import absent, fresh

EVERYBODY = (OWNER, "alex", "sam", "robin", "lotse", "texter", "assistent")


def patch(stage: Stage, held: Held, **members: Any) -> None:
    """Put members into the live content of a run, the units of a kind by key."""
    version = stage.as_(OWNER).call("getRun", run_id=held.id).ok()["version"]
    ops = []
    for name, value in members.items():
        if name in ("subagents", "workflows", "jobs", "refs"):
            ops += [{"op": "add", "path": f"/{name}/{key}", "value": entry} for key, entry in value.items()]
        else:
            ops.append({"op": "add", "path": f"/{name}", "value": value})
    body = {"base_version": version, "ops": ops}
    stage.as_("lotse").call("patchRun", body, headers=held.headers, run_id=held.id).ok()


def tree(stage: Stage, run_id: str, by: str = OWNER, **query: Any) -> dict[str, dict[str, Any]]:
    """What is under a run, by id."""
    items = stage.as_(by).call("listRunSnapshots", run_id=run_id, query=query).ok()["items"]
    found = {item["run_id"]: item for item in items}
    assert len(found) == len(items)
    return found


def listed(stage: Stage, by: str, limit: int = 1000, **query: Any) -> list[dict[str, Any]]:
    """All units that somebody sees, page by page."""
    found: list[dict[str, Any]] = []
    asked: dict[str, Any] = {**query, "limit": limit}
    while True:
        page = stage.as_(by).call("listAgentRunSnapshots", query=asked).ok()
        assert len(page["items"]) <= limit
        found += page["items"]
        if "next_cursor" not in page:
            return found
        assert page["items"]
        asked["cursor"] = page["next_cursor"]


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [item["run_id"] for item in found]


def publish(
    stage: Stage, by: str = "lotse", unit: str = "", live: dict[str, Any] | None = None, **snapshot: Any
) -> dict[str, Any]:
    """A unit of somebody else; running unless it says otherwise."""
    body: dict[str, Any] = {"snapshot": {"source": "workflow", "state": "running", **snapshot}}
    if live:
        body["live"] = live
    answer = stage.as_(by).call("putAgentRunSnapshot", body, snapshot_id=unit or f"unit/{fresh()}")
    return dict(answer.ok())


def who_sees(stage: Stage, unit: str) -> set[str]:
    return {who for who in EVERYBODY if unit in ids(listed(stage, who))}


@pytest.fixture(scope="module", autouse=True)
def _service(stage: Stage) -> None:
    stage.principal("service", "hook")


# who sees what


def test_a_run_is_seen_by_whoever_may_read_it(stage: Stage) -> None:
    held = stage.running()
    patch(stage, held, jobs={"a": {"name": "index", "state": "running"}})
    readers = {OWNER, "alex", "robin", "lotse", "texter"}
    assert who_sees(stage, held.id) == readers
    assert who_sees(stage, f"{held.id}:jobs:a") == readers
    for who in EVERYBODY:
        answer = stage.as_(who).call("listRunSnapshots", run_id=held.id)
        assert answer.status == (200 if who in readers else 404)


def test_a_registered_run_is_seen_by_those_it_names_and_owners(stage: Stage) -> None:
    mine = stage.registered(agents=["texter"], user_id="sam")["id"]
    assert who_sees(stage, mine) == {OWNER, "lotse", "texter", "sam"}


def test_runs_of_a_deleted_thread_are_nobodys(stage: Stage) -> None:
    held = stage.running()
    unit = publish(stage, parent=held.id)["run_id"]
    assert who_sees(stage, unit) == {OWNER, "alex", "robin", "lotse", "texter"}
    stage.as_(OWNER).call("deleteThread", thread_id=held.run["thread_id"]).ok()
    assert who_sees(stage, held.id) == set()
    assert who_sees(stage, unit) == {OWNER, "lotse"}
    stage.as_(OWNER).call("listRunSnapshots", run_id=held.id).refused(404, "not_found")
    assert listed(stage, "alex", parent=held.id) == []


def test_a_published_unit_is_its_publishers_and_the_owners(stage: Stage) -> None:
    assert who_sees(stage, publish(stage)["run_id"]) == {OWNER, "lotse"}
    assert who_sees(stage, publish(stage, "hook")["run_id"]) == {OWNER}


def test_a_published_unit_below_a_run_is_also_seen_by_who_reads_that(stage: Stage) -> None:
    run_id = stage.running().id
    assert who_sees(stage, publish(stage, parent=run_id)["run_id"]) == {OWNER, "alex", "robin", "lotse", "texter"}


def test_nobody_shows_themselves_below_a_run_that_they_may_not_read(stage: Stage) -> None:
    """It is taken as any other text: whether there is such a run is not told."""
    run_id = stage.running().id
    for parent in (run_id, absent()):
        made = publish(stage, "hook", parent=parent)
        assert made["parent"] == parent
        assert who_sees(stage, made["run_id"]) == {OWNER}


def test_people_publish_nothing(stage: Stage) -> None:
    body = {"snapshot": {"source": "workflow", "state": "running"}}
    for who in (OWNER, "alex"):
        stage.as_(who).call("putAgentRunSnapshot", body, snapshot_id=fresh()).refused(403, "forbidden")


def test_a_hidden_parent_is_like_none(stage: Stage) -> None:
    hidden = stage.running()
    patch(stage, hidden, jobs={"a": {"name": "index", "state": "running"}})
    stage.registered(parent_run_id=hidden.id)
    publish(stage, parent=hidden.id)
    for parent in (hidden.id, f"{hidden.id}:jobs:a", absent(), "nothing"):
        assert stage.as_("sam").call("listAgentRunSnapshots", query={"parent": parent}).ok() == {"items": []}


# live refines, durable decides


def test_states_of_a_run_on_its_way(stage: Stage) -> None:
    def state(run_id: str) -> str:
        return str(tree(stage, run_id)[run_id]["state"])

    assert state(stage.queued()["id"]) == "queued"
    held = stage.claimed()
    assert state(held.id) == "initializing"
    held = stage.running()
    assert state(held.id) == "running"
    patch(stage, held, waiting_on="rate_limit")
    assert state(held.id) == "waiting_model"
    patch(stage, held, waiting_on="child")
    assert state(held.id) == "waiting_tool"
    assert stage.as_("alex").call("cancelRun", {}, run_id=held.id).status == 202
    assert state(held.id) == "stopping"
    assert state(stage.waiting().id) == "waiting_input"
    ended = tree(stage, stage.finished().id)
    (shown,) = ended.values()
    assert shown["terminal"]["detail"] == "12 files."
    assert shown["budget"].keys() == {"steps_taken", "duration_ms"}


def test_what_was_patched_this_moment_is_shown_with_where_it_is_from(stage: Stage) -> None:
    held = stage.running()
    ref = {"kind": "artifact", "reference": "reports/1", "label": "The report"}
    for number in range(3):
        headline = {"name": "reader", "state": "running", "tokens_used": number}
        patch(stage, held, subagents={"a": headline}, refs={"r": ref}, waiting_on="tool")
        found = tree(stage, held.id, explain="true")
        assert found[f"{held.id}:subagents:a"]["budget"] == {"tokens_used": number}
        assert found[held.id]["refs"] == [ref]
    sides = found[held.id]["provenance"]
    assert (sides["run_id"], sides["state"], sides["refs"]) == ("durable", "live", "live")
    assert all("provenance" not in item for item in tree(stage, held.id).values())


@pytest.mark.parametrize(("kind", "source"), [("subagents", "direct"), ("workflows", "workflow"), ("jobs", "core_job")])
def test_filters_find_what_is_not_saved_yet(stage: Stage, kind: str, source: str) -> None:
    held = stage.running()
    patch(stage, held, headline="Saved")
    entry = {"name": "x", "state": "paused"}
    patch(stage, held, **{kind: {"a": entry}})
    unit = f"{held.id}:{kind}:a"
    assert ids(listed(stage, "alex", source=source))[0] == unit
    assert ids(listed(stage, "alex", active="false"))[0] == unit


def test_the_end_of_a_step_is_told_whatever_lags_behind(stage: Stage) -> None:
    """Also where only the content in memory names the step."""
    held = stage.running()
    wire = stage.as_("lotse")
    step = stage.step(held, kind="subagent", name="reader", title="Read the folder")["id"]
    entry = {"name": "reader", "state": "waiting_model", "step_id": step}
    patch(stage, held, subagents={"a": entry})
    assert tree(stage, held.id)[f"{held.id}:subagents:a"]["state"] == "waiting_model"
    body = {"status": "failed"}
    wire.call("updateRunStep", body, headers=held.headers, run_id=held.id, step_id=step).ok()
    patch(stage, held, workflows={"b": entry}, headline="Going on")
    found = tree(stage, held.id)
    for unit in ("subagents:a", "workflows:b"):
        assert found[f"{held.id}:{unit}"]["terminal"]["outcome"] == "failed"
        assert found[f"{held.id}:{unit}"]["terminal"]["detail"] == "Read the folder"


def test_units_end_with_their_run(stage: Stage) -> None:
    held = stage.running()
    step = stage.step(held, kind="job", name="index")["id"]
    jobs = {"a": {"name": "index", "state": "running", "step_id": step}, "b": {"name": "x", "state": "paused"}}
    patch(stage, held, jobs=jobs)
    body = {"state": "failed", "reason": "budget_exhausted", "summary": "password=hunter2"}
    stage.as_("lotse").call("finishRun", body, headers=held.headers, run_id=held.id).ok()
    found = tree(stage, held.id)
    assert {item["terminal"]["outcome"] for item in found.values()} == {"budget_exhausted"}
    assert found[held.id]["terminal"]["detail"] == "budget exhausted"


def test_what_a_registered_run_has_spent(stage: Stage) -> None:
    run_id = stage.registered(budget={"tokens": 100, "steps": 5})["id"]
    body = {"agent_id": stage.id("lotse"), "amount_micros": 5, "currency": "EUR", "tokens": 40}
    stage.as_("lotse").call("recordSpend", body, run_id=run_id, entry_id=fresh()).ok()
    stage.as_("lotse").call("recordRunStep", {"kind": "tool", "name": "x"}, run_id=run_id, step_id=fresh()).ok()
    assert tree(stage, run_id)[run_id] == {
        "run_id": run_id,
        "source": "fleet",
        "state": "running",
        "budget": {"token_budget": 100, "tokens_used": 40, "steps_taken": 1, "max_steps": 5},
    }


# publishing


def test_a_published_unit_is_replaced_until_it_ends(stage: Stage) -> None:
    unit = f"nightly/{fresh()}"
    made = publish(stage, unit=unit, live={"state": "waiting_model"}, budget={"max_steps": 3})
    assert made == {"run_id": unit, "source": "workflow", "state": "waiting_model", "budget": {"max_steps": 3}}
    assert publish(stage, unit=unit)["state"] == "running"
    end = {"state": "terminal", "terminal": {"outcome": "completed", "ended_at_ms": 5, "detail": "12 files."}}
    ended = publish(stage, unit=unit, live={"state": "running"}, **end)
    assert ended["terminal"] == end["terminal"]
    row = "SELECT xmin::text, s::text FROM livebox.agent_snapshots s WHERE snapshot_id = %s"
    before = stage.sql(row, unit)
    assert publish(stage, unit=unit, **end) == ended
    assert publish(stage, unit=unit, live={"state": "stopping"}, **end) == ended
    wire = stage.as_("lotse")
    for other in (
        {"state": "running"},
        {**end, "terminal": {"outcome": "failed"}},
        {**end, "source": "fleet"},
        {**end, "budget": {"steps_taken": 1}},
        {**end, "parent": "other"},
    ):
        body = {"snapshot": {"source": "workflow", **other}}
        wire.call("putAgentRunSnapshot", body, snapshot_id=unit).refused(409, "snapshot_terminal")
    assert stage.sql(row, unit) == before
    assert publish(stage, "hook", unit=unit)["state"] == "running", "ids are each publisher's own"
    assert [item["state"] for item in listed(stage, OWNER) if item["run_id"] == unit] == ["running", "terminal"]


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"snapshot": {"state": "terminal"}}, [("required", "/snapshot/terminal")]),
        (
            {"snapshot": {"state": "running", "terminal": {"outcome": "failed"}}},
            [("invalid_value", "/snapshot/terminal")],
        ),
        ({"snapshot": {"state": "running", "parent": "self"}}, [("invalid_value", "/snapshot/parent")]),
        ({"snapshot": {"state": "running"}, "live": {"state": "terminal"}}, [("invalid_value", "/live/state")]),
        (
            {
                "snapshot": {"state": "running", "refs": [{"kind": "gate", "reference": "/etc/passwd"}]},
                "live": {"refs": [{"kind": "gate", "reference": "x"}, {"kind": "gate", "reference": "a/../b"}]},
            },
            [("pattern_mismatch", "/snapshot/refs/0/reference"), ("pattern_mismatch", "/live/refs/1/reference")],
        ),
        ({"snapshot": {"state": "done"}}, [("not_allowed_value", "/snapshot/state")]),
        ({"snapshot": {"state": "running", "refs": []}}, [("too_few", "/snapshot/refs")]),
        ({"snapshot": {"state": "running", "run_id": "x"}}, [("unknown_field", "/snapshot/run_id")]),
        (
            {"snapshot": {"state": "running", "budget": {"steps_taken": -1}}},
            [("out_of_range", "/snapshot/budget/steps_taken")],
        ),
    ],
)
def test_what_does_not_hang_together_is_not_taken(stage: Stage, body: Any, errors: list[tuple[str, str]]) -> None:
    body = {**body, "snapshot": {"source": "direct", **body["snapshot"]}}
    answer = stage.as_("lotse").call("putAgentRunSnapshot", body, snapshot_id="self")
    assert answer.refused(400, "validation_failed").errors() == errors
    assert stage.sql("SELECT FROM livebox.agent_snapshots WHERE snapshot_id = 'self'") == []


def test_what_nobody_is_shown_is_not_kept_either(stage: Stage) -> None:
    terminal = {"outcome": "failed", "detail": "password=hunter2"}
    refs = [{"kind": "gate", "reference": "g/1", "label": "password=hunter2"}]
    unit = fresh()
    shown = publish(stage, unit=unit, state="terminal", terminal=terminal, refs=refs)
    assert shown["terminal"] == {"outcome": "failed"}
    assert shown["refs"] == [{"kind": "gate", "reference": "g/1"}]
    publish(stage, unit=unit, state="terminal", terminal=terminal, refs=refs)
    (row,) = stage.sql("SELECT s::text FROM livebox.agent_snapshots s WHERE snapshot_id = %s", unit)
    assert "hunter2" not in row[0]


def test_ids_of_any_scheme(stage: Stage) -> None:
    for unit in ("a/b", "%2F", "a%b", "50%", "a:b:c", "é".encode().hex(), "?x=1&y#z", "~", "!" * 300, fresh().upper()):
        assert publish(stage, unit=unit)["run_id"] == unit


# the tree


def test_the_tree_under_a_run(stage: Stage) -> None:
    root = stage.running()
    patch(stage, root, workflows={"w": {"name": "nightly", "state": "running"}})
    mine = stage.registered(user_id="alex", parent_run_id=root.id)["id"]
    below = stage.registered(user_id="alex", parent_run_id=mine)["id"]
    hidden = stage.registered(parent_run_id=root.id)["id"]
    under_hidden = stage.registered(user_id="alex", parent_run_id=hidden)["id"]
    other = stage.registered(user_id="alex")["id"]
    unit = f"{root.id}:workflows:w"
    of_run = publish(stage, parent=below)["run_id"]
    of_unit = publish(stage, parent=unit)["run_id"]
    of_other = publish(stage, parent=of_run)["run_id"]
    last = publish(stage, parent=of_other)["run_id"]
    strange = publish(stage, "hook", parent=of_run)["run_id"]
    assert set(tree(stage, root.id, "alex")) == {root.id, unit, mine, below, of_run}
    whole = tree(stage, root.id)
    assert set(whole) == {root.id, unit, mine, below, hidden, under_hidden, of_run, of_unit, of_other, last}
    assert strange not in whole
    assert other not in whole
    assert list(whole)[-2:] == [root.id, unit], "newest first"
    assert set(tree(stage, mine, "alex")) == {mine, below, of_run}
    for limit in (1, 2, 3):
        found: list[str] = []
        query: dict[str, Any] = {"limit": limit}
        while True:
            page = stage.as_(OWNER).call("listRunSnapshots", run_id=root.id, query=query).ok()
            found += ids(page["items"])
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
        assert found == list(whole)
    assert ids(listed(stage, OWNER, parent=root.id)) == [hidden, mine, unit]
    assert ids(listed(stage, OWNER, parent=unit)) == [of_unit]
    assert ids(listed(stage, OWNER, parent=of_run)) == [strange, of_other]
    assert ids(listed(stage, "alex", parent=root.id)) == [mine, unit]


def test_one_below_another_in_a_document(stage: Stage) -> None:
    held = stage.running()
    above = stage.step(held, kind="workflow", name="nightly")["id"]
    own = stage.step(held, kind="subagent", name="reader", parent_step_id=above)["id"]
    patch(
        stage,
        held,
        workflows={"w": {"name": "nightly", "state": "running", "step_id": above}},
        subagents={"a": {"name": "reader", "state": "running", "step_id": own}},
    )
    unit = f"{held.id}:workflows:w"
    assert ids(listed(stage, "alex", parent=unit)) == [f"{held.id}:subagents:a"]
    assert ids(listed(stage, "alex", parent=held.id)) == [unit]


# lists


@pytest.fixture(scope="module")
def crowd(stage: Stage) -> None:
    """Units of every owner, those that Robin sees and others between them."""
    for number in range(4):
        held = stage.running()
        entry = {"name": "x", "state": "paused" if number % 2 else "running"}
        units = dict.fromkeys("ab", entry)
        patch(stage, held, subagents=units, jobs=units, workflows={"w": entry})
        stage.registered(user_id="robin")
        stage.registered()
        publish(stage, parent=held.id, source="core_job", state="paused" if number % 2 else "running")
        publish(stage)
        if number == 1:
            body = {"state": "completed", "summary": "12 files."}
            stage.as_("lotse").call("finishRun", body, headers=held.headers, run_id=held.id).ok()


@pytest.mark.parametrize("limit", [1, 2, 5, 7])
def test_pages_hold_each_unit_once(stage: Stage, crowd: None, limit: int) -> None:
    whole = ids(listed(stage, "robin"))
    assert len(set(whole)) == len(whole) >= 4 * 8
    assert ids(listed(stage, "robin", limit)) == whole


def test_filters_are_what_one_would_sort_out_oneself(stage: Stage, crowd: None) -> None:
    whole = listed(stage, "robin")
    for source in ("direct", "workflow", "fleet", "core_job", "task"):
        wanted = [item for item in whole if item["source"] == source]
        assert wanted
        assert listed(stage, "robin", source=source) == wanted
        assert listed(stage, "robin", 2, source=source, active="true") == [
            item for item in wanted if item["state"] not in ("paused", "terminal")
        ]
    for active in ("true", "false"):
        wanted = [item for item in whole if (item["state"] not in ("paused", "terminal")) == (active == "true")]
        assert listed(stage, "robin", 3, active=active) == wanted
    states = {item["state"] for item in whole}
    assert {"paused", "terminal", "running"} <= states


def test_what_comes_meanwhile_neither_hides_nor_repeats(stage: Stage, crowd: None) -> None:
    found: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    held = stage.running()
    patch(stage, held, subagents={"m": {"name": "x", "state": "running"}})
    before = ids(listed(stage, "robin"))
    while True:
        page = stage.as_("robin").call("listAgentRunSnapshots", query=query).ok()
        found += ids(page["items"])
        if "next_cursor" not in page:
            break
        query["cursor"] = page["next_cursor"]
        stage.registered(user_id="robin")
        publish(stage, parent=held.id)
        patch(stage, held, subagents={f"z{len(found)}": {"name": "x", "state": "running"}})
    assert [unit for unit in found if unit in before] == before
    assert len(set(found)) == len(found)


def test_a_page_is_read_in_few_statements(stage: Stage, crowd: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs with live content are on it."""
    readers = stage.live.app.database.readers
    called: list[str] = []
    call = readers.call

    async def counted(function: str, *rest: Any) -> Any:
        called.append(function)
        return await call(function, *rest)

    monkeypatch.setattr(readers, "call", counted)
    for _ in range(2):
        held = stage.running()
        step = stage.step(held)["id"]
        patch(stage, held, jobs={"a": {"name": "x", "state": "running", "step_id": step}})
    called.clear()
    page = stage.as_("robin").call("listAgentRunSnapshots", query={"limit": 30}).ok()
    assert len(page["items"]) == 30
    called = [function for function in called if function != "authenticate_token"]  # asked for again now and then
    assert len(called) <= 2, called


def test_a_page_that_looked_at_enough_goes_on(stage: Stage, crowd: None) -> None:
    """Bounded by what is examined, hidden or not; such a page may be short."""
    body = "FUNCTION livebox.scan_max() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS"
    (most,) = stage.sql("SELECT livebox.scan_max()")[0]
    before = ids(listed(stage, "robin"))
    stage.sql(f"CREATE OR REPLACE {body} 'SELECT 3::bigint'")
    try:
        found: list[str] = []
        query: dict[str, Any] = {"limit": 50}
        pages = 0
        while True:
            page = stage.as_("robin").call("listAgentRunSnapshots", query=query).ok()
            pages += 1
            found += ids(page["items"])
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
    finally:
        stage.sql(f"CREATE OR REPLACE {body} 'SELECT {most}::bigint'")
    assert found == before
    assert pages > 3
