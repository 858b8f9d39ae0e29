"""Spend is a ledger: counted once, never lost, never falling, exact under many writers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Stage
from tests.fixtures.wire import Answered, Wire, fresh

MOST = 2**53 - 1


def spend(stage: Stage, run_id: str, amount: int, by: str = "lotse", entry: str = "", **more: Any) -> Answered:
    """recordSpend in euros."""
    body = {"amount_micros": amount, "currency": "EUR", **more}
    return stage.as_(by).call("recordSpend", body, run_id=run_id, entry_id=entry or fresh())


def shown(stage: Stage, run_id: str) -> dict[str, Any]:
    """The run as an owner sees it."""
    found: dict[str, Any] = stage.as_(OWNER).call("getRun", run_id=run_id).ok()
    return found


def costs(*amounts: tuple[int, str, bool]) -> list[dict[str, Any]]:
    return [
        {"amount_micros": amount, "currency": currency, "is_estimate": estimate}
        for amount, currency, estimate in amounts
    ]


def test_a_repeat_is_counted_once_and_another_body_refused(stage: Stage) -> None:
    run = stage.registered(agents=["texter"])
    entry = fresh()
    first = spend(stage, run["id"], 5, "texter", entry, tokens=10).ok()
    assert first["agent_id"] == stage.id("texter")
    after = shown(stage, run["id"])
    assert (after["cost"], after["version"]) == (costs((5, "EUR", False))[0], 2)
    assert spend(stage, run["id"], 5, "texter", entry, tokens=10).ok() == first
    assert spend(stage, run["id"], 5, OWNER, entry, tokens=10, agent_id=stage.id("texter")).ok() == first
    for amount, by, more in ((6, "texter", {"tokens": 10}), (5, "texter", {}), (5, "lotse", {"tokens": 10})):
        refused = spend(stage, run["id"], amount, by, entry, **more).refused(409, "spend_id_reused")
        assert refused.body["current"]["state"] == "running"
    assert shown(stage, run["id"]) == after
    other = stage.registered()
    assert spend(stage, other["id"], 6, entry=entry).ok()["amount_micros"] == 6, "an id counts within its run"


def test_it_takes_the_place_of_a_cost_that_was_reported(stage: Stage) -> None:
    run = stage.registered()
    stage.as_("lotse").call("updateRun", {"cost_micros": 1000}, run_id=run["id"]).ok()
    spend(stage, run["id"], 7).ok()
    assert shown(stage, run["id"])["cost"] == costs((7, "EUR", False))[0]
    stage.as_("lotse").call("updateRun", {"cost_micros": 1000}, run_id=run["id"]).refused(409, "cost_owned_by_ledger")
    stage.as_("lotse").call("updateRun", {"cost_micros": 7, "steps": 3}, run_id=run["id"]).refused(
        409, "cost_owned_by_ledger"
    )
    assert "reported_steps" not in shown(stage, run["id"])


def test_currencies_are_not_mixed(stage: Stage) -> None:
    first = stage.registered()
    spend(stage, first["id"], 7).ok()
    spend(stage, first["id"], 7, currency="USD").refused(409, "currency_mismatch")
    budget = {"cost": {"amount_micros": 100, "currency": "CHF", "is_estimate": False}}
    second = stage.registered(budget=budget)
    spend(stage, second["id"], 7).refused(409, "currency_mismatch")
    assert "cost" not in shown(stage, second["id"])
    spend(stage, second["id"], 7, currency="CHF").ok()
    third = stage.registered(budget=budget)
    stage.as_("lotse").call("updateRun", {"cost_micros": 9}, run_id=third["id"]).ok()
    assert shown(stage, third["id"])["cost"] == costs((9, "CHF", True))[0]
    children = [stage.registered(parent_run_id=first["id"])["id"] for _ in range(2)]
    spend(stage, children[0], 1, currency="USD").ok()
    spend(stage, children[1], 2, currency="USD").ok()
    found = stage.as_(OWNER).call("getRunSpend", run_id=first["id"]).ok()
    assert found["own"]["costs"] == costs((7, "EUR", False))
    assert found["subtree"]["costs"] == costs((7, "EUR", False), (3, "USD", False))


def test_whose_spend_it_is(stage: Stage) -> None:
    stage.principal("service", "payer")
    run = stage.registered("payer", agents=["texter"])
    refused = spend(stage, run["id"], 5, "payer").refused(400, "validation_failed")
    assert refused.errors() == [("required", "/agent_id")]
    for who, code in (
        ("assistent", "unknown_reference"),
        ("alex", "unknown_reference"),
        ("payer", "unknown_reference"),
    ):
        refused = spend(stage, run["id"], 5, "payer", agent_id=stage.id(who)).refused(400, "validation_failed")
        assert refused.errors() == [(code, "/agent_id")]
    refused = spend(stage, run["id"], 5, "texter", agent_id=stage.id("lotse")).refused(400, "validation_failed")
    assert refused.errors() == [("not_allowed_value", "/agent_id")]
    spend(stage, run["id"], 5, "payer", agent_id=stage.id("texter")).ok()
    spend(stage, run["id"], 5, "texter", agent_id=stage.id("texter")).ok()
    spend(stage, run["id"], 5, OWNER).refused(403, "forbidden")
    spend(stage, run["id"], 5, "assistent").refused(404, "not_found")
    assert shown(stage, run["id"])["cost"]["amount_micros"] == 10


@pytest.mark.parametrize(
    ("raw", "code", "pointer"),
    [
        ('{"amount_micros": -1, "currency": "EUR"}', "out_of_range", "/amount_micros"),
        ('{"amount_micros": -0.0, "currency": "EUR"}', "", ""),
        ('{"amount_micros": 0.5, "currency": "EUR"}', "", ""),
        ('{"amount_micros": "1", "currency": "EUR"}', "wrong_type", "/amount_micros"),
        ('{"amount_micros": 1e308, "currency": "EUR"}', "", ""),
        ('{"amount_micros": NaN, "currency": "EUR"}', "", ""),
        ('{"amount_micros": 9007199254740992, "currency": "EUR"}', "", ""),
        ('{"amount_micros": true, "currency": "EUR"}', "wrong_type", "/amount_micros"),
        ('{"amount_micros": null, "currency": "EUR"}', "null_not_allowed", "/amount_micros"),
        ('{"amount_micros": 1}', "required", "/currency"),
        ('{"amount_micros": 1, "currency": "eur"}', "pattern_mismatch", "/currency"),
        ('{"amount_micros": 1, "currency": "EUR", "tokens": -1}', "out_of_range", "/tokens"),
        ('{"amount_micros": 1, "currency": "EUR", "tokens": 1.5}', "", ""),
        ('{"amount_micros": 1, "currency": "EUR", "late": true}', "unknown_field", "/late"),
        ('{"amount_micros": 1, "currency": "EUR", "id": "x"}', "unknown_field", "/id"),
    ],
)
def test_what_is_no_amount_is_refused(stage: Stage, raw: str, code: str, pointer: str) -> None:
    run = stage.registered()
    answer = stage.as_("lotse").call("recordSpend", raw=raw.encode(), run_id=run["id"], entry_id=fresh())
    assert answer.status == 400
    assert answer.code in ("validation_failed", "invalid_json")
    if code:
        assert answer.errors() == [(code, pointer)]
    else:
        assert answer.errors(), "it says where"
    assert shown(stage, run["id"]) == run


def test_a_sum_that_cannot_be_kept_is_refused(stage: Stage) -> None:
    run = stage.registered()
    spend(stage, run["id"], MOST - 5, tokens=MOST).ok()
    assert spend(stage, run["id"], 6).refused(400, "validation_failed").errors() == [("out_of_range", "/amount_micros")]
    assert spend(stage, run["id"], 5, tokens=1).refused(400, "validation_failed").errors() == [
        ("out_of_range", "/tokens")
    ]
    spend(stage, run["id"], 5, tokens=0).ok()
    assert shown(stage, run["id"])["cost"]["amount_micros"] == MOST
    child = stage.registered(parent_run_id=run["id"])
    spend(stage, child["id"], MOST).ok()
    total = stage.as_(OWNER).call("getRunSpend", run_id=run["id"]).ok()["subtree"]
    assert total["costs"][0]["amount_micros"] == MOST, "as much as can be said"


@pytest.mark.parametrize("kind", ["cost", "tokens", "steps", "reported steps"])
def test_the_entry_that_reaches_the_budget_ends_the_run(stage: Stage, kind: str) -> None:
    budget: dict[str, Any] = {"steps": 10} if "steps" in kind else {"tokens": 10}
    if kind == "cost":
        budget = {"cost": {"amount_micros": 10, "currency": "EUR", "is_estimate": False}}
    run = stage.registered(agents=["texter"], budget=budget)

    def use(amount: int, by: str) -> None:
        if kind == "steps":
            for _ in range(amount):
                body = {"kind": "tool", "name": "x"}
                stage.as_(by).call("recordRunStep", body, run_id=run["id"], step_id=fresh()).ok()
        elif kind == "reported steps":
            stage.as_(by).call("updateRun", {"steps": amount}, run_id=run["id"]).ok()
        else:
            spend(stage, run["id"], *((amount, by) if kind == "cost" else (0, by)), tokens=amount).ok()

    use(4, "lotse")
    use(5, "texter")
    assert shown(stage, run["id"])["state"] == "running", "9 of 10"
    use(1 if kind != "reported steps" else 6, "texter")
    ended = shown(stage, run["id"])
    assert (ended["state"], ended["state_reason"]) == ("failed", "budget_exhausted")
    ((actor,),) = stage.sql("SELECT state_changed_by FROM livebox.runs WHERE id = %s", run["id"])
    assert actor is None, "the server ended it"
    assert all(step["status"] != "running" for step in ended.get("steps", {}).values())
    late = spend(stage, run["id"], 3, "texter", tokens=3).ok()
    assert late["late"] is True
    assert shown(stage, run["id"])["state"] == "failed"


def test_a_count_of_steps_that_comes_with_a_status_reaches_the_budget_too(stage: Stage) -> None:
    for state, to in (("queued", "running"), ("running", "waiting_input")):
        run = stage.registered(state=state, budget={"steps": 3})
        told = stage.as_("lotse").call("updateRun", {"status": to, "steps": 3}, run_id=run["id"]).ok()
        assert (told["state"], told["state_reason"]) == ("failed", "budget_exhausted")
        assert told == shown(stage, run["id"])
        states = [
            event["state"]
            for (event,) in stage.sql(
                "SELECT payload->'run' FROM livebox.events WHERE resource_id = %s AND type = 'run.state_changed'"
                " ORDER BY seq",
                run["id"],
            )
        ]
        assert states == [state, to, "failed"]
    run = stage.registered(budget={"steps": 3})
    done = stage.as_("lotse").call("updateRun", {"status": "completed", "steps": 3}, run_id=run["id"]).ok()
    assert done["state"] == "completed", "it ended before it could be exhausted"


def test_the_step_that_reaches_the_budget_is_told_as_the_end_left_it(stage: Stage) -> None:
    run = stage.registered(budget={"steps": 1})
    step = {"run_id": run["id"], "step_id": fresh()}
    told = stage.as_("lotse").call("recordRunStep", {"kind": "tool", "name": "x"}, **step).ok()
    assert told["status"] == "failed"
    assert told == shown(stage, run["id"])["steps"][step["step_id"]]


@pytest.mark.parametrize("bound", ["cost", "tokens"])
def test_twenty_spenders_at_once_end_it_exactly_once(twins: tuple[Stage, Stage], bound: str) -> None:
    """Over two servers: the sum is exact, the run ends with the entry that reaches the budget and with no other."""
    stage = twins[0]
    cost = {"amount_micros": 1000, "currency": "EUR", "is_estimate": False}
    run = stage.registered(agents=["texter"], budget={"cost": cost} if bound == "cost" else {"tokens": 1000})
    entries = [(fresh(), 7 * (number % 5) + 1) for number in range(200)]
    tokens = {who: stage.live.issue(who) for who in ("lotse", "texter")}

    def spender(number: int) -> list[tuple[bool, int]]:
        who = ("lotse", "texter")[number % 2]
        found = []
        with Wire(twins[number // 2 % 2].live.port, tokens[who]) as wire:
            for entry, amount in entries[number * 10 : number * 10 + 10]:
                body = {"amount_micros": amount, "currency": "EUR", "tokens": amount}
                where = {"run_id": run["id"], "entry_id": entry}
                first = wire.call("recordSpend", body, **where).ok()
                assert wire.call("recordSpend", body, **where).ok() == first
                found.append((first.get("late", False), amount))
        return found

    with ThreadPoolExecutor(20) as pool:
        made = [one for found in pool.map(spender, range(20)) for one in found]
    ended = shown(stage, run["id"])
    before = sum(amount for late, amount in made if not late)
    assert (ended["state"], ended["state_reason"]) == ("failed", "budget_exhausted")
    assert ended["cost"]["amount_micros"] == sum(amount for _, amount in entries)
    rows = stage.sql(
        "SELECT amount_micros, late FROM livebox.run_spend WHERE run_id = %s ORDER BY recorded_at, late", run["id"]
    )
    last = [amount for amount, late in rows if not late][-1]
    assert before - last < 1000 <= before, "the entry that reached it was the last that was in time"
    totals = stage.as_(OWNER).call("getRunSpend", run_id=run["id"]).ok()
    assert totals["own"]["entries"] == 200
    assert totals["own"]["tokens"] == sum(amount for _, amount in entries)
    types = [
        type_
        for (type_,) in stage.sql("SELECT type FROM livebox.events WHERE resource_id = %s ORDER BY seq", run["id"])
    ]
    assert types.count("run.state_changed") == 2
    assert types.count("run.changed") == 200, "each entry is told"


def test_spend_at_and_after_an_end(stage: Stage) -> None:
    for body in (
        {"status": "failed", "halt_reason": "runtime_error"},
        {"status": "cancelled"},
        {"status": "completed"},
    ):
        run = stage.registered()
        entry = fresh()
        assert "late" not in spend(stage, run["id"], 4, entry=entry).ok()
        ended = stage.as_("lotse").call("updateRun", body, run_id=run["id"]).ok()
        assert ended["cost"]["amount_micros"] == 4
        assert "late" not in spend(stage, run["id"], 4, entry=entry).ok(), "the same once more"
        assert shown(stage, run["id"]) == ended
        spend(stage, run["id"], 3).ok()
        after = shown(stage, run["id"])
        assert after["cost"]["amount_micros"] == 7
        assert {**after, "cost": 0, "version": 0} == {**ended, "cost": 0, "version": 0}
        events = stage.sql(
            "SELECT type, payload FROM livebox.events WHERE resource_id = %s ORDER BY seq DESC LIMIT 1", run["id"]
        )
        assert [(kind, payload["run"]["cost"]["amount_micros"]) for kind, payload in events] == [("run.changed", 7)]


def line(found: Sequence[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The one of them with these members."""
    (one,) = (entry for entry in found if wanted.items() <= entry.items())
    return one


def test_a_tree_is_added_up_by_agent_and_by_dimension(stage: Stage) -> None:
    top = stage.registered(agents=["texter"], user_dims={"team": "support", "tier": "gold"})
    child = stage.registered(parent_run_id=top["id"], agent="texter", user_dims={"team": "support"})
    grandchild = stage.registered(parent_run_id=child["id"], agents=["texter"], user_dims={"team": "sales"})
    reported = stage.registered(parent_run_id=child["id"], agent="assistent", user_dims={"team": "sales"})
    stage.registered(parent_run_id=child["id"])
    spend(stage, top["id"], 100, tokens=10).ok()
    spend(stage, top["id"], 20, "texter").ok()
    spend(stage, child["id"], 3, "texter", tokens=5).ok()
    spend(stage, grandchild["id"], 4000, tokens=1).ok()
    spend(stage, grandchild["id"], 50_000, "texter").ok()
    stage.as_("assistent").call("updateRun", {"cost_micros": 9}, run_id=reported["id"]).ok()
    found = stage.as_(OWNER).call("getRunSpend", run_id=top["id"]).ok()
    assert found["own"] == {"runs": 1, "entries": 2, "tokens": 10, "costs": costs((120, "EUR", False))}
    assert found["subtree"] == {
        "runs": 5, "entries": 5, "tokens": 16, "costs": costs((54_123, "EUR", False), (9, "USD", True)),
    }  # fmt: skip
    lotse = line(found["agents"], agent_id=stage.id("lotse"))
    assert lotse["own"]["costs"] == costs((100, "EUR", False))
    assert lotse["subtree"] == {"runs": 2, "entries": 2, "tokens": 11, "costs": costs((4100, "EUR", False))}
    texter = line(found["agents"], agent_id=stage.id("texter"))
    assert texter["own"] == {"runs": 1, "entries": 1, "costs": costs((20, "EUR", False))}
    assert texter["subtree"]["costs"] == costs((50_023, "EUR", False))
    assistent = line(found["agents"], agent_id=stage.id("assistent"))
    assert assistent == {
        "agent_id": stage.id("assistent"), "subtree": {"runs": 1, "entries": 0, "costs": costs((9, "USD", True))},
    }  # fmt: skip
    assert line(found["dimensions"], name="tier", value="gold")["subtree"] == found["own"]
    assert line(found["dimensions"], name="team", value="support")["subtree"]["costs"] == costs((123, "EUR", False))
    sales = line(found["dimensions"], name="team", value="sales")
    assert "own" not in sales
    assert sales["subtree"]["costs"] == costs((54_000, "EUR", False), (9, "USD", True))
    below = stage.as_(OWNER).call("getRunSpend", run_id=child["id"]).ok()
    assert (below["own"]["costs"], below["subtree"]["runs"]) == (costs((3, "EUR", False)), 4)


def test_what_one_may_not_see_is_not_counted(stage: Stage) -> None:
    stage.principal("service", "counter")
    top = stage.registered("counter", agents=["texter"])
    hidden = stage.registered(parent_run_id=top["id"], agent="assistent")
    under = stage.registered(parent_run_id=hidden["id"])
    for run, by, amount in ((top, "lotse", 1), (hidden, "assistent", 10), (under, "lotse", 100)):
        spend(stage, run["id"], amount, by).ok()
    seen = {
        who: stage.as_(who).call("getRunSpend", run_id=top["id"]).ok()["subtree"]["costs"][0]["amount_micros"]
        for who in ("counter", "lotse", "texter", OWNER)
    }
    assert seen == {"counter": 1, "lotse": 1, "texter": 1, OWNER: 111}


def test_a_chat_run_has_a_cost_and_no_ledger(stage: Stage) -> None:
    held = stage.running()
    money = {"amount_micros": 11, "currency": "EUR", "is_estimate": True}
    stage.as_("lotse").call(
        "finishRun", {"state": "completed", "cost": money}, headers=held.headers, run_id=held.id
    ).ok()
    found = stage.as_("alex").call("getRunSpend", run_id=held.id).ok()
    assert found["own"] == {"runs": 1, "entries": 0, "costs": [money]}
    spend(stage, held.id, 5).refused(404, "not_found")
    none = stage.as_("alex").call("getRunSpend", run_id=stage.queued()["id"]).ok()
    assert json.loads(json.dumps(none))["own"] == {"runs": 1, "entries": 0}
    assert "agents" not in none
