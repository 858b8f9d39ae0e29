"""Patches: what is made from two documents leads from one to the other, and nothing else is touched."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livebox.client.document import Mismatch, apply, coarse, difference, members, without_empty
from livebox.live import patch as server
from livebox.live.patch import Limits

KEYS = st.sampled_from(["a", "0", "01", "-1", "b_c"])
TITLES = st.sampled_from(["", "One", "Two"])
NAMES = st.sampled_from(["One", "Two"])
LIMITS = Limits(128 * 1024, 16 * 1024, 64 * 1024, 100)
UNITS = st.dictionaries(
    KEYS,
    st.fixed_dictionaries(
        {"name": NAMES, "state": st.sampled_from(["running", "paused"])}, optional={"headline": NAMES}
    ),
    min_size=1,
    max_size=3,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "headline": NAMES,
        "text": st.fixed_dictionaries({"content": TITLES}, optional={"format": st.sampled_from(["plain", "markdown"])}),
        "waiting_on": st.sampled_from(["model", "tool"]),
        "plan": st.fixed_dictionaries(
            {
                "items": st.dictionaries(
                    KEYS,
                    st.fixed_dictionaries(
                        {"ordinal": st.integers(0, 3), "title": TITLES, "status": st.sampled_from(["pending", "done"])}
                    ),
                    min_size=1,
                    max_size=3,
                )
            }
        ),
        "subagents": UNITS,
        "metrics": st.fixed_dictionaries(
            {"context_used_percent": st.integers(0, 2)}, optional={"tool_calls": st.integers(0, 2)}
        ),
    },
)


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    for ops in (difference(old, new), coarse(old, new)):
        assert apply(old, ops) == new
    assert old == before
    assert (difference(old, new) == []) == (old == new)


@given(DOCUMENTS, DOCUMENTS)
def test_the_server_makes_the_same_of_it(old: dict[str, Any], new: dict[str, Any]) -> None:
    for ops in (difference(old, new), coarse(old, new)):
        applied = server.apply(old, server.read(ops), LIMITS, size=server.size_of(old), raw_size=1000)
        assert applied.members == new
        assert apply(old, applied.ops) == new  # what devices are told


def test_only_what_changed_is_sent() -> None:
    old = {"subagents": {"a": {"name": "A", "state": "running"}, "b": {"name": "B", "state": "running"}}}
    new = {"subagents": {"a": {"name": "A", "state": "terminal"}, "c": {"name": "C", "state": "queued"}}}
    assert difference(old, new) == [
        {"op": "replace", "path": "/subagents/a/state", "value": "terminal"},
        {"op": "remove", "path": "/subagents/b"},
        {"op": "add", "path": "/subagents/c", "value": {"name": "C", "state": "queued"}},
    ]


def test_the_servers_members_are_never_sent() -> None:
    assert difference({"state": "queued", "version": 1}, {"state": "running", "version": 2}) == []
    assert members({"state": "running", "headline": "Now"}) == {"headline": "Now"}


def test_containers_come_with_the_first_and_go_with_the_last() -> None:
    item = {"ordinal": 1, "title": "One", "status": "pending"}
    there = apply({}, [{"op": "add", "path": "/plan/items/one", "value": item}])
    assert there == {"plan": {"items": {"one": item}}}
    assert apply(there, [{"op": "remove", "path": "/plan/items/one"}]) == {}
    steps = apply({}, [{"op": "add", "path": "/steps/x", "value": {"status": "running"}}])
    assert steps == {"steps": {"x": {"status": "running"}}}


@pytest.mark.parametrize(
    "op",
    [
        {"op": "remove", "path": "/headline"},
        {"op": "replace", "path": "/headline", "value": "x"},
        {"op": "add", "path": "/tool/progress", "value": 0.5},
        {"op": "replace", "path": "/plan/items/a/status", "value": "done"},
        {"op": "add", "path": "/text/content/more", "value": ""},
        {"op": "add", "path": "", "value": {}},
    ],
)
def test_what_does_not_fit_is_said(op: Any) -> None:
    document = {"text": {"content": "x"}}
    with pytest.raises(Mismatch):
        apply(document, [{"op": "add", "path": "/waiting_on", "value": "tool"}, op])
    assert document == {"text": {"content": "x"}}


def test_empty_containers_are_not_kept() -> None:
    document: dict[str, Any] = {"plan": {"items": {}}, "metrics": {}, "subagents": {}, "headline": "x"}
    without_empty(document)
    assert document == {"headline": "x"}
