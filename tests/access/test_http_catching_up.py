"""A snapshot and the events after it are a fresh snapshot: for every operation that writes, for everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.client_state import Client
from tests.fixtures.scenarios import SCENARIOS, Ask
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.waiting import until
from tests.fixtures.wire import fresh
from tests.fixtures.world import WorldCopy

pytestmark = pytest.mark.long

WATCHERS = (OWNER, "alex", "sam", "robin", "lotse", "texter")

Build = Callable[[Stage], Ask]


def _says(place: str, by: str, *mentions: str, main: bool = False) -> Build:
    def build(stage: Stage) -> Ask:
        thread_id = stage.world.threads[place] if main else stage.thread(place, by if "+" in place else OWNER)
        body = {"body": "Which files? " * 900, "client_msg_id": fresh()}
        if mentions:
            body["mentions"] = [stage.id(handle) for handle in mentions]
        return Ask("createMessage", by, {"thread_id": thread_id}, body=body)

    return build


def _follows_up(stage: Stage) -> Ask:
    body = {"body": "And which today?", "client_msg_id": fresh()}
    return Ask("createMessage", "alex", {"thread_id": stage.running().run["thread_id"]}, body=body)


def _moves(source: str, target: str) -> Build:
    def build(stage: Stage) -> Ask:
        run = stage.running(place=source).run
        return Ask(
            "moveThread", path={"thread_id": run["thread_id"]}, body={"channel_id": stage.world.channels[target]}
        )

    return build


def _deletes(stage: Stage) -> Ask:
    return Ask("deleteThread", path={"thread_id": stage.running().run["thread_id"]})


def _switches(**switches: object) -> Build:
    def build(stage: Stage) -> Ask:
        channel_id = stage.channel(stage.world.spaces["Support"], operator_agent_id=stage.id("lotse"))["id"]
        return Ask("updateChannel", path={"channel_id": channel_id}, body=switches)

    return build


def _grants(level: str, **holder: str) -> Build:
    def build(stage: Stage) -> Ask:
        channel_id = stage.channel()["id"]
        stage.thread(channel_id)
        ids = {"principal_id": stage.id(holder["who"])} if "who" in holder else {"group_id": stage.group("sam")["id"]}
        return Ask("grantAccess", body={**ids, "channel_id": channel_id, "level": level})

    return build


def _revokes(stage: Stage) -> Ask:
    ask = _grants("read")(stage)
    return Ask("revokeAccess", path={"grant_id": ask.at(stage.as_(OWNER)).ok()["id"]})


def _joins(operation: str) -> Build:
    def build(stage: Stage) -> Ask:
        group_id = stage.group(*(["robin"] if operation == "removeGroupMember" else []))["id"]
        body = {"group_id": group_id, "space_id": stage.world.spaces["Engineering"], "level": "read"}
        stage.as_(OWNER).call("grantAccess", body).ok()
        return Ask(operation, path={"group_id": group_id, "principal_id": stage.id("robin")})

    return build


def _opens_dm(stage: Stage) -> Ask:
    return Ask("createChannel", "robin", body={"kind": "dm", "member_ids": [stage.id("robin"), stage.id("sam")]})


def _disables(stage: Stage) -> Ask:
    return Ask("updatePrincipal", path={"principal_id": stage.id(stage.principal())}, body={"status": "disabled"})


def _ends(stage: Stage) -> Ask:
    held = stage.running()
    stage.message(held.run["thread_id"], "alex", "And today?")
    body = {"state": "completed", "summary": "Done."}
    return Ask("finishRun", "lotse", {"run_id": held.id}, body=body, headers=held.headers)


MORE: Mapping[str, Build] = {
    "a run opens": _says(ROOM, "alex"),
    "a run opens with a thread of its own": _says("Support/General", "alex", "lotse", main=True),
    "a guest is asked": _says(ROOM, "alex", "texter"),
    "two are asked": _says(ROOM, "alex", "lotse", "texter"),
    "asking is denied": _says(ROOM, "robin", "lotse"),
    "an agent writes": _says(ROOM, "lotse", "texter"),
    "a follow-up": _follows_up,
    "the end of a run with a follow-up": _ends,
    "a direct message": _says("alex+sam", "sam"),
    "a direct-message channel": _opens_dm,
    "a thread with a run moves within sight": _moves(ROOM, "Support/General"),
    "a thread with a run moves out of sight": _moves(ROOM, "Engineering/General"),
    "a thread with a run moves from General": _moves("Support/General", ROOM),
    "a thread with a run is deleted": _deletes,
    "read-only": _switches(read_only=True),
    "another operator": _switches(unset=["operator_agent_id"]),
    "a grant to sam": _grants("write", who="sam"),
    "a grant to the group of sam": _grants("read"),
    "the end of that grant": _revokes,
    "robin joins": _joins("addGroupMember"),
    "robin leaves": _joins("removeGroupMember"),
    "somebody is disabled": _disables,
}
WRITING = {
    f"{name} {number}": build
    for name, builders in SCENARIOS.items()
    if OPERATIONS[name].kind == "write"
    for number, build in enumerate(builders)
}


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that ends no run by time, however long these tests take: only what they do happens."""
    day = 86400
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        run__delivery_timeout=day,
        run__cancel_timeout=day,
        run__stale_after=day,
        run__stall_after=day,
    ) as live:
        yield live


@pytest.fixture(scope="module")
def clients(stage: Stage) -> Mapping[str, Client]:
    """Clients that took a snapshot when the world was new, and live on the log since."""
    clients = {handle: Client(stage.as_(handle)) for handle in WATCHERS}
    for client in clients.values():
        client.take()
    return clients


@pytest.mark.parametrize("name", [*WRITING, *MORE])
def test_the_events_of_a_write_bring_a_client_up_to_date(
    stage: Stage, clients: Mapping[str, Client], name: str
) -> None:
    ask = {**WRITING, **MORE}[name](stage)
    for client in clients.values():
        client.catch_up()
    ask.at(stage.as_(ask.by)).ok()
    is_up_to_date(stage, clients)


def test_all_of_it_at_once(stage: Stage, clients: Mapping[str, Client]) -> None:
    """One catching-up over many writes: what is in the log obeys the rights of the end, not of each moment."""
    for build in [*WRITING.values(), *MORE.values()]:
        ask = build(stage)
        ask.at(stage.as_(ask.by)).ok()
    is_up_to_date(stage, clients)


def is_up_to_date(stage: Stage, clients: Mapping[str, Client]) -> None:
    """Catching up gives everybody what a fresh snapshot gives, once what the writes end has ended."""
    until(lambda: not stage.sql("SELECT FROM livebox.pending_consequences"), "the consequences")
    last = stage.sql("SELECT max(seq) FROM livebox.events")[0][0]
    apart = {}
    for handle, client in clients.items():
        client.catch_up()
        assert client.seq == last
        anew = Client(stage.as_(handle))
        anew.take()
        if client.shown(anew) != anew.shown(client):
            apart[handle] = (client.applied, client.shown(anew), anew.shown(client))
            client.take()
    assert not apart


def test_only_who_is_concerned_begins_again(stage: Stage, clients: Mapping[str, Client]) -> None:
    for client in clients.values():
        client.catch_up()
        client.retaken = 0
    ask = _grants("read", who="sam")(stage)
    ask.at(stage.as_(ask.by)).ok()
    for client in clients.values():
        client.catch_up()
    assert {handle for handle, client in clients.items() if client.retaken} == {"sam"}
    assert ask.body["channel_id"] in clients["sam"].state["channels"]
    assert ask.body["channel_id"] not in clients["alex"].state["channels"]
