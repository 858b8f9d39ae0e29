"""A request that is sent again: with its key, its client_msg_id, its step id or its claim id it happens once."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.scenarios import SCENARIOS, Ask
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import Answered, Wire, fresh

KEYED = [operation.id for operation in OPERATIONS.values() if operation.idempotent]
ATTEMPTS = 30
CUTS = 30
REPLAYS = 400


def keyed(ask: Ask) -> dict[str, str]:
    return {**ask.headers, "Idempotency-Key": fresh()}


def reordered(body: Mapping[str, Any]) -> bytes:
    """The same body, spelled another way."""
    return json.dumps(dict(reversed(body.items())), indent=3).encode()


def other(body: Mapping[str, Any]) -> dict[str, Any]:
    """Another valid body of the same operation."""
    for name, value in (
        ("name", "Other"),
        ("title", "Other"),
        ("display_name", "Other"),
        ("level", "write"),
        ("intent", "other"),
        ("steps", 9),
    ):
        if name in body:
            return {**body, name: value}
    raise AssertionError(f"what else could {body} be")


def count(stage: Stage) -> int:
    """How much there is."""
    tables = ("spaces", "channels", "threads", "principals", "groups", "grants", "messages", "runs", "events")
    return sum(stage.sql(f"SELECT count(*) FROM livebox.{table}")[0][0] for table in tables)


def test_what_creates_takes_a_key() -> None:
    creating = {operation.id for operation in OPERATIONS.values() if operation.success == (201,)}
    assert set(KEYED) == (creating | {"updateRun"}) - {"createMessage"}, "and what appends"


@pytest.mark.parametrize("operation", KEYED)
def test_the_same_again_is_the_same(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    headers = keyed(ask)
    wire = stage.as_(ask.by)
    first = ask.at(wire, headers=headers)
    made = first.ok()
    there = count(stage)
    for raw in (json.dumps(ask.body).encode(), reordered(ask.body)):
        again = wire.call(operation, headers=headers, raw=raw, **ask.path)
        assert (again.status, again.body, again.headers["etag"]) == (first.status, made, first.headers["etag"])
    ask.at(wire, headers=headers, body=other(ask.body)).refused(409, "idempotency_key_reused")
    assert ask.at(wire, headers=headers).ok() == made
    assert count(stage) == there
    # Another key, and no key, are new requests.
    again = ask.at(wire, headers=keyed(ask), body=_unlike(ask))
    assert again.status == first.status


def _unlike(ask: Ask) -> dict[str, Any]:
    if "handle" in ask.body:
        return {**ask.body, "handle": f"p{fresh()}"}
    if ask.operation == "registerRun":
        return {**ask.body, "run_id": fresh()}
    return {**ask.body, "name": f"Name {fresh()}"} if ask.operation == "createGroup" else ask.body


def test_a_key_belongs_to_its_principal_and_its_operation(stage: Stage) -> None:
    key = {"Idempotency-Key": fresh()}
    wire = stage.as_(OWNER)
    space = wire.call("createSpace", {"name": "One"}, headers=key).ok()
    group = wire.call("createGroup", {"name": f"Group {fresh()}"}, headers=key).ok()
    assert space["id"] != group["id"]
    channel_id = stage.world.channels[ROOM]
    threads = {
        handle: stage.as_(handle).call("createThread", {"title": handle}, headers=key, channel_id=channel_id).ok()
        for handle in (OWNER, "alex", "robin")
    }
    assert {thread["title"] for thread in threads.values()} == {OWNER, "alex", "robin"}
    # The path is part of the request.
    elsewhere = {"channel_id": stage.world.channels["Support/General"]}
    wire.call("createThread", {"title": OWNER}, headers=key, **elsewhere).refused(409, "idempotency_key_reused")


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a b", "caf\u00e9", "a\tb"])
def test_keys_that_are_none(stage: Stage, key: str) -> None:
    answer = stage.as_(OWNER).call("createSpace", {"name": "One"}, headers={"Idempotency-Key": key})
    assert answer.refused(400, "validation_failed").errors()[0][1] == "Idempotency-Key"


def test_a_replay_shows_the_resource_as_it_is_now(stage: Stage) -> None:
    wire = stage.as_(OWNER)
    body = {"kind": "channel", "space_id": stage.world.spaces["Support"], "name": "Old"}
    key = {"Idempotency-Key": fresh()}
    made = wire.call("createChannel", body, headers=key).ok()
    wire.call("updateChannel", {"name": "New"}, channel_id=made["id"]).ok()
    again = wire.call("createChannel", body, headers=key)
    assert (again.status, again.body["name"], again.headers["etag"]) == (201, "New", '"2"')


# A resource that is gone, or hidden from who made it: 404, whatever the body, and nothing is made again.


def _deleted_thread(stage: Stage, by: str, answer: Answered) -> None:
    stage.as_(OWNER).call("deleteThread", thread_id=answer.body["id"]).ok()


def _no_right(stage: Stage, by: str, answer: Answered) -> None:
    for grant_id, *_ in stage.sql("SELECT id::text FROM livebox.grants WHERE principal_id = %s", stage.id(by)):
        stage.as_(OWNER).call("revokeAccess", grant_id=grant_id).ok()


def _revoked(stage: Stage, by: str, answer: Answered) -> None:
    stage.as_(OWNER).call("revokeAccess", grant_id=answer.body["id"]).ok()


def _manager(stage: Stage) -> tuple[str, str]:
    """Somebody who manages a new channel."""
    by = stage.principal()
    channel_id = stage.channel()["id"]
    stage.grant(by, "manage", channel_id=channel_id)
    return by, channel_id


def _thread(stage: Stage) -> Ask:
    by, channel_id = _manager(stage)
    return Ask("createThread", by, {"channel_id": channel_id}, body={"title": "Mine"})


def _channel(stage: Stage) -> Ask:
    by = stage.principal()
    space_id = stage.space()["id"]
    stage.grant(by, "manage", space_id=space_id)
    return Ask("createChannel", by, body={"kind": "channel", "space_id": space_id, "name": "Mine"})


def _granted(stage: Stage) -> Ask:
    by, channel_id = _manager(stage)
    body = {"principal_id": stage.id("sam"), "channel_id": channel_id, "level": "read"}
    return Ask("grantAccess", by, body=body)


GONE: list[tuple[Callable[[Stage], Ask], Callable[[Stage, str, Answered], None]]] = [
    (_thread, _deleted_thread),
    (_thread, _no_right),
    (_channel, _no_right),
    (_granted, _revoked),
    (_granted, _no_right),
]


@pytest.mark.parametrize(("build", "end"), GONE)
def test_a_replay_of_what_is_gone_makes_nothing(
    stage: Stage, build: Callable[[Stage], Ask], end: Callable[[Stage, str, Answered], None]
) -> None:
    ask = build(stage)
    headers = keyed(ask)
    wire = stage.as_(ask.by)
    end(stage, ask.by, ask.at(wire, headers=headers))
    there = count(stage)
    ask.at(wire, headers=headers).refused(404, "not_found")
    ask.at(wire, headers=headers, body=other(ask.body)).refused(404, "not_found")
    assert count(stage) == there


@pytest.mark.parametrize("how", ["deleted", "no right"])
def test_a_message_again_when_its_thread_is_gone(stage: Stage, how: str) -> None:
    by, channel_id = _manager(stage)
    thread_id = stage.thread(channel_id)
    body = {"body": "Hello", "client_msg_id": fresh()}
    made = stage.as_(by).call("createMessage", body, thread_id=thread_id)
    made.ok()
    if how == "deleted":
        stage.as_(OWNER).call("deleteThread", thread_id=thread_id).ok()
    else:
        _no_right(stage, by, made)
    there = count(stage)
    stage.as_(by).call("createMessage", body, thread_id=thread_id).refused(404, "not_found")
    stage.as_(by).call("createMessage", {**body, "body": "X"}, thread_id=thread_id).refused(404, "not_found")
    assert count(stage) == there


def test_a_refused_request_does_not_use_its_key_up(stage: Stage) -> None:
    wire = stage.as_(OWNER)
    channel_id = stage.channel(read_only=True)["id"]
    key = {"Idempotency-Key": fresh()}
    body = {"title": "Mine"}
    wire.call("createThread", body, headers=key, channel_id=channel_id).refused(403, "channel_read_only")
    wire.call("createThread", {"title": 5}, headers=key, channel_id=channel_id).refused(400, "validation_failed")
    wire.call("updateChannel", {"read_only": False}, channel_id=channel_id).ok()
    wire.call("createThread", {"title": "Another"}, headers=key, channel_id=channel_id).ok()

    person = {"kind": "person", "handle": "alex", "display_name": "Alex"}
    wire.call("createPrincipal", person, headers=key).refused(409, "handle_taken")
    wire.call("createPrincipal", {**person, "handle": f"p{fresh()}"}, headers=key).ok()

    message = {"body": "Hello", "client_msg_id": fresh(), "mentions": [stage.thread()]}
    thread_id = stage.thread()
    answer = wire.call("createMessage", message, thread_id=thread_id).refused(400, "validation_failed")
    assert answer.errors() == [("unknown_reference", "/mentions/0")]
    del message["mentions"]
    wire.call("createMessage", message, thread_id=thread_id).ok()


def test_a_message_again(stage: Stage) -> None:
    thread_id = stage.thread()
    wire = stage.as_("alex")
    body = {"body": "Which files?", "client_msg_id": fresh(), "mentions": [stage.id("lotse")]}
    first = wire.call("createMessage", body, thread_id=thread_id).ok()
    assert (first["trigger_state"], first["version"]) == ("received", 2)
    there = count(stage)
    for raw in (json.dumps(body).encode(), reordered(body)):
        assert wire.call("createMessage", raw=raw, thread_id=thread_id).ok() == first
    for changed in ({**body, "body": "X"}, {name: body[name] for name in ("body", "client_msg_id")}):
        wire.call("createMessage", changed, thread_id=thread_id).refused(409, "idempotency_key_reused")
    wire.call("createMessage", body, thread_id=stage.thread()).refused(409, "idempotency_key_reused")
    assert count(stage) == there + 2  # that other thread and its event
    # Ids are each author's own.
    assert stage.as_("robin").call("createMessage", body, thread_id=thread_id).ok()["id"] != first["id"]
    # It lives as long as the message, as a tombstone too.
    wire.call("deleteMessage", message_id=first["id"]).ok()
    again = wire.call("createMessage", body, thread_id=thread_id).ok()
    assert (again["id"], "deleted_at" in again, "body" in again) == (first["id"], True, False)


def test_a_step_again(stage: Stage) -> None:
    held = stage.running()
    where = {"run_id": held.id, "step_id": fresh(), "headers": held.headers}
    body = {"kind": "tool", "name": "read_folder", "detail": {"a": 1, "b": 2}}
    wire = stage.as_("lotse")
    first = wire.call("recordRunStep", body, **where).ok()
    assert wire.call("recordRunStep", raw=reordered(body), **where).ok() == first
    wire.call("recordRunStep", {**body, "name": "x"}, **where).refused(409, "step_id_reused")
    run = stage.as_("alex").call("getRun", run_id=held.id).ok()
    assert run["step_count"] == 1


# Many at once, over two servers.


@pytest.mark.parametrize("operation", [*KEYED, "createMessage"])
def test_many_at_once_over_two_servers_are_one(twins: tuple[Stage, Stage], operation: str) -> None:
    stage = twins[0]
    ask = SCENARIOS[operation][0](stage)
    headers = keyed(ask) if operation in KEYED else ask.headers
    tokens = [twin.live.issue(ask.by) for twin in twins]
    wires = [Wire(twins[number % 2].live.port, tokens[number % 2]) for number in range(ATTEMPTS)]

    def attempt(number: int) -> Answered:
        raw = reordered(ask.body) if number % 3 else json.dumps(ask.body).encode()
        with wires[number] as wire:
            return wire.call(operation, headers=headers, raw=raw, **ask.path)

    before = stage.sql("SELECT count(*) FROM livebox.events")[0][0]
    with ThreadPoolExecutor(ATTEMPTS) as pool:
        answers = list(pool.map(attempt, range(ATTEMPTS)))
    assert {answer.status for answer in answers} == {OPERATIONS[operation].success[0]}
    assert len({answer.body["id"] for answer in answers}) == 1
    caused = stage.sql("SELECT count(*) FROM livebox.events")[0][0] - before
    assert caused <= {"createChannel": 2, "registerRun": 2}.get(operation, 1)


# A client that goes away right after it has sent its request, and comes back.


def cut(port: int, raw: bytes, rng: random.Random) -> None:
    """Send all of a request, or most of it, and reset the connection without waiting for the answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", rng.choice((0, 1)), 0))
        connection.sendall(raw[: len(raw) - rng.choice((0, 0, 0, 1, 20))])
        if rng.random() < 0.5:  # let it get some way
            connection.settimeout(rng.random() * 0.008)
            with suppress(TimeoutError):
                connection.recv(1)


@pytest.mark.parametrize("operation", ["createMessage", "createThread"])
def test_cut_and_sent_again_is_one(stage: Stage, operation: str) -> None:
    rng = random.Random(7)
    wire = stage.as_("alex")
    thread_id, channel_id = stage.thread(), stage.world.channels[ROOM]
    path = {"createMessage": {"thread_id": thread_id}, "createThread": {"channel_id": channel_id}}[operation]
    target = OPERATIONS[operation].path.format(**path)
    for _ in range(CUTS):
        title, key = f"Cut {fresh()}", fresh()
        body = {"body": title, "client_msg_id": key} if operation == "createMessage" else {"title": title}
        headers = {"Idempotency-Key": key} if operation == "createThread" else {}
        raw = json.dumps(body).encode()
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wire.token}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )
        content = f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        cut(stage.live.port, head.encode() + content.encode() + raw, rng)
        made = wire.call(operation, headers=headers, raw=raw, **path).ok()
        again = wire.call(operation, headers=headers, raw=raw, **path).ok()
        assert made["id"] == again["id"]
        table, column = ("messages", "body") if operation == "createMessage" else ("threads", "title")
        assert stage.sql(f"SELECT id::text FROM livebox.{table} WHERE {column} = %s", title) == [(made["id"],)]


def test_a_key_that_is_sent_often_costs_nothing(stage: Stage) -> None:
    wire = stage.as_("alex")
    headers = {"Idempotency-Key": fresh()}
    where = {"channel_id": stage.world.channels[ROOM], "headers": headers}
    first = wire.call("createThread", {"title": "Often"}, **where)
    sequences = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'livebox' ORDER BY 1"
    used, there = stage.sql(sequences), count(stage)
    for _ in range(REPLAYS):
        again = wire.call("createThread", {"title": "Often"}, **where)
        assert (again.status, again.raw) == (201, first.raw)
    assert stage.sql(sequences) == used
    assert count(stage) == there
