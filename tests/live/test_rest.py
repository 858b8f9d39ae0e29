"""patchRun over HTTP: what it answers, in which order, and what people see of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import generated
from generated.patchable_paths import PATCHABLE
from livebox.live.difference import VOLATILE
from tests.fixtures.server import Live
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered, absent, fresh
from tests.live.documents import places, pointer

HEADLINE = {"op": "add", "path": "/headline", "value": "Counting"}
OTHER_JTI = "0193a000-0000-4000-8000-0000000000b1"


@pytest.fixture(scope="module", name="stage")
def served(live: Live) -> Iterator[Stage]:
    """The world of a whole server."""
    stage = Stage(live)
    yield stage
    stage.close()


def patch(stage: Stage, held: Held, base: int, *ops: Any, agent: str = "lotse", run_id: str = "") -> Answered:
    body = {"base_version": base, "ops": list(ops)}
    return stage.as_(agent).call("patchRun", body, headers=held.headers, run_id=run_id or held.id)


def shown(stage: Stage, held: Held) -> dict[str, Any]:
    return dict(stage.as_("alex").call("getRun", run_id=held.id).ok())


def quiet(run: dict[str, Any]) -> dict[str, Any]:
    """The run without what moves by itself."""
    return {name: value for name, value in run.items() if name not in VOLATILE}


def test_a_patch_is_seen_at_once(stage: Stage) -> None:
    held = stage.running()
    answer = patch(stage, held, held.run["version"], HEADLINE).ok()
    got = stage.as_("alex").call("getRun", run_id=held.id)
    assert answer == {"run_id": held.id, "version": got.ok()["version"]}
    assert (got.body["headline"], got.headers["etag"]) == ("Counting", f'"{answer["version"]}"')
    known = stage.as_("alex").call("getRun", run_id=held.id, headers={"If-None-Match": got.headers["etag"]})
    assert known.status == 304


def test_a_patch_before_the_start_and_while_waiting(stage: Stage) -> None:
    for held in (stage.claimed(), stage.waiting()):
        patch(stage, held, held.run["version"], HEADLINE).ok()
        assert shown(stage, held)["headline"] == "Counting"


# --- every place of the contract ---------------------------------------------------------------------------------------

DOCUMENT = json.loads((Path(generated.__file__).parent / "openapi.json").read_bytes())["components"]
RUN = DOCUMENT["schemas"]["Run"]["properties"]


ONE_KEY = [tokens for tokens, _ in places() if not {"b", "0"} & set(tokens)]


def example(schema: Any) -> Any:
    """A value for a schema of the contract, made from what it says."""
    while "$ref" in schema:
        node: Any = DOCUMENT
        for token in schema["$ref"].split("/")[2:]:
            node = node[token]
        schema = node
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        if "additionalProperties" in schema and isinstance(schema["additionalProperties"], dict):
            return {"k": example(schema["additionalProperties"])}
        properties = schema.get("properties", {})
        names = schema.get("required") or list(properties)[:1]
        return {name: example(properties[name]) for name in names}
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 0), 0)
    if kind == "boolean":
        return True
    if schema.get("format") == "date-time":
        return "2026-11-02T09:30:00.000000Z"
    if schema.get("format") == "uuid" or "a-f" in schema.get("pattern", ""):
        return OTHER_JTI
    return "EUR" if schema.get("maxLength") == 3 else "x"


def schema_at(pointer: str) -> Any:
    node: Any = DOCUMENT
    for token in pointer.split("/")[1:]:
        node = node[token]
    return node


@pytest.mark.parametrize("tokens", ONE_KEY, ids=pointer)
def test_every_place_that_may_be_patched(stage: Stage, tokens: tuple[str, ...]) -> None:
    nodes = dict(places())[tokens]
    held = held_of(stage)
    base = shown(stage, held)["version"]
    around = [
        {"op": "add", "path": pointer(tokens[: depth + 1]), "value": example(schema_at(node.schema))}
        for depth, node in enumerate(nodes[:-1])
        if not node.container
    ]
    op = {"op": "add", "path": pointer(tokens), "value": example(schema_at(nodes[-1].schema))}
    version = patch(stage, held, base, *around, op).ok()["version"]
    found: Any = shown(stage, held)
    for token in tokens:
        found = found[token]
    assert found == op["value"]
    clear = [{"op": "remove", "path": f"/{tokens[0]}"}]
    patch(stage, held, version, *clear).ok()
    assert tokens[0] not in shown(stage, held)


@pytest.mark.parametrize("name", [name for name in RUN if name not in PATCHABLE])
def test_every_member_that_may_not(stage: Stage, name: str) -> None:
    held = stage.running()  # of its own, or all of these together would be too many patches of one run
    before = shown(stage, held)
    for op in ("add", "replace", "remove"):
        for below in ("", "/x", "/x/y"):
            asked = {"op": op, "path": f"/{name}{below}", "value": example(RUN[name])}
            refused = patch(stage, held, before["version"], HEADLINE, asked).refused(400, "validation_failed")
            assert refused.errors() == [("patch_path_forbidden", "/ops/1/path")]
    assert quiet(shown(stage, held)) == quiet(before)


_held: dict[int, Held] = {}


def held_of(stage: Stage) -> Held:
    """One running run for the tests that leave it as it was."""
    if id(stage) not in _held:
        _held[id(stage)] = stage.running()
    return _held[id(stage)]


# --- the answers, in order ---------------------------------------------------------------------------------------------


def test_who_may_not(stage: Stage) -> None:
    held = stage.running()
    patch(stage, held, 1, HEADLINE, agent="").refused(401, "invalid_token")
    patch(stage, held, 1, HEADLINE, agent="alex").refused(403, "forbidden")
    patch(stage, held, 1, HEADLINE, agent=stage.principal()).refused(404, "not_found")
    assert "headline" not in shown(stage, held)


def test_the_token(stage: Stage) -> None:
    held, other = stage.running(), stage.running()
    wrong = {"base_version": 0, "ops": "none"}
    for given in (other.headers, {"Livebox-Invocation": "no.token.here"}, {}):
        stage.as_("lotse").call("patchRun", wrong, headers=given, run_id=held.id).refused(401, "invalid_token")
    stage.sql("UPDATE livebox.runs SET invocation_jti = %s, claim_id = %s WHERE id = %s", OTHER_JTI, OTHER_JTI, held.id)
    told = stage.as_("lotse").call("patchRun", wrong, headers=held.headers, run_id=held.id)
    assert told.refused(409, "invocation_superseded").body["current"]["state"] == "running"


def test_a_renewed_token(stage: Stage) -> None:
    held = stage.running()
    lotse = stage.as_("lotse")
    version = patch(stage, held, held.run["version"], HEADLINE).ok()["version"]
    token = lotse.call("renewInvocationToken", {}, headers=held.headers, run_id=held.id).ok()["token"]
    version = patch(stage, held, version, HEADLINE).ok()["version"]
    version = patch(stage, Held(held.run, token), version, HEADLINE).ok()["version"]
    patch(stage, held, version, HEADLINE).refused(409, "token_renewed")
    patch(stage, Held(held.run, token), version, HEADLINE).ok()


def test_an_ended_run(stage: Stage) -> None:
    held = stage.running()
    version = patch(stage, held, held.run["version"], HEADLINE).ok()["version"]
    stage.as_("lotse").call("finishRun", {"state": "completed"}, headers=held.headers, run_id=held.id).ok()
    told = stage.as_("lotse").call(
        "patchRun", {"base_version": version, "ops": [{"op": "move"}]}, headers=held.headers, run_id=held.id
    )
    told.refused(409, "run_ended")
    assert quiet(told.body["run"]) == quiet(shown(stage, held))
    assert told.body["run"]["headline"] == "Counting"


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, {("required", "/base_version"), ("required", "/ops")}),
        ({"base_version": 0, "ops": []}, {("out_of_range", "/base_version"), ("too_few", "/ops")}),
        ({"base_version": 1, "ops": [HEADLINE], "more": 1}, {("unknown_field", "/more")}),
        ({"base_version": 1, "ops": [{"op": "add", "path": "/headline"}]}, {("required", "/ops/0/value")}),
        ({"base_version": 1, "ops": [{"path": "/headline", "value": "x"}]}, {("required", "/ops/0/op")}),
        ({"base_version": None, "ops": [HEADLINE]}, {("null_not_allowed", "/base_version")}),
        (
            {"base_version": 1, "ops": [{"op": "move", "from": "/headline", "path": "/text"}]},
            {("patch_op_forbidden", "/ops/0/path")},
        ),
        (
            {"base_version": 1, "ops": [{"op": "test", "path": "/text", "value": 1}]},
            {("patch_op_forbidden", "/ops/0/path")},
        ),
        ({"base_version": 1, "ops": [HEADLINE] * 1001}, {("too_many", "/ops")}),
    ],
)
def test_the_shape(stage: Stage, body: Any, errors: set[tuple[str, str]]) -> None:
    held = held_of(stage)
    told = stage.as_("lotse").call("patchRun", body, headers=held.headers, run_id=held.id)
    assert set(told.refused(400, "validation_failed").errors()) == errors


def test_what_comes_first(stage: Stage) -> None:
    held = stage.running()
    now = patch(stage, held, held.run["version"], HEADLINE).ok()["version"]
    path = {"op": "add", "path": "/state", "value": "completed"}
    target = {"op": "remove", "path": "/tool"}
    value = {"op": "add", "path": "/headline", "value": None}
    large = {"op": "add", "path": "/text", "value": {"content": "x" * 20_000}}
    wrong_path = patch(stage, held, now - 1, value, target, path, large).refused(400, "validation_failed")
    assert wrong_path.errors() == [("patch_path_forbidden", "/ops/2/path")]
    patch(stage, held, now - 1, value, target, large).refused(409, "version_conflict")
    wrong_target = patch(stage, held, now, value, target, large).refused(400, "validation_failed")
    assert wrong_target.errors() == [("patch_target_missing", "/ops/1/path")]
    wrong_value = patch(stage, held, now, value, large).refused(400, "validation_failed")
    assert wrong_value.errors()[0] == ("null_not_allowed", "/ops/0/value")
    too_large = patch(stage, held, now, large).refused(400, "validation_failed")
    assert too_large.errors() == [("too_long", "/ops/0/value/content")]
    assert "run.text_max_bytes" in too_large.body["detail"]
    assert shown(stage, held)["version"] == now


def test_a_conflict_brings_the_document(stage: Stage) -> None:
    held = stage.running()
    now = patch(stage, held, held.run["version"], HEADLINE).ok()["version"]
    for base in (now - 1, now + 1, 1, 2**53 - 1):
        told = patch(stage, held, base, HEADLINE).refused(409, "version_conflict").body
        run = shown(stage, held)
        assert quiet(told["run"]) == quiet(run)
        assert told["current"]["version"] == run["version"] == now
        assert told["current"]["state"] == "running"
        assert told["current"]["allowed"] == ["cancelled", "completed", "failed", "waiting_input"]


def test_a_late_patch_after_a_transition_or_a_step_conflicts(stage: Stage) -> None:
    held = stage.running()
    version = patch(stage, held, held.run["version"], HEADLINE).ok()["version"]
    stage.step(held)
    told = patch(stage, held, version, HEADLINE).refused(409, "version_conflict").body["run"]
    assert (told["step_count"], told["headline"]) == (1, "Counting")
    version = patch(stage, held, told["version"], HEADLINE).ok()["version"]
    waiting = (
        stage.as_("lotse").call("awaitRunInput", {"prompt": "Which week?"}, headers=held.headers, run_id=held.id).ok()
    )
    assert (waiting["headline"], waiting["version"]) == ("Counting", shown(stage, held)["version"])
    assert waiting["version"] > version
    told = patch(stage, held, version, HEADLINE).refused(409, "version_conflict").body["run"]
    assert told["state"] == "waiting_input"


def test_sizes_by_their_keys(stage: Stage) -> None:
    held = stage.running()
    base = held.run["version"]
    texts = [
        {"op": "add", "path": f"/refs/r{index}", "value": {"kind": "artifact", "reference": "x" * 190}}
        for index in range(100)
    ]
    over = patch(stage, held, base, *texts, {"op": "remove", "path": "/refs"}).refused(400, "validation_failed")
    assert over.errors() == [("too_many", "/ops")]
    assert "run.patch_max_ops" in over.body["detail"]
    text = {"op": "add", "path": "/text", "value": {"content": "x" * 16_000}}
    told = patch(stage, held, base, *[text] * 5).refused(413, "patch_too_large")
    assert "run.patch_max_bytes" in told.body["detail"]
    assert shown(stage, held)["version"] == base


def test_a_document_that_grows_too_large(stage: Stage) -> None:
    held = stage.running()
    version = held.run["version"]
    for member in ("subagents", "workflows", "jobs"):
        for part in range(2):
            ops = [
                {
                    "op": "add",
                    "path": f"/{member}/k{part}_{index}",
                    "value": {"name": "x" * 190, "state": "running", "headline": "h" * 290},
                }
                for index in range(90)
            ]
            told = patch(stage, held, version, *ops)
            if told.status == 413:
                told.refused(413, "document_too_large")
                assert "run.document_max_bytes" in told.body["detail"]
                assert shown(stage, held)["version"] == version
                return
            version = told.ok()["version"]
    raise AssertionError("nothing was too large")


@pytest.mark.parametrize("depth", [1, 2, 5, 10])
def test_null_at_any_depth(stage: Stage, depth: int) -> None:
    value: Any = None
    for _ in range(depth):
        value = {"a": value}
    held = held_of(stage)
    base = shown(stage, held)["version"]
    for path in ("/headline", "/plan", "/jobs/x"):
        patch(stage, held, base, {"op": "add", "path": path, "value": value}).refused(400, "validation_failed")
    assert shown(stage, held)["version"] == base


@pytest.mark.parametrize("depth", [50, 101, 1000, 20_000])
def test_a_deep_value(stage: Stage, depth: int) -> None:
    held = held_of(stage)
    raw = (
        b'{"base_version":1,"ops":[{"op":"add","path":"/plan","value":'
        + b'{"a":' * depth
        + b"1"
        + b"}" * depth
        + b"}]}"
    )
    told = stage.as_("lotse").call("patchRun", raw=raw, headers=held.headers, run_id=held.id)
    assert told.status in (400, 409)
    stage.as_("lotse").call("heartbeatRun", {}, headers=held.headers, run_id=held.id).ok()


def test_a_run_that_is_not_there(stage: Stage) -> None:
    held = held_of(stage)
    lotse = stage.as_("lotse")
    body = {"base_version": 1, "ops": [HEADLINE]}
    lotse.call("patchRun", body, headers=held.headers, run_id=absent()).refused(401, "invalid_token")
    lotse.call("patchRun", body, headers=held.headers, run_id="nothing").refused(400, "validation_failed")


def test_patches_are_counted(stage: Stage) -> None:
    held = stage.running()
    counted = stage.as_("").send("GET", "/metrics").body
    patch(stage, held, held.run["version"], HEADLINE).ok()
    patch(stage, held, held.run["version"], HEADLINE).refused(409, "version_conflict")

    def count(text: str, outcome: str) -> float:
        lines = [
            line for line in text.splitlines() if line.startswith(f'livebox_run_patch_total{{outcome="{outcome}"}}')
        ]
        return float(lines[0].split()[-1]) if lines else 0.0

    after = stage.as_("").send("GET", "/metrics").body
    for outcome in ("applied", "version_conflict"):
        assert count(after, outcome) == count(counted, outcome) + 1
    assert held.id not in after
    assert fresh() not in after
