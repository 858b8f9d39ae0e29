"""Any history, clobbered in any way, comes out as it was registered; any bytes are told line by line."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from livebox.importing.findings import RESOLVED, UNRESOLVED
from tests.importing.tables import AGENTS, START, Import, Server, lines, registration, row, run_id

NAMES = st.sampled_from(sorted(AGENTS))
TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
COUNTS = st.integers(0, 2**40)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Registrations, and of each the row that the last of its reporters left, as far as it left anything."""
    registrations, rows = [], []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        agent, agents = draw(NAMES), draw(st.lists(NAMES, unique=True, max_size=3))
        dims = draw(st.dictionaries(st.sampled_from(["team", "user", "cost_centre"]), TEXTS, min_size=1))
        parent = draw(st.none() | st.integers(1, 6).filter(lambda parent, number=number: parent < number))
        registrations.append(
            registration(
                number,
                agent=agent,
                agents=[name for name in agents if name != agent],
                user_dims=dims,
                parent_run_id=None if parent is None else run_id(parent),
            )
        )
        kept = {name: value for name, value in dims.items() if draw(st.booleans())}
        later = draw(st.sampled_from([START, "2026-11-02T09:20:00Z", None]))
        status = draw(st.sampled_from(["completed", "failed", "cancelled", "running"]))
        last = row(
            number,
            agent=draw(st.sampled_from([agent, *agents])),
            **{"user_dims": kept, "started_at": later, "status": status, "steps": draw(COUNTS)},
            ended_at=None if status == "running" else "2026-11-02T09:30:00Z",
            cost_micros=draw(st.none() | COUNTS),
        )
        if draw(st.integers(0, 5)):
            rows.append(last)
    random.Random(draw(st.integers())).shuffle(registrations)
    return registrations, rows


@settings(max_examples=30, deadline=None)
@given(histories())
def test_what_was_registered_holds_whatever_the_rows_lost(history: Any) -> None:
    registrations, rows = history
    server = Server()
    moved = Import(lines(registrations), lines(rows))
    written = asyncio.run(moved.to(server))
    assert all(finding.resolved for finding in moved.findings)
    assert len(written.registered) == len(registrations)
    place = {each: number for number, each in enumerate(written.registered)}
    by_id = {each["run_id"]: each for each in rows}
    for each in registrations:
        run = server.registry.runs[each["run_id"]]
        last = by_id.get(each["run_id"])
        assert (run["agent_id"], run["user_dims"]) == (AGENTS[each["agent"]], each["user_dims"])
        assert (run["task"], run["reported_started_at"]) == (each["task"], each["started_at"])
        if "parent_run_id" in each:
            assert place[each["parent_run_id"]] < place[each["run_id"]]
        if last is None:
            assert run["state"] == "running"
            continue
        assert run["state"] == last["status"]
        assert list(run["reported_steps"].values()) == [last["steps"]]
        told = {finding.kind for finding in moved.findings if finding.run_id == each["run_id"]}
        assert ("wiped_dimensions" in told) == (last["user_dims"] != each["user_dims"])
        assert ("leaf_agent" in told) == (last["agent"] != each["agent"])
        assert ("later_start" in told) == (last.get("started_at", START) != START)
        spent = server.registry.spend.get(each["run_id"], {})
        assert [entry["amount_micros"] for entry in spent.values()] == (
            [last["cost_micros"]] if "cost_micros" in last else []
        )
    before = json.dumps([server.registry.runs, server.registry.spend])
    again = asyncio.run(Import(lines(registrations), lines(rows)).to(server))
    assert json.dumps([server.registry.runs, server.registry.spend]) == before
    assert sorted(again.unchanged) == sorted(written.registered)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from([run_id(1), START, "lotse"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MEMBERS = st.sampled_from(sorted(registration(parent_run_id="x", budget={}) | row()))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.dictionaries(MEMBERS, VALUES) | st.binary(max_size=40), max_size=4),
    st.lists(st.dictionaries(MEMBERS, VALUES) | st.binary(max_size=40), max_size=4),
)
def test_no_line_goes_unsaid(first: list[Any], second: list[Any]) -> None:
    server = Server()
    files = [
        lines({"run_id": run_id(1), "agent": "lotse"} | each if isinstance(each, dict) else each for each in file)
        for file in (first, second)
    ]
    moved = Import(*files)
    written = asyncio.run(moved.to(server))
    assert set(moved.kinds) <= RESOLVED.keys() | UNRESOLVED.keys()
    assert server.registry.runs.keys() == set(written.registered)
    assert not moved.findings.held_back & server.registry.runs.keys()
    told = {finding.where for finding in moved.findings} | {each.where for each in moved.planned}
    told |= {each.where for each in moved.registrations if each.run_id in moved.findings.held_back}
    for number, line in enumerate(files[0].split(b"\n"), 1):
        if line.strip():
            assert f"registrations:{number}" in told
