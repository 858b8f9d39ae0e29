"""Who may do what: every operation of the contract, asked for by every kind of caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from db import instance
from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.scenarios import SCENARIOS, Ask
from tests.fixtures.server import PATIENCE
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import Answered, Wire, fresh

# Whoever they are, they are nobody: what they get, unless the operation asks for no authentication.
UNKNOWN = {
    "nobody": "invalid_token",
    "bad token": "invalid_token",
    "expired token": "token_expired",
    "revoked token": "invalid_token",
    "disabled": "invalid_token",
}
# The columns of ROWS: what each may do in Support/Escalation, where everything that is asked for lies.
KNOWN = (
    "owner",
    "manager",  # manage, on the space
    "alex",  # trigger, on the space; opened the runs
    "robin",  # write, on the channel; wrote the messages
    "reader",  # read, by a group
    "stranger",  # a person without any right
    "lotse",  # operates here; works on the runs
    "texter",  # an agent that is a guest here
    "assistent",  # an agent of another place
    "hook",  # a service without any right
)
SUCCESS = "2"
ROUNDS = 3
# 2: a success; 3: 403 forbidden; 4: 404 not_found.
ALL = "2222222222"
READ = "2222242244"
MANAGE = "2233343344"
OWNERS = "2333333333"
WORK = "3333342344"
ROWS = {
    "createMessage": "2222342244",
    "listThreadMessages": READ,
    "getMessage": READ,
    "editMessage": "3332343344",
    "deleteMessage": "2232343344",
    "getRun": READ,
    "listRunSteps": READ,
    "cancelRun": "2223343344",
    "listThreadRuns": READ,
    "listActiveRuns": "2222223333",
    "claimInvocations": "3333332223",
    "startRun": WORK,
    "heartbeatRun": WORK,
    "patchRun": WORK,
    "renewInvocationToken": WORK,
    "awaitRunInput": WORK,
    "resumeRun": WORK,
    "ackFollowup": WORK,
    "listRunFollowups": READ,
    "finishRun": WORK,
    "recordRunStep": WORK,
    "updateRunStep": WORK,
    "registerRun": "2333332222",
    "updateRun": "2434442444",
    "recordSpend": "2434442444",
    "getRunSpend": "2424442444",
    "listRunSnapshots": READ,
    "listAgentRunSnapshots": ALL,
    "putAgentRunSnapshot": "3333332222",
    "createSpace": OWNERS,
    "listSpaces": ALL,
    "createChannel": MANAGE,
    "updateChannel": MANAGE,
    "listChannels": ALL,
    "createThread": "2222342244",
    "getThread": READ,
    "listThreads": ALL,
    "moveThread": MANAGE,
    "deleteThread": MANAGE,
    "createPrincipal": OWNERS,
    "getPrincipal": ALL,
    "updatePrincipal": OWNERS,
    "createGroup": OWNERS,
    "addGroupMember": OWNERS,
    "removeGroupMember": OWNERS,
    "grantAccess": MANAGE,
    "revokeAccess": MANAGE,
    "listAuditEntries": ALL,
    "getSnapshot": ALL,
    "listEvents": ALL,
    "getHealth": ALL,
    "getReadiness": ALL,
    "getMetrics": ALL,
    "getOpenApi": ALL,
    "getAsyncApi": ALL,
    "getJwks": ALL,
}
CODES = {"3": (403, "forbidden"), "4": (404, "not_found")}

Build = Callable[[Stage], Ask]


def _somebody(stage: Stage) -> str:
    return stage.id(stage.principal())


def _grant(stage: Stage) -> Ask:
    body = {"principal_id": _somebody(stage), "channel_id": stage.world.channels[ROOM], "level": "read"}
    return Ask("grantAccess", body=body)


# What the scenarios make elsewhere, made in the room.
HERE: dict[str, Build] = {
    "updateChannel": lambda stage: Ask(
        "updateChannel", path={"channel_id": stage.world.channels[ROOM]}, body={"allow_mentioned_agents": True}
    ),
    "grantAccess": _grant,
    "revokeAccess": lambda stage: Ask("revokeAccess", path={"grant_id": _grant(stage).at(stage.as_(OWNER)).ok()["id"]}),
}


def build(stage: Stage, operation: str) -> Ask:
    """A request that succeeds for whoever may make it."""
    return HERE.get(operation, SCENARIOS[operation][0])(stage)


@pytest.fixture(scope="module")
def callers(stage: Stage) -> Mapping[str, Wire]:
    """A connection for each kind of caller."""
    for kind, handle in (("person", "manager"), ("person", "reader"), ("person", "stranger"), ("service", "hook")):
        stage.principal(kind, handle)
    stage.grant("manager", "manage", space_id=stage.world.spaces["Support"])
    readers = stage.group("reader")
    body = {"group_id": readers["id"], "channel_id": stage.world.channels[ROOM], "level": "read"}
    stage.as_(OWNER).call("grantAccess", body).ok()

    gone = stage.principal("person")
    stage.grant(gone, "manage", space_id=stage.world.spaces["Support"])
    disabled = Wire(stage.live.port, stage.live.issue(gone))
    disabled.call("listSpaces").ok()  # known to the server, before it is disabled
    stage.as_(OWNER).call("updatePrincipal", {"status": "disabled"}, principal_id=stage.id(gone)).ok()

    revoked = Wire(stage.live.port, stage.live.issue("manager"))
    revoked.call("listSpaces").ok()
    kept = [token for token in instance.list_tokens(stage.live.dsn, "manager") if token.state == "active"]
    assert instance.revoke_token(stage.live.dsn, kept[-1].token_id)

    expired = Wire(stage.live.port, stage.live.issue(OWNER, 0.001))
    deadline = time.monotonic() + PATIENCE
    while expired.call("listSpaces").status != 401:
        assert time.monotonic() < deadline, "the token never ended"
    unknown = {
        "nobody": stage.as_(""),
        "bad token": Wire(stage.live.port, "lbx_nothing"),
        "expired token": expired,
        "revoked token": revoked,
        "disabled": disabled,
    }
    return {**unknown, **{handle: stage.as_(handle) for handle in KNOWN}}


def test_every_operation_has_a_row() -> None:
    assert set(ROWS) == set(OPERATIONS)
    assert {len(row) for row in ROWS.values()} == {len(KNOWN)}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_callers(stage: Stage, callers: Mapping[str, Wire], operation: str) -> None:
    """Who may not is refused as its row says, and nothing is written then; who may has done what was asked for."""
    public = OPERATIONS[operation].security == "public"
    row = dict(zip(KNOWN, ROWS[operation], strict=True))
    refused = [caller for caller in KNOWN if row[caller] != SUCCESS]
    found, expected = {}, {}
    shared = build(stage, operation)
    # The server goes on saving what earlier requests patched; what a refused request leaves behind, it leaves each time.
    for _ in range(ROUNDS):
        before = written(stage)
        for caller in [*UNKNOWN, *refused]:
            answer = shared.at(callers[caller])
            if caller not in UNKNOWN:
                expected[caller] = CODES[row[caller]]
            else:
                expected[caller] = (answer.status, "") if public else (401, UNKNOWN[caller])
            found[caller] = outcome(answer)
            assert not (public and answer.status >= 400), answer
        if written(stage) == before:
            break
    else:
        pytest.fail("a refused request left something behind")
    for caller in KNOWN:
        if row[caller] == SUCCESS:
            answer = build(stage, operation).at(callers[caller])
            found[caller] = outcome(answer)
            expected[caller] = (OPERATIONS[operation].success[0], "")
    assert found == expected


def outcome(answer: Answered) -> tuple[int, str]:
    return answer.status, answer.code


TABLES = (
    "events",
    "messages",
    "threads",
    "channels",
    "spaces",
    "runs",
    "run_steps",
    "grants",
    "groups",
    "audit_log",
    "agent_snapshots",
)


def written(stage: Stage) -> Any:
    """What the tables hold, as far as a request could change it.

    Of runs the reserved mark: every durable raise moves it, a checkpoint of content that was patched before does not.
    """
    counts = ", ".join(f"(SELECT count(*) FROM livebox.{table})" for table in (*TABLES, "idempotency_keys"))
    versions = ", ".join(
        f"(SELECT coalesce(sum({column}), 0)::bigint FROM livebox.{table})"
        for table, column in (
            ("messages", "version"),
            ("threads", "version"),
            ("channels", "version"),
            ("runs", "version_reserved"),
            ("principals", "version"),
        )
    )
    return stage.sql(f"SELECT {counts}, {versions}")


def test_direct_messages_are_opened_by_people_who_are_in_them(stage: Stage, callers: Mapping[str, Wire]) -> None:
    members = [stage.id("alex"), stage.id("stranger")]
    found = {}
    for caller in KNOWN:
        answer = callers[caller].call("createChannel", {"kind": "dm", "member_ids": members})
        found[caller] = answer.status
    agents = dict.fromkeys(("lotse", "texter", "assistent", "hook"), 403)
    others = dict.fromkeys(("owner", "manager", "robin", "reader"), 400)
    assert found == {"alex": 201, "stranger": 201, **agents, **others}


def test_a_token_of_one_run_does_not_work_on_another(stage: Stage) -> None:
    mine, other = stage.claimed(), stage.claimed()
    wire = stage.as_("lotse")
    wire.call("startRun", {}, headers=other.headers, run_id=mine.id).refused(401, "invalid_token")
    wire.call("startRun", {}, run_id=mine.id).refused(401, "invalid_token")
    wire.call("startRun", {}, headers={"Livebox-Invocation": "x" * 5000}, run_id=mine.id).refused(401, "invalid_token")
    wire.call("startRun", {}, headers={"Livebox-Invocation": fresh()}, run_id=mine.id).refused(401, "invalid_token")
    wire.call("startRun", {}, headers=mine.headers, run_id=mine.id).ok()
