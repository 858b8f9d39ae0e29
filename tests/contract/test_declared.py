"""What the contract declares and no other test comes to: each of it happens, over a socket of the real server.

What all operations have in common is made for each operation of the contract, so that a new one needs nothing here.
The rest is a list of situations. Whether everything was seen is judged when all tests are through
(`fixtures.coverage_of_contract`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import aiohttp
import pytest

from db.errors import DatabaseUnavailable, InternalError, Overloaded, StatementTimeout
from generated.operations import OPERATIONS, Operation
from livebox import edge
from livebox.edge import Endpoint
from livebox.world import OWNER
from tests.edge.samples import SAMPLES
from tests.fixtures.coverage_of_contract import declared
from tests.fixtures.scenarios import SCENARIOS, Ask
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered, Wire, fresh
from tests.fixtures.world import WorldCopy
from tests.gateway.device import Devices

FAULTS: Final = {
    "internal_error": InternalError("a guard", "LB001"),
    "overloaded": Overloaded("too much"),
    "timeout": StatementTimeout("too slow"),
    "unavailable": DatabaseUnavailable("gone"),
}


def sampled(wire: Wire, live: Live, operation: Operation) -> Answered:
    """The answer to the operation's sample from the contract: what it names is not there."""
    sample = SAMPLES[operation.id]
    return Ask(
        operation.id, path=_path(sample.path, operation.path), body=sample.body, headers=sample.headers(live)
    ).at(wire)


def _path(filled: str, template: str) -> dict[str, str]:
    pairs = zip(template.split("/"), filled.split("/"), strict=True)
    return {name[1:-1]: value for name, value in pairs if name.startswith("{")}


# What all operations have in common


PUBLIC: Final = [operation for operation in OPERATIONS.values() if operation.security == "public"]


@pytest.mark.parametrize("operation", PUBLIC, ids=lambda operation: operation.id)
def test_each_fault_is_told_to_nobody_in_particular_too(
    stage: Stage, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of its handler stands one that fails like the database does. Of those with a token: `edge.test_leaks`."""
    methods, _ = stage.live.app.edge._router.find(SAMPLES[operation.id].path) or ({}, {})
    endpoint = methods[operation.method]
    assert isinstance(endpoint, Endpoint)
    for code in sorted(FAULTS.keys() & set(operation.problem_codes)):

        async def failing(*_: object, code: str = code) -> NoReturn:
            raise FAULTS[code]

        monkeypatch.setattr(endpoint, "handler", failing)
        sampled(stage.as_(OWNER), stage.live, operation).refused(500 if code == "internal_error" else 503, code)


@pytest.fixture(scope="module")
def narrow(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that takes one request of a class, and then next to none."""
    once: dict[str, Any] = {f"rl__{name}__rate": 0.01 for name in ("read", "write", "patch", "auth")}
    once |= {f"rl__{name}__burst": 1 for name in ("read", "write", "patch", "auth")}
    with live_server(module_world_copy, tmp_path_factory.mktemp("data"), **once) as live:
        yield live


def test_each_operation_is_limited(narrow: Live) -> None:
    limited = [operation for operation in OPERATIONS.values() if operation.rate_class]
    with Wire(narrow.port, narrow.tokens["lotse"]) as wire:
        for first in {operation.rate_class: operation for operation in limited}.values():
            sampled(wire, narrow, first)
        for operation in limited:
            sampled(wire, narrow, operation).refused(429, "rate_limited")


def test_metrics_beyond_loopback(narrow: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "is_loopback", lambda _: False)
    old = narrow.issue("alex", 0.001)
    with Wire(narrow.port, narrow.tokens["alex"]) as wire:
        wire.call("getMetrics").refused(403, "forbidden")
        for code in ("overloaded", "timeout", "unavailable"):
            if code in OPERATIONS["getMetrics"].problem_codes:
                with monkeypatch.context() as patch:
                    patch.setattr(narrow.app.database.readers, "call", _failing(FAULTS[code]))
                    wire.call("getMetrics").refused(503, code)
    with Wire(narrow.port, old) as wire:
        wire.call("getMetrics").refused(401, "token_expired")
        wire.call("getMetrics").refused(429, "rate_limited")


def _failing(error: Exception) -> Callable[..., Any]:
    async def failing(*_: object) -> NoReturn:
        raise error

    return failing


IF_MATCH: Final = sorted(
    fact.split(" ")[1] for fact in declared() if fact.startswith("parameter") and fact.endswith(" header if-match")
)


@pytest.mark.parametrize("operation", IF_MATCH)
def test_each_write_that_takes_a_version_holds_to_it(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    wire = stage.as_(ask.by)
    ask.at(wire, headers={"If-Match": '"999999"'}).refused(412, "version_mismatch")
    ask.at(wire, headers={"If-Match": "*"}).ok()


EVENTS: Final = {fact.split(" ")[1] for fact in declared() if fact.startswith("event ")}


async def test_every_kind_of_event_reaches_a_device(stage: Stage) -> None:
    """While a request of each operation that changes something is made, some devices listen."""

    def change() -> None:
        for operation, builders in SCENARIOS.items():
            for build in builders if OPERATIONS[operation].kind == "write" else ():
                ask = build(stage)
                ask.at(stage.as_(ask.by)).ok()

    async with aiohttp.ClientSession() as session:
        devices = Devices(session, stage.live)
        heard = [await devices.enter(handle) for handle in (OWNER, "sam")]
        await asyncio.to_thread(change)
        await heard[0].until(lambda: {event["type"] for device in heard for event in device.events()} >= EVENTS)
        await devices.close()


# Tokens of runs

HELD: Final = sorted(operation.id for operation in OPERATIONS.values() if operation.security.endswith("invocation"))


def other_token(stage: Stage, held: Held, **changed: Any) -> dict[str, str]:
    """The header with a token of the run like the one that holds it, but for what is changed."""
    claims = stage.live.app.invocations.verify(held.token, held.id).claims() | {"jti": fresh()} | changed
    known = {name: claims[name] for name in ("run_id", "jti", "claim_id", "expires_at")}
    return {"Livebox-Invocation": stage.live.app.invocations.mint(agent_id=stage.id("lotse"), **known)}


def held_by(ask: Ask) -> Held:
    """The run of a request with its token."""
    return Held({"id": ask.path["run_id"]}, ask.headers["Livebox-Invocation"])


@pytest.mark.parametrize("operation", HELD)
def test_each_operation_of_an_agent_knows_the_token_of_another_holder(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    headers = other_token(stage, held_by(ask), claim_id=fresh())
    ask.at(stage.as_(ask.by), headers=headers).refused(409, "invocation_superseded")


@pytest.mark.parametrize("operation", HELD)
def test_each_operation_of_an_agent_knows_a_token_that_was_renewed(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    ask.at(stage.as_(ask.by), headers=other_token(stage, held_by(ask))).refused(409, "token_renewed")


@pytest.mark.parametrize("operation", HELD)
def test_each_operation_of_an_agent_knows_that_the_run_is_over(stage: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](stage)
    wire = stage.as_(ask.by)
    if operation == "startRun":
        wire.call("startRun", {}, headers=ask.headers, run_id=ask.path["run_id"]).ok()
    end = {"state": "failed", "reason": "agent_error"}
    wire.call("finishRun", end, headers=ask.headers, run_id=ask.path["run_id"]).ok()
    ask.at(wire).refused(409, "run_ended")


# Situations: each makes what it needs and gives the request that is refused

Situation = Callable[[Stage], Ask]


def of_claimed(operation: str, body: Any, **path: str) -> Situation:
    """An operation on a run that was not started yet."""

    def build(stage: Stage) -> Ask:
        held = stage.claimed()
        return Ask(operation, "lotse", {"run_id": held.id, **path}, body=body, headers=held.headers)

    return build


def started_otherwise(stage: Stage) -> Ask:
    held = stage.running()
    return Ask("startRun", "lotse", {"run_id": held.id}, body={"model": "another"}, headers=held.headers)


def resumed_twice(stage: Stage) -> Ask:
    held = stage.running()
    return Ask("resumeRun", "lotse", {"run_id": held.id}, body={}, headers=held.headers)


def step_again(stage: Stage) -> Ask:
    held = stage.running()
    step = stage.step(held)
    body = {"kind": "tool", "name": "another"}
    return Ask("recordRunStep", "lotse", {"run_id": held.id, "step_id": step["id"]}, body=body, headers=held.headers)


def step_that_is_done(stage: Stage) -> Ask:
    held = stage.running()
    step = stage.step(held, status="completed")
    where = {"run_id": held.id, "step_id": step["id"]}
    return Ask("updateRunStep", "lotse", where, body={"title": "Later"}, headers=held.headers)


def withdrawn_followup(stage: Stage) -> Ask:
    held = stage.running()
    message = stage.followup(held)
    stage.as_("alex").call("deleteMessage", message_id=message).ok()
    return Ask("ackFollowup", "lotse", {"run_id": held.id, "message_id": message}, body={}, headers=held.headers)


def read_only(operation: str) -> Situation:
    """A write where an owner has locked the channel meanwhile."""

    def build(stage: Stage) -> Ask:
        channel = stage.channel()
        message = stage.message(stage.thread(channel["id"]), OWNER)
        stage.as_(OWNER).call("updateChannel", {"read_only": True}, channel_id=channel["id"]).ok()
        if operation == "editMessage":
            return Ask(operation, path={"message_id": message["id"]}, body={"body": "Later"})
        body = {"body": "More", "client_msg_id": fresh()}
        return Ask(operation, path={"thread_id": message["thread_id"]}, body=body)

    return build


def edited_tombstone(stage: Stage) -> Ask:
    message = stage.message()
    stage.as_("robin").call("deleteMessage", message_id=message["id"]).ok()
    return Ask("editMessage", "robin", {"message_id": message["id"]}, body={"body": "Later"})


def deleted_run_message(stage: Stage) -> Ask:
    held = stage.finished()
    listed = stage.as_(OWNER).call("listThreadMessages", thread_id=held.run["thread_id"]).ok()["items"]
    message = next(message for message in listed if message["kind"] != "text")
    return Ask("deleteMessage", path={"message_id": message["id"]})


def main_thread(operation: str, body: Any = None) -> Situation:
    """What does not go with the thread that a direct-message channel has."""

    def build(stage: Stage) -> Ask:
        channel = stage.channel()
        target = {"channel_id": stage.channel()["id"]} if operation == "moveThread" else body
        return Ask(operation, path={"thread_id": channel["main_thread_id"]}, body=target)

    return build


def last_owner(stage: Stage) -> Ask:
    return Ask("updatePrincipal", path={"principal_id": stage.id(OWNER)}, body={"status": "disabled"})


def old_position(stage: Stage) -> Ask:
    stage.sql("UPDATE livebox.log_state SET floor = greatest(floor, 1)")
    return Ask("listEvents", query={"after": 0})


SITUATIONS: Final[dict[str, list[Situation]]] = {
    "invalid_state_transition": [
        started_otherwise,
        resumed_twice,
        of_claimed("awaitRunInput", {"prompt": "Which?"}),
        of_claimed("finishRun", {"state": "completed"}),
        of_claimed("recordRunStep", {"kind": "tool", "name": "x"}, step_id=fresh()),
    ],
    "step_id_reused": [step_again],
    "step_finished": [step_that_is_done],
    "followup_closed": [withdrawn_followup],
    "channel_read_only": [read_only("createMessage"), read_only("editMessage")],
    "message_not_editable": [edited_tombstone, deleted_run_message],
    "main_thread": [main_thread("deleteThread"), main_thread("moveThread")],
    "last_owner": [last_owner],
    "cursor_expired": [old_position],
}
CASES: Final = [(code, build) for code, builders in SITUATIONS.items() for build in builders]


@pytest.mark.parametrize(("code", "build"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_situation_is_told(stage: Stage, code: str, build: Situation) -> None:
    ask = build(stage)
    answer = ask.at(stage.as_(ask.by))
    assert answer.code == code, answer


def test_who_takes_a_begun_run_over_cannot_begin_it_again(world_copy: WorldCopy, tmp_path: Path) -> None:
    """Its holder was not heard of for a while, then it was asked for by another."""
    quick = {"run__claim_lease": 1, "run__holder_grace": 1, "run__life_flush_interval": 0.25}
    with live_server(world_copy, tmp_path, **quick) as live:
        stage = Stage(live)
        held = stage.waiting()
        stage.followup(held)
        items: list[Any] = []
        while not items:
            items = stage.as_("lotse").call("claimInvocations", {"claim_id": fresh(), "limit": 1}).ok()["items"]
        headers = {"Livebox-Invocation": items[0]["token"]}
        answer = stage.as_("lotse").call("startRun", {}, headers=headers, run_id=held.id)
        answer.refused(409, "already_started")
        stage.close()


def test_a_replay_for_who_may_no_longer_see_it(stage: Stage) -> None:
    """Only whoever runs the database can make a person an owner, and take it back."""
    by = stage.principal()
    role = "UPDATE livebox.principals SET role = %s, version = version + 1 WHERE handle = %s"
    stage.sql(role, "owner", by)
    asks = [SCENARIOS[operation][0](stage) for operation in ("createSpace", "createGroup")]
    key = {"Idempotency-Key": fresh()}
    for ask in asks:
        ask.at(stage.as_(by), headers=key).ok()
    stage.sql(role, None, by)
    for ask in asks:
        ask.at(stage.as_(by), headers=key).refused(404, "not_found")


def test_a_patch_where_another_process_serves_the_run(twins: tuple[Stage, Stage]) -> None:
    here, there = twins
    ask = SCENARIOS["patchRun"][0](here)
    ask.at(here.as_(ask.by)).ok()
    ask.at(there.as_(ask.by)).refused(409, "live_elsewhere")
