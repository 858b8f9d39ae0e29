"""What one may not see answers like what is not there: every operation, whatever else the request holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from generated.operations import OPERATIONS, Operation
from livebox.world import OWNER
from tests.fixtures.scenarios import SCENARIOS
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import Answered, Wire, absent, fresh

VARYING = frozenset({"date", "request-id", "traceparent"})
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE", "TRACE", "BREW")

WITH_IDS = [operation for operation in OPERATIONS.values() if "{" in operation.path]
# People and groups are no secrets: the directory is open, and groups are the owners' business whatever their id.
# The ids of published units are their publisher's own.
OPEN = frozenset({"getPrincipal", "updatePrincipal", "addGroupMember", "removeGroupMember", "putAgentRunSnapshot"})
HIDING = [operation for operation in WITH_IDS if operation.id not in OPEN]


class Try(NamedTuple):
    """One way to ask for a path."""

    name: str
    method: str
    raw: bytes | None = None
    headers: Mapping[str, str] = {}
    spelled: Callable[[str], str] = str
    """How the id is written."""
    query: str = ""


def tries(operation: Operation, body: Any, used_key: str) -> Iterator[Try]:
    """An operation with its valid body, and everything that a request can do about it."""
    method = operation.method
    valid = json.dumps(body).encode() if body is not None else None
    typed = {"Content-Type": "application/json"} if valid else {}
    yield Try("valid", method, valid, typed)
    for tag in ('"1"', '"99"', "*", 'W/"1"', '"1", "2"', "nonsense"):
        yield Try(f"If-Match {tag}", method, valid, {**typed, "If-Match": tag})
        yield Try(f"If-None-Match {tag}", method, valid, {**typed, "If-None-Match": tag})
    yield Try("fresh key", method, valid, {**typed, "Idempotency-Key": fresh()})
    yield Try("used key", method, valid, {**typed, "Idempotency-Key": used_key})
    for raw in (b"", b"{", b"{}", b"[]", b"5", b'{"nonsense": 1}', b'{"body": null}', b'{"id": "x", "version": 9}'):
        yield Try(f"body {raw!r}", method, raw, {"Content-Type": "application/json"})
    yield Try("text", method, b"hello", {"Content-Type": "text/plain"})
    for other in METHODS:
        yield Try(
            f"method {other}", other, headers={"Content-Length": "0"} if other in ("PUT", "PATCH", "POST") else {}
        )
    for query in ("limit=1", "limit=0", "cursor=AAAA", "nonsense=1", "state=running"):
        yield Try(f"query {query}", method, valid, typed, query=query)
    spellings: Mapping[str, Callable[[str], str]] = {
        "upper case": str.upper,
        "encoded": lambda id_: f"%{ord(id_[0]):02X}{id_[1:]}",
        "NUL": lambda id_: id_ + "%00",
        "slash": lambda id_: id_ + "%2F",
        "encoded twice": lambda id_: f"%25{id_}",
        "dots": lambda id_: f"%2e%2e%2f{id_}",
        "space": lambda id_: id_ + "%20",
        "plus": lambda id_: id_ + "+",
        "more": lambda id_: id_ + "/",
        "short": lambda id_: id_[:-1],
    }
    for name, spelled in spellings.items():
        yield Try(name, method, valid, typed, spelled)


def likeness(answer: Answered, target: str) -> Any:
    """All of an answer that may not depend on what is there."""
    headers = {name: value for name, value in answer.headers.items() if name not in VARYING}
    body = answer.body
    if isinstance(body, dict) and "request_id" in body:
        assert body["instance"] == target.partition("?")[0]
        body = {**body, "request_id": "", "instance": ""}
    return answer.status, headers, body


@pytest.fixture(scope="module")
def used_key(stage: Stage) -> str:
    """An idempotency key that the stranger and the owner have used already, for threads that they see."""
    stage.principal("person", "stranger")
    key = fresh()
    for handle in ("stranger", OWNER):
        channel_id = stage.dm(handle, "alex")["id"]
        where = {"channel_id": channel_id, "headers": {"Idempotency-Key": key}}
        stage.as_(handle).call("createThread", {"title": "Mine"}, **where).ok()
    return key


class Hidden(NamedTuple):
    """A request for something, that the viewer may not see it, and what tells it from the like of nothing."""

    viewer: str
    path: dict[str, str]
    body: Any
    invocation: bool


def in_the_room(stage: Stage, operation: Operation) -> Hidden:
    """What the scenario of the operation has made in Support/Escalation, seen by somebody without any right."""
    ask = SCENARIOS[operation.id][0](stage)
    return Hidden("stranger", dict(ask.path), ask.body, "Livebox-Invocation" in ask.headers)


def in_a_dm(stage: Stage, operation: Operation) -> Hidden | None:
    """The same in direct messages, seen by the owner; None where there is none of its kind."""
    if operation.module == "runs" and operation.id != "listThreadRuns":
        return None
    if operation.module in ("run_control", "registration", "snapshots") or "{grant_id}" in operation.path:
        return None
    body = SCENARIOS[operation.id][0](stage).body
    channel = stage.dm("alex", "sam")
    thread_id = stage.thread(channel["id"], "alex")
    path = {"channel_id": channel["id"], "thread_id": thread_id}
    if "{message_id}" in operation.path:
        path["message_id"] = stage.message(thread_id, "alex")["id"]
    return Hidden(OWNER, {name: path[name] for name in path if f"{{{name}}}" in operation.path}, body, False)


def compare(stage: Stage, operation: Operation, hidden: Hidden, used_key: str) -> int:
    """Fails with every way of asking that tells the hidden from the absent; the number of those that were tried."""
    wire = stage.as_(hidden.viewer)
    told = {}
    number = 0
    for attempt in tries(operation, hidden.body, used_key):
        seen = []
        for ids in (hidden.path, {name: absent() for name in hidden.path}):
            headers = dict(attempt.headers)
            if hidden.invocation:
                headers["Livebox-Invocation"] = token(stage, ids["run_id"])
            path = operation.path.format(**{name: attempt.spelled(id_) for name, id_ in ids.items()})
            target = f"{path}?{attempt.query}" if attempt.query else path
            answer = wire.send(attempt.method, target, attempt.raw, headers)
            assert answer.status >= 400, f"{attempt.name} reached something: {answer}"
            seen.append(likeness(answer, target))
        number += 1
        if seen[0] != seen[1]:
            told[attempt.name] = seen
        if attempt.name == "valid":
            assert seen[0][0] == 404
    assert not told
    return number


def token(stage: Stage, run_id: str) -> str:
    """A token that verifies for any run, so that what is compared is what comes after."""
    return stage.live.app.invocations.mint(
        run_id=run_id, agent_id=stage.id("lotse"), jti=fresh(), claim_id=fresh(), expires_at=4e9
    )


@pytest.mark.parametrize("operation", HIDING, ids=lambda operation: operation.id)
def test_hidden_is_like_absent(stage: Stage, used_key: str, operation: Operation) -> None:
    assert compare(stage, operation, in_the_room(stage, operation), used_key) > 40
    hidden = in_a_dm(stage, operation)
    if hidden is not None:
        assert compare(stage, operation, hidden, used_key) > 40


@pytest.mark.parametrize("operation", WITH_IDS, ids=lambda operation: operation.id)
def test_no_token_tells_nothing(stage: Stage, used_key: str, operation: Operation) -> None:
    ask = SCENARIOS[operation.id][0](stage)
    for wire in (stage.as_(""), Wire(stage.live.port, "lbx_nothing")):
        for method in METHODS:
            seen = []
            for path in (ask.path, {name: absent() for name in ask.path}):
                target = operation.path.format(**path)
                headers = {"Content-Length": "0"} if method in ("PUT", "PATCH", "POST") else {}
                seen.append(likeness(wire.send(method, target, headers=headers), target))
            assert seen[0] == seen[1], method
            assert seen[0][0] in (401, 405)


def test_groups_and_people_answer_alike_to_who_does_not_manage(stage: Stage, used_key: str) -> None:
    for operation_id in ("updatePrincipal", "addGroupMember", "removeGroupMember"):
        operation = OPERATIONS[operation_id]
        ask = SCENARIOS[operation_id][0](stage)
        seen = []
        for path in (ask.path, {name: absent() for name in ask.path}):
            target = operation.path.format(**path)
            seen.append(likeness(stage.as_("alex").call(operation_id, ask.body, **path), target))
        assert seen[0] == seen[1]
        assert seen[0][0] == 403


# Ids in bodies and in queries.


def _moves(stage: Stage, place: str) -> dict[str, Any]:
    """A thread of the stranger's own place, for moving it elsewhere."""
    channel = stage.channel()
    stage.grant("stranger", "manage", channel_id=channel["id"])
    thread_id = stage.thread(channel["id"])
    return {"operation_id": "moveThread", "thread_id": thread_id, "body": {"channel_id": place}}


def _grants(member: str) -> Callable[[Stage, str], dict[str, Any]]:
    def build(stage: Stage, place: str) -> dict[str, Any]:
        body = {"principal_id": stage.id("stranger"), member: place, "level": "manage"}
        return {"operation_id": "grantAccess", "body": body}

    return build


def _makes(stage: Stage, place: str) -> dict[str, Any]:
    return {"operation_id": "createChannel", "body": {"kind": "channel", "space_id": place, "name": "Mine"}}


BODIES: Mapping[str, tuple[str, Callable[[Stage, str], dict[str, Any]]]] = {
    "moveThread.channel_id": ("channel", _moves),
    "grantAccess.channel_id": ("channel", _grants("channel_id")),
    "grantAccess.space_id": ("space", _grants("space_id")),
    "createChannel.space_id": ("space", _makes),
}


@pytest.mark.parametrize("name", BODIES)
def test_ids_in_bodies(stage: Stage, used_key: str, name: str) -> None:
    kind, build = BODIES[name]
    places = {"channel": stage.world.channels[ROOM], "space": stage.world.spaces["Support"]}
    for headers in ({}, {"Idempotency-Key": fresh()}, {"Idempotency-Key": used_key}, {"If-Match": '"99"'}):
        seen = []
        for place in (places[kind], absent()):
            request = build(stage, place)
            answer = stage.as_("stranger").call(headers=headers, **request)
            answer.refused(404, "not_found")
            seen.append(likeness(answer, answer.body["instance"]))
        assert seen[0] == seen[1], headers


def test_ids_in_bodies_of_direct_messages(stage: Stage, used_key: str) -> None:
    dm = stage.dm("alex", "sam")["id"]
    for name in ("moveThread.channel_id", "grantAccess.channel_id"):
        seen = []
        for place in (dm, absent()):
            request = BODIES[name][1](stage, place)
            answer = stage.as_(OWNER).call(**request)
            answer.refused(404, "not_found")
            seen.append(likeness(answer, answer.body["instance"]))
        assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("listChannels", "space_id"),
        ("listThreads", "channel_id"),
        ("listAuditEntries", "channel_id"),
        ("listActiveRuns", "agent_id"),
    ],
)
def test_ids_in_filters_give_empty_pages(stage: Stage, used_key: str, operation: str, name: str) -> None:
    stage.queued()
    stage.message(by="robin", mentions=["lotse"])  # denied, and so audited
    hidden = {
        "space_id": stage.world.spaces["Support"],
        "channel_id": stage.world.channels[ROOM],
        "agent_id": stage.id("lotse"),
    }[name]
    answers = [stage.as_("stranger").call(operation, query={name: id_}) for id_ in (hidden, absent())]
    assert [answer.body for answer in answers] == [{"items": []}] * 2
    assert likeness(answers[0], "") == likeness(answers[1], "")
    assert stage.as_(OWNER).call(operation, query={name: hidden}).ok()["items"]
    if name == "channel_id":
        dm = stage.dm("alex", "sam")["id"]
        assert stage.as_(OWNER).call(operation, query={name: dm}).ok() == {"items": []}


def test_steps_of_another_run_are_not_there(stage: Stage, used_key: str) -> None:
    mine, other = stage.running(), stage.running()
    step = stage.step(other)["id"]
    wire = stage.as_("lotse")
    seen = []
    for step_id in (step, absent()):
        answer = wire.call(
            "updateRunStep", {"status": "completed"}, headers=mine.headers, run_id=mine.id, step_id=step_id
        )
        seen.append(likeness(answer.refused(404, "not_found"), answer.body["instance"]))
        body = {"kind": "tool", "name": "x", "parent_step_id": step_id}
        answer = wire.call("recordRunStep", body, headers=mine.headers, run_id=mine.id, step_id=fresh())
        assert answer.refused(400, "validation_failed").errors() == [("unknown_reference", "/parent_step_id")]
    assert seen[0] == seen[1]
    same = {"kind": "tool", "name": "y"}
    made = wire.call("recordRunStep", same, headers=mine.headers, run_id=mine.id, step_id=step).ok()
    assert made["run_id"] == mine.id
