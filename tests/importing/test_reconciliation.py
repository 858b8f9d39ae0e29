"""Each incoherence of the two tables: what is told of it, and what the server has afterwards."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from livebox.client import Problem
from livebox.importing.findings import RESOLVED, UNRESOLVED
from livebox.importing.records import derived
from tests.client.fake_runs import problem
from tests.importing.tables import AGENTS, START, Import, Server, lines, registration, row, run_id

ROOT = Path(__file__).resolve().parents[2]
ONE = run_id(1)
ALONE = {"agents": None}
LATER = "2026-11-02T09:20:00Z"

# kind -> registrations, run rows, and what else is told
CASES: dict[str, tuple[list[Any], list[Any], set[str]]] = {
    "wiped_dimensions": ([registration(**ALONE)], [row(user_dims={"team": "sales"})], set()),
    "leaf_agent": ([registration(agents=None)], [row(agent="texter")], {"one_agents_steps"}),
    "later_start": ([registration(**ALONE)], [row(started_at=LATER)], set()),
    "start_from_row": ([registration(**ALONE, started_at=None)], [row()], set()),
    "one_agents_steps": ([registration()], [row()], set()),
    "reporter_added": ([registration(agents=["assistent"])], [row(agent="texter")], {"leaf_agent", "one_agents_steps"}),
    "no_registration": ([], [row()], set()),
    "no_run_row": ([registration()], [], set()),
    "parent_after_child": (
        [registration(1, **ALONE, parent_run_id=run_id(2)), registration(2, **ALONE)],
        [row(1), row(2)],
        set(),
    ),
    "duplicate_line": ([registration(**ALONE)] * 2, [row()] * 2, set()),
    "overwritten_row": ([registration(**ALONE)], [row(steps=1), row(steps=2)], set()),
    "conflicting_ends": ([registration()], [row(), row(agent="texter", status="cancelled")], {"leaf_agent"}),
    "end_without_reason": ([registration(**ALONE)], [row(status="failed")], set()),
    "tokens_without_cost": ([registration(**ALONE)], [row(cost_micros=None)], set()),
    "dimension_as_text": (
        [registration(**ALONE, user_dims={"floor": 3})],
        [row(user_dims={"floor": "3"})],
        set(),
    ),
    "time_without_offset": ([registration(**ALONE)], [row(started_at="2026-11-02T09:00:00")], set()),
    "foreign_id": ([registration(**ALONE, run_id="nightly-7")], [row(run_id="nightly-7")], set()),
    "unknown_member": ([registration(**ALONE, colour="red")], [row()], set()),
    "bad_json": ([registration(**ALONE), b'{"run_id": '], [row()], set()),
    "bad_value": ([registration(**ALONE)], [row(steps=-1)], set()),
    "bad_currency": ([registration(**ALONE)], [row(currency="euro")], set()),
    "unknown_status": ([registration(**ALONE)], [row(status="finished")], set()),
    "end_unclear": ([registration(**ALONE)], [row(status="running")], set()),
    "unknown_agent": ([registration(**ALONE, agent="nobody")], [], {"no_run_row"}),
    "conflicting_registrations": ([registration(**ALONE), registration(**ALONE, task="Another.")], [row()], set()),
    "external_id_twice": (
        [registration(1, **ALONE, external_id="a"), registration(2, **ALONE, external_id="a")],
        [row(1), row(2)],
        set(),
    ),
    "parent_missing": ([registration(**ALONE, parent_run_id=run_id(9))], [row()], set()),
    "parent_cycle": (
        [registration(1, **ALONE, parent_run_id=run_id(2)), registration(2, **ALONE, parent_run_id=run_id(1))],
        [row(1), row(2)],
        set(),
    ),
    "parent_held_back": (
        [registration(1, **ALONE), registration(2, **ALONE, parent_run_id=ONE)],
        [row(1, steps=-1), row(2)],
        {"bad_value"},
    ),
    "maybe_unreadable": ([registration()], [b"{"], {"bad_json"}),
}
# These need a server that has something already, and have tests of their own.
OF_THE_SERVER = {"differs_on_server", "ended_otherwise", "refused", "moved_on"}


def test_every_kind_has_a_case_and_stands_in_the_page() -> None:
    assert CASES.keys() | OF_THE_SERVER == RESOLVED.keys() | UNRESOLVED.keys()
    page = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", page[page.index("## What it resolves") :], re.MULTILINE))
    assert told == {**RESOLVED, **UNRESOLVED}


@pytest.mark.parametrize("kind", CASES)
async def test_it_is_told_and_nothing_else_is(kind: str) -> None:
    registrations, rows, more = CASES[kind]
    server = Server()
    once = Import(lines(registrations), lines(rows))
    written = await once.to(server)
    assert set(once.kinds) == {kind, *more}
    held = any(name in UNRESOLVED for name in {kind, *more} - {"bad_json"})
    if kind == "parent_after_child":
        assert written.registered == [run_id(2), run_id(1)]
    elif held or kind == "no_registration":
        assert server.registry.runs == {}
    else:
        assert len(written.registered) == 1
    before = json.dumps([server.registry.runs, server.registry.spend])
    again = await Import(lines(registrations), lines(rows)).to(server)
    assert json.dumps([server.registry.runs, server.registry.spend]) == before
    assert (again.registered, again.completed) == ([], [])
    assert len(again.unchanged) == len(written.registered)


async def test_two_agents_that_overwrote_each_other_come_out_as_registered() -> None:
    """The row that the second of two agents left: its name, its start, its steps, without the dimensions."""
    server = Server()
    clobbered = row(agent="texter", user_dims={}, started_at=LATER, steps=3, cost_micros=130000, tokens=1400)
    moved = Import(lines([registration(budget={"tokens": 10000})]), lines([clobbered]))
    await moved.to(server)
    assert moved.kinds == ["wiped_dimensions", "later_start", "leaf_agent", "one_agents_steps"]
    run = server.registry.runs[ONE]
    assert (run["agent_id"], run["agents"]) == (AGENTS["lotse"], [AGENTS["lotse"], AGENTS["texter"]])
    assert run["user_dims"] == {"team": "support", "user": "alex"}
    assert (run["reported_started_at"], run["task"], run["state"]) == (START, "Write it up.", "completed")
    (entry,) = server.registry.spend[ONE].values()
    assert (entry["agent_id"], entry["amount_micros"], entry["tokens"]) == (AGENTS["texter"], 130000, 1400)
    (event,) = run["governance_events"]
    assert event == {
        **{"kind": "livebox.import", "agent_id": AGENTS["texter"], "agent": "texter", "steps": 3},
        **{"tokens": 1400, "started_at": LATER},
    }


async def test_rows_of_both_are_added_up() -> None:
    server = Server()
    rows = [row(), row(agent="texter", status="running", ended_at=None, steps=3, cost_micros=130000, tokens=1400)]
    moved = Import(lines([registration()]), lines(rows))
    await moved.to(server)
    assert moved.kinds == ["leaf_agent"]
    run = server.registry.runs[ONE]
    assert (run["state"], list(run["reported_steps"].values())) == ("completed", [7])
    assert run["cost"]["amount_micros"] == 430000


async def test_an_import_that_broke_off_goes_on_anywhere() -> None:
    whole = Server()
    files = lines([registration(1), registration(2, parent_run_id=ONE)]), lines([row(1), row(2, status="failed")])
    await Import(*files).to(whole)
    for calls in range(1, 12):
        server = Server()
        left = calls

        def broken(name: str, server: Server = server) -> Any:
            original = getattr(server, name)

            async def call(*arguments: Any, **more: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    raise ConnectionError
                return await original(*arguments, **more)

            return call

        names = ("register_run", "update_run", "record_spend")
        for name in names:
            setattr(server, name, broken(name))
        with pytest.raises(ConnectionError) if calls < 8 else nullcontext():
            await Import(*files).to(server)
        for name in names:
            delattr(server, name)
        await Import(*files).to(server)
        assert server.registry.runs == whole.registry.runs
        assert server.registry.spend == whole.registry.spend


async def test_a_run_that_is_something_else_on_the_server_is_left_alone() -> None:
    server = Server()
    await Import(lines([registration(task="Another.", agents=None)]), lines([row()])).to(server)
    before = json.dumps(server.registry.runs)
    moved = Import(lines([registration()]), lines([row(steps=9)]))
    await moved.to(server)
    (finding,) = [each for each in moved.findings if not each.resolved]
    assert (finding.kind, finding.text) == ("differs_on_server", "task, agents")
    assert json.dumps(server.registry.runs) == before


async def test_a_run_that_ended_in_another_way_is_left_alone() -> None:
    server = Server()
    await Import(lines([registration(**ALONE)]), lines([row()])).to(server)
    moved = Import(lines([registration(**ALONE)]), lines([row(status="cancelled")]))
    await moved.to(server)
    assert moved.kinds == ["ended_otherwise"]
    assert server.registry.runs[ONE]["state"] == "completed"


async def test_a_run_that_went_on_stays_as_it_is() -> None:
    server = Server()
    active = row(status="running", ended_at=None)
    await Import(lines([registration(**ALONE)]), lines([active])).to(server)
    await server.update_run(ONE, {"status": "completed"})
    moved = Import(lines([registration(**ALONE)]), lines([active]))
    assert (await moved.to(server)).unchanged == [ONE]
    assert moved.kinds == ["moved_on"]
    assert server.registry.runs[ONE]["state"] == "completed"


async def test_what_the_server_refuses_is_told_and_holds_back_what_is_below() -> None:
    server = Server()
    await Import(lines([registration(5, **ALONE)]), lines([row(5)])).to(server)
    entry_id = next(iter(server.registry.spend[run_id(5)]))
    files = lines([registration(5, **ALONE)]), lines([row(5, cost_micros=1)])
    moved = Import(*files)
    await moved.to(server)
    assert moved.kinds == ["refused"]
    assert server.registry.spend[run_id(5)][entry_id]["amount_micros"] == 300000

    async def refuse(request: Any) -> Any:
        raise Problem.of(403, problem(403, "forbidden"))

    server.register_run = refuse  # type: ignore[method-assign]
    below = Import(
        lines([registration(1, **ALONE), registration(2, **ALONE, parent_run_id=ONE)]), lines([row(1), row(2)])
    )
    await below.to(server)
    assert below.kinds == ["refused", "parent_held_back"]


async def test_a_child_waits_for_its_parent_however_long_that_takes() -> None:
    server = Server()
    register = server.register_run

    async def slow_above(request: Any) -> Any:
        for _ in range(0 if "parent_run_id" in request else 50):
            await asyncio.sleep(0)
        return await register(request)

    server.register_run = slow_above  # type: ignore[method-assign]
    family = [registration(1, **ALONE), registration(2, **ALONE, parent_run_id=ONE), registration(3, **ALONE)]
    moved = Import(lines(family), lines([row(1), row(2), row(3)]))
    assert len((await moved.to(server)).registered) == 3
    assert moved.kinds == []


@pytest.mark.parametrize("name", ["cost_micros", "tokens"])
def test_a_sum_that_cannot_be_kept_holds_its_run_back(name: str) -> None:
    rows = [row(**{name: 2**52}), row(agent="texter", **{name: 2**52})]
    assert "bad_value" in Import(lines([registration()]), lines(rows)).kinds
    assert "bad_value" not in Import(lines([registration()]), lines(rows[:1])).kinds


async def test_words_of_others_mean_states_and_unreported_runs_become_what_is_asked() -> None:
    server = Server()
    moved = Import(lines([registration(**ALONE)]), lines([row(status="done")]), meanings={"done": "completed"})
    await moved.to(server)
    await Import(lines([registration(2)]), b"", unreported="queued").to(server)
    skipped = await Import(lines([registration(3)]), b"", unreported="skip").to(server)
    assert [run["state"] for run in server.registry.runs.values()] == ["completed", "queued"]
    assert skipped.registered == []


async def test_a_parent_that_the_server_has_will_do() -> None:
    server = Server()
    await Import(lines([registration(1, **ALONE)]), lines([row(1)])).to(server)
    moved = Import(lines([registration(2, **ALONE, parent_run_id=ONE)]), lines([row(2)]))
    assert (await moved.to(server)).registered == [run_id(2)]
    assert moved.kinds == []


async def test_ids_of_other_schemes_are_the_same_every_time_and_are_kept() -> None:
    server = Server()
    named = [registration(**ALONE, run_id="nightly-7"), registration(2, **ALONE, parent_run_id="nightly-7")]
    await Import(lines(named), lines([row(run_id="nightly-7"), row(2)])).to(server)
    assert server.registry.runs[derived("nightly-7")]["external_id"] == "nightly-7"
    assert server.registry.runs[run_id(2)]["parent_run_id"] == derived("nightly-7")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[]", "no object"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1, "a": 2}', "a member stands twice"),
        (b'{"a": "\\u0000"}', "text with NUL or half a character"),
        (b'{"a": "\\ud800"}', "text with NUL or half a character"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper than 64"),
        (b"[" * 200_000, "nested too deep or a number too long"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "nested too deep or a number too long"),
        (b'{"a": \xff}', "no UTF-8"),
        (b'{"a" 1}', "Expecting ':' delimiter at column 6"),
        (b'{"a": "' + b"x" * (4 << 20) + b'"}', "longer than 4194304 bytes"),
    ],
)
def test_what_is_no_json_is_named_by_its_line_and_the_next_one_is_read(line: bytes, why: str) -> None:
    moved = Import(b"\n".join([lines([registration(2)]).strip(), b"", line, lines([registration()])]), b"")
    (finding,) = [each for each in moved.findings if each.kind == "bad_json"]
    assert (finding.where, finding.text) == ("registrations:3", why)
    assert [each.run_id for each in moved.registrations] == [run_id(2), ONE]


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": -1},
        {"steps": 1.5},
        {"steps": True},
        {"steps": "4"},
        {"steps": 2**53},
        {"cost_micros": -1},
        {"tokens": 2**60},
        {"ended_at": "yesterday"},
        {"user_dims": {"team": ["a"]}},
        {"user_dims": "support"},
        {"governance_events": ["halt"]},
        {"agent": None},
        {"status": None},
        {"detector": "x" * 5000},
    ],
)
async def test_a_bad_value_holds_its_run_back(wrong: dict[str, Any]) -> None:
    server = Server()
    moved = Import(lines([registration(**ALONE)]), lines([row(**wrong)]))
    await moved.to(server)
    assert "bad_value" in moved.kinds
    assert server.registry.runs == {}


def test_an_absent_value_may_stand_as_null() -> None:
    moved = Import(b'{"run_id": "%s", "agent": "lotse", "task": null}' % ONE.encode(), lines([row()]))
    assert "bad_value" not in moved.kinds
    assert "task" not in moved.planned[0].registration


def test_currencies_are_not_mixed() -> None:
    budget = {"cost_micros": 5, "currency": "USD"}
    against = Import(lines([registration(**ALONE, budget=budget)]), lines([row()]))
    both = Import(lines([registration()]), lines([row(), row(agent="texter", currency="USD")]))
    assert "bad_currency" in against.kinds
    assert "bad_currency" in both.kinds
