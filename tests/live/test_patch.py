"""Patches, without a server: what is allowed, in which order it is judged, and what comes out."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated.patchable_paths import PATCHABLE
from generated.validators import checker
from livebox.live.difference import difference, same
from livebox.live.patch import Applied, Limits, PatchRefused, apply, read, size_of
from tests.live.documents import TIME, places, pointer, rfc6902, some, values

ROOMY = Limits(1 << 20, 1 << 16, 1 << 20, 1000)
UNIT = {"name": "child", "state": "running"}
ITEM = {"ordinal": 1, "title": "Look", "status": "pending"}
FULL = {
    "headline": "Working",
    "text": {"content": "Once"},
    "tool": {"name": "read"},
    "plan": {"items": {"a": ITEM}},
    "subagents": {"one": UNIT},
    "metrics": {"tool_calls": 1},
}


def patched(members: dict[str, Any], *ops: dict[str, Any], limits: Limits = ROOMY, raw_size: int = 0) -> Applied:
    before = copy.deepcopy(members)
    try:
        return apply(members, read(ops), limits, size=size_of(members), raw_size=raw_size or len(json.dumps(ops)))
    finally:
        assert members == before, "the content that others hold was changed"


def refused(members: dict[str, Any], *ops: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(PatchRefused) as caught:
        patched(members, *ops, **more)
    return [(error.code, error.name) for error in caught.value.errors] or [(caught.value.code, "")]


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


# --- what may be touched ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/", "headline", "/state", "/version", "/steps", "/steps/x", "/question/prompt"])
def test_what_the_server_owns_is_not_patched(path: str) -> None:
    assert refused({}, add(path, 1)) == [("patch_path_forbidden", "/ops/0/path")]


@pytest.mark.parametrize("key", ["__proto__", "constructor", "prototype", "a b", "", "ä", "x" * 65, "a~1b", "a~0b"])
def test_a_key_that_is_none(key: str) -> None:
    assert refused({}, add(f"/jobs/{key}", UNIT)) == [("patch_path_forbidden", "/ops/0/path")]
    assert refused({}, add("/jobs", {key.replace("~1", "/").replace("~0", "~"): UNIT}))[0][1].startswith("/ops/0/value")


@pytest.mark.parametrize(
    "path", ["/headline~", "/headline~2", "/~", "/head~0line", "/headline/", "/plan/items/a/title/x"]
)
def test_a_pointer_that_leads_nowhere(path: str) -> None:
    assert refused({}, add(path, "x")) == [("patch_path_forbidden", "/ops/0/path")]


@pytest.mark.parametrize("op", ["move", "copy", "test", "Add", ""])
def test_another_operation(op: str) -> None:
    assert refused(FULL, {"op": op, "path": "/headline", "value": "x"}) == [("patch_op_forbidden", "/ops/0/path")]


@pytest.mark.parametrize("key", ["0", "-", "01", "1e0", "+1".replace("+", "_"), "9" * 64])
def test_keys_are_names_whatever_they_look_like(key: str) -> None:
    there = patched({}, add(f"/jobs/{key}", UNIT))
    assert there.members == {"jobs": {key: UNIT}}
    assert rfc6902({}, there.ops) == there.members
    changed = patched(there.members, replace(f"/jobs/{key}/name", "other"))
    assert changed.members["jobs"][key]["name"] == "other"
    assert patched(changed.members, remove(f"/jobs/{key}")).members == {}


def test_no_key_is_a_place_in_a_list() -> None:
    assert refused(
        {}, add("/headline/-", "x"), add("/headline/2000000000", "x"), add("/headline/" + "9" * 400, "x")
    ) == [("patch_path_forbidden", f"/ops/{index}/path") for index in range(3)]


# --- targets ---------------------------------------------------------------------------------------------------------


def test_containers_come_and_go() -> None:
    come = patched({}, add("/plan/items/a", ITEM), add("/plan/items/b", ITEM), add("/metrics/tool_calls", 1))
    assert come.members == {"plan": {"items": {"a": ITEM, "b": ITEM}}, "metrics": {"tool_calls": 1}}
    assert come.ops == [
        add("/plan", {"items": {"a": ITEM}}),
        add("/plan/items/b", ITEM),
        add("/metrics", {"tool_calls": 1}),
    ]
    gone = patched(come.members, remove("/plan/items/a"), remove("/metrics/tool_calls"), remove("/plan/items/b"))
    assert gone.members == {}
    assert gone.ops == [remove("/plan/items/a"), remove("/metrics"), remove("/plan")]


def test_an_empty_container_is_none() -> None:
    assert patched({}, add("/plan", {"items": {}}), add("/metrics", {}))[:2] == ({}, [])
    assert patched(FULL, replace("/plan", {"items": {}}))[:2] == (
        {name: value for name, value in FULL.items() if name != "plan"},
        [remove("/plan")],
    )


@pytest.mark.parametrize(
    "op",
    [
        remove("/waiting_on"),
        replace("/waiting_on", "model"),
        remove("/plan/items/b"),
        replace("/plan/items/b", ITEM),
        remove("/workflows/x/name"),
        replace("/workflows/x", UNIT),
        remove("/workflows"),
        add("/workflows/x/name", "y"),
        add("/plan/items/b/title", "y"),
    ],
)
def test_what_is_not_there(op: dict[str, Any]) -> None:
    assert refused(FULL, add("/headline", "New"), op) == [("patch_target_missing", "/ops/1/path")]


def test_add_replaces() -> None:
    assert patched(FULL, add("/headline", "New")).ops == [replace("/headline", "New")]


def test_what_an_object_needs_stays() -> None:
    assert refused(FULL, remove("/tool/name")) == [("required", "/ops/0/path")]
    assert patched(FULL, remove("/tool/name"), add("/tool/name", "write")).members["tool"] == {"name": "write"}
    assert "tool" not in patched(FULL, remove("/tool/name"), remove("/tool")).members


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "code", "at"),
    [
        (add("/headline", 5), "wrong_type", ""),
        (add("/headline", None), "null_not_allowed", ""),
        (add("/headline", ""), "blank", ""),
        (add("/headline", "x" * 301), "too_long", ""),
        (add("/metrics/context_used_percent", 101), "out_of_range", ""),
        (add("/metrics/tool_calls", True), "wrong_type", ""),
        (add("/metrics/tool_calls", 1.5), "wrong_type", ""),
        (add("/subagents/x", {"name": "x", "state": "lost"}), "not_allowed_value", "/state"),
        (add("/subagents/x", {"name": "x"}), "required", "/state"),
        (add("/subagents/x", {**UNIT, "more": 1}), "unknown_field", "/more"),
        (add("/plan", []), "wrong_type", ""),
        (add("/text", {"content": {"a": None}}), "null_not_allowed", "/content/a"),
        (add("/tool", {"name": "x", "started_at": "noon"}), "bad_time", "/started_at"),
    ],
)
def test_a_value_that_does_not_belong_there(op: dict[str, Any], code: str, at: str) -> None:
    errors = refused(FULL, add("/headline", "New"), op)
    assert errors[0] in ((code, f"/ops/1/value{at}"), ("wrong_type", "/ops/1/value/content"))


def test_a_wrong_value_is_told_and_not_what_comes_below_it() -> None:
    assert refused({}, add("/tool", 5), add("/tool/name", "x")) == [("wrong_type", "/ops/0/value")]
    assert refused(FULL, add("/plan", {"items": 1}), remove("/plan/items/a")) == [("wrong_type", "/ops/0/value/items")]


def test_targets_are_told_before_values() -> None:
    assert refused({}, add("/headline", 5), remove("/tool")) == [("patch_target_missing", "/ops/1/path")]


def test_times_are_kept_in_utc() -> None:
    local = "2026-11-02T11:30:00+02:00"
    done = patched({}, add("/jobs", {"a": {**UNIT, "started_at": local}}), add("/jobs/a/started_at", local))
    assert done.members["jobs"]["a"]["started_at"] == TIME
    assert rfc6902({}, done.ops) == done.members


# --- size ------------------------------------------------------------------------------------------------------------


def test_too_many_keys() -> None:
    most = {f"k{index}": UNIT for index in range(200)}
    assert refused({"jobs": most}, add("/jobs/one_more", UNIT)) == [("too_many", "/ops/0/path")]
    assert patched({"jobs": most}, add("/jobs/one_more", UNIT), remove("/jobs/k0")).members["jobs"].keys() > {"k1"}
    assert refused({}, add("/jobs", {**most, "one_more": UNIT})) == [("too_many", "/ops/0/value")]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (ROOMY._replace(patch_bytes=20), "patch_too_large"),
        (ROOMY._replace(document_bytes=30), "document_too_large"),
        (ROOMY._replace(patch_ops=1), "too_many"),
        (ROOMY._replace(text_bytes=9), "too_long"),
    ],
)
def test_more_than_is_allowed(limits: Limits, code: str) -> None:
    ops = [add("/headline", "New"), add("/text", {"content": "é" * 5})]
    assert refused({}, *ops, limits=limits)[0][0] == code
    with pytest.raises(PatchRefused) as caught:
        patched({}, *ops, limits=limits)
    assert "run." in caught.value.detail


def test_the_size_is_never_underestimated() -> None:
    members: dict[str, Any] = {}
    size = size_of(members)
    for index in range(500):
        ops = [add(f"/jobs/k{index % 150}", {**UNIT, "name": "é" * (index % 60 + 1)})]
        raw = len(json.dumps(ops, ensure_ascii=False).encode())
        done = apply(members, read(ops), ROOMY._replace(document_bytes=1 << 15), size=size, raw_size=raw)
        members, size = done.members, done.size
        assert size_of(members) <= size <= 1 << 15


# --- any patch -------------------------------------------------------------------------------------------------------

PLACES = places()


@st.composite
def edits(draw: Any) -> dict[str, Any]:
    tokens, nodes = draw(st.sampled_from(PLACES))
    op = draw(st.sampled_from(["add", "replace", "remove"]))
    made: dict[str, Any] = {"op": op, "path": pointer(tokens)}
    return made if op == "remove" else {**made, "value": draw(values(nodes[-1]))}


members_of_a_run = st.fixed_dictionaries({}, optional={name: values(node) for name, node in PATCHABLE.items()})


@settings(max_examples=100, deadline=None)
@given(st.lists(edits(), min_size=1, max_size=30))
def test_whatever_is_applied_is_a_run_document_and_frames_lead_to_it(ops: list[dict[str, Any]]) -> None:
    members: dict[str, Any] = {}
    for op in ops:
        before = members
        try:
            done = patched(members, op)
        except PatchRefused:
            continue
        members = done.members
        for name, value in members.items():
            assert checker(PATCHABLE[name].schema)(value) == []
            assert value != {}
        assert same(rfc6902(before, done.ops), members)
        told = difference(before, members)
        assert same(rfc6902(before, told), members)


def test_ten_thousand_edits_one_after_the_other() -> None:
    rng = random.Random(7)
    members: dict[str, Any] = {}
    codes: set[str] = set()
    applied = 0
    for _ in range(10_000):
        tokens, nodes = rng.choice(PLACES)
        op = rng.choice(["add", "add", "replace", "remove"])
        made: dict[str, Any] = {"op": op, "path": pointer(tokens)}
        if op != "remove":
            made["value"] = some(rng, nodes[-1])
        try:
            done = apply(members, read([made]), ROOMY, size=0, raw_size=0)
        except PatchRefused as refused:
            codes |= {error.code for error in refused.errors}
            continue
        applied += 1
        assert same(rfc6902(members, done.ops), done.members)
        assert same(rfc6902(members, difference(members, done.members)), done.members)
        members = done.members
    assert applied > 3000
    assert codes == {"patch_target_missing", "required"}
    assert all(checker(PATCHABLE[name].schema)(value) == [] for name, value in members.items())


@settings(max_examples=100, deadline=None)
@given(members_of_a_run, members_of_a_run)
def test_a_difference_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    ops = difference(old, new)
    assert same(rfc6902(old, ops), new)
    assert {op["op"] for op in ops} <= {"add", "replace", "remove"}
    assert difference(new, copy.deepcopy(new)) == []
