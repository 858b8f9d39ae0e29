"""The server as a whole: what it needs to start, what it says of itself, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import handlers.sync
from db import Answer, Database, DatabaseUnavailable
from livebox import app
from livebox.app import StartError, load_handlers
from livebox.context import Context, request_hash
from livebox.server import Server
from livebox.settings import Settings
from tests.edge.raw import connect, exchange, read_response, request
from tests.edge.samples import SAMPLES
from tests.fixtures.server import PATIENCE, Client, Clients, Live, client_session, live_server
from tests.fixtures.world import WorldCopy


def test_every_operation_has_its_handler() -> None:
    assert set(load_handlers()) == set(SAMPLES)


def test_an_operation_without_a_handler_keeps_the_server_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(handlers.sync, "list_events")
    with pytest.raises(StartError, match="listEvents has no function list_events"):
        load_handlers()


def test_a_handler_without_an_operation_keeps_the_server_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_nothing() -> None: ...

    list_nothing.__module__ = handlers.sync.__name__
    monkeypatch.setattr(handlers.sync, "list_nothing", list_nothing, raising=False)
    with pytest.raises(StartError, match="list_nothing belongs to no operation"):
        load_handlers()


def test_a_missing_handlers_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "handlers.sync", None)
    with pytest.raises(StartError, match=r"handlers/sync\.py"):
        load_handlers()


@pytest.mark.parametrize("given", [{"auth.jwt_issuer": "https://x.example.com"}, {"auth.jwt_jwks_file": "/x.json"}])
def test_half_a_configured_issuer_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(StartError, match="both or none"):
        app.issuer(Settings.load({}, given))


def test_a_port_in_use_is_an_error_and_leaves_nothing_open(live: Live, tmp_path: Path) -> None:
    settings = Settings.load({}, {"data": str(tmp_path), "http.port": live.port})
    with pytest.raises(OSError, match="address"):
        asyncio.run(app.serve(settings, live.dsn))


# What it says of itself.


async def test_health_and_readiness_need_nobody(clients: Clients) -> None:
    assert (await clients[None].get("/v1/health")).json == {"status": "ok"}
    assert (await clients[None].get("/v1/readiness")).json["status"] == "ready"


async def test_a_server_without_its_database_is_alive_and_not_ready(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ping(_: Database) -> None:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(Database, "ping", ping)
    got = await clients[None].get("/v1/readiness")
    assert (got.status, got.json["status"], got.json["checks"]["database"]) == (503, "not_ready", "failed")
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["Retry-After"] == "1"
    assert (await clients[None].get("/v1/health")).status == 200


async def test_the_documents_are_those_that_the_server_was_made_from(clients: Clients) -> None:
    assert set((await clients[None].get("/openapi.json")).json["paths"]) >= {"/v1/health", "/openapi.json"}
    assert (await clients[None].get("/asyncapi.json")).json["asyncapi"].startswith("3.")


async def test_metrics_count_requests_by_operation_and_name_nobody(clients: Clients) -> None:
    await clients["alex"].get("/v1/spaces")
    await clients["alex"].get("/nothing/here")
    got = await clients[None].get("/metrics")
    assert got.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = got.body.decode()
    assert 'operation="listSpaces",status="200"' in text
    assert 'operation="other",status="404"' in text
    assert clients.world.principals["alex"] not in text


async def test_metrics_beyond_loopback_need_the_token(world_copy: WorldCopy, tmp_path: Path) -> None:
    outside = _outside_address()
    if outside is None:
        pytest.skip("this machine has no address but loopback")
    with live_server(world_copy, tmp_path, http__host=outside, metrics__token="let-me-see") as live:
        async with client_session() as session:
            url = f"http://{outside}:{live.port}"
            for token in (None, "x", "let-me-se", "let-me-see2"):
                assert (await Client(session, url, token).get("/metrics")).code == "invalid_token"
            for handle, code in {"owner": "", "alex": "forbidden", "lotse": "forbidden"}.items():
                got = await Client(session, url, live.tokens[handle]).request("HEAD", "/metrics")
                assert got.status == (403 if code else 200)
            assert (await Client(session, url, "let-me-see").get("/metrics")).status == 200
            assert (await Client(session, url, "let-me-see").get("/v1/spaces")).status == 401


def _outside_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; finds the address that would be used
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") else found


async def test_checked_responses_turn_a_broken_one_into_a_failure(
    world_copy: WorldCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object, **__: object) -> Answer:
        return Answer("ok", b'{"items": [{"id": null}]}')

    with live_server(world_copy, tmp_path, check__responses=True) as live:
        async with client_session() as session:
            owner = Client(session, live.url, live.tokens["owner"])
            assert (await owner.get("/v1/spaces")).status == 200
            for sample in SAMPLES.values():
                assert (await sample.send(owner, live)).status != 500
            monkeypatch.setattr(Context, "read", read)
            assert (await owner.get("/v1/spaces")).code == "internal_error"


# Idempotency: what makes two requests the same.


def test_the_hash_of_a_request_is_of_what_it_asks_for() -> None:
    asked = request_hash("createSpace", {"idempotency_key": "a"}, {"name": "x", "more": {"b": 1, "a": [1, 2]}})
    assert asked == request_hash("createSpace", {"idempotency_key": "b"}, {"more": {"a": [1, 2], "b": 1}, "name": "x"})
    assert len(asked) == 64
    others = [
        request_hash("createGroup", {}, {"name": "x", "more": {"b": 1, "a": [1, 2]}}),
        request_hash("createSpace", {"space_id": "y"}, {"name": "x", "more": {"b": 1, "a": [1, 2]}}),
        request_hash("createSpace", {}, {"name": "x", "more": {"b": 1, "a": [2, 1]}}),
        request_hash("createSpace", {}, {"name": "x"}),
        request_hash("createSpace", {}, {}),
        request_hash("createSpace", {}, None),
    ]
    assert len({asked, *others}) == 1 + len(others)


async def test_a_repeat_answers_alike_and_another_body_is_refused(clients: Clients) -> None:
    owner = clients["owner"]
    key = {"Idempotency-Key": "k-1"}
    first = await owner.request("POST", "/v1/principals", data=_person("ada", "Ada"), headers=key)
    assert first.status == 201
    reordered = json.dumps({"display_name": "Ada", "handle": "ada", "kind": "person"}, indent=2).encode()
    again = await owner.request("POST", "/v1/principals", data=reordered, headers=key)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    other = await owner.request("POST", "/v1/principals", data=_person("ada2", "Ada"), headers=key)
    assert other.code == "idempotency_key_reused"
    refused = {"Idempotency-Key": "k-2"}
    assert (await owner.request("POST", "/v1/principals", data=_person("", "Ada"), headers=refused)).status == 400
    assert (await owner.request("POST", "/v1/principals", data=_person("ada3", "A"), headers=refused)).status == 201


def _person(handle: str, name: str) -> bytes:
    return json.dumps({"kind": "person", "handle": handle, "display_name": name}).encode()


# How it ends.


@pytest.fixture
def gate(own_live: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, asyncio.Event]]:
    """Reads that begin (the first event) and end when the second one is set, in the server's loop."""
    begun, go_on = threading.Event(), asyncio.Event()
    read = Context.read

    async def slow(context: Context, operation: str, parameters: Any, *, limits: tuple[str, ...] = ()) -> Answer:
        begun.set()
        await go_on.wait()
        return await read(context, operation, parameters, limits=limits)

    monkeypatch.setattr(Context, "read", slow)
    yield begun, go_on
    own_live.loop.call_soon_threadsafe(go_on.set)


def test_a_stopping_server_finishes_what_it_accepted_and_takes_no_more(
    own_live: Live, gate: tuple[threading.Event, asyncio.Event]
) -> None:
    begun, go_on = gate
    sent = request("GET", "/v1/spaces", f"Authorization: Bearer {own_live.tokens['owner']}")
    with connect(own_live) as idle, connect(own_live) as busy:
        idle.sendall(request("GET", "/v1/health"))
        stream = idle.makefile("rb")
        assert read_response(stream).status == 200
        busy.sendall(sent)
        assert begun.wait(PATIENCE)
        port = own_live.port
        stopping = asyncio.run_coroutine_threadsafe(own_live.app.stop(), own_live.loop)
        assert stream.read() == b""  # the idle connection is closed
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        assert not stopping.done()
        assert own_live.run(own_live.app.service.readiness()).code == "not_ready"
        said = json.loads(own_live.run(own_live.app.service.readiness()).body)
        assert said == {"status": "stopping", "checks": {"database": "ok", "lane": "ok"}}
        own_live.loop.call_soon_threadsafe(go_on.set)
        assert read_response(busy.makefile("rb")).status == 200
        stopping.result(PATIENCE)


def test_waiting_for_what_was_accepted_has_an_end(
    own_live: Live, gate: tuple[threading.Event, asyncio.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, _ = gate
    monkeypatch.setattr(own_live.app._server, "_grace", 0.05)
    with connect(own_live) as busy:
        busy.sendall(request("GET", "/v1/spaces", f"Authorization: Bearer {own_live.tokens['owner']}"))
        assert begun.wait(PATIENCE)
        own_live.run(own_live.app.stop())
        assert busy.recv(1) == b""


def test_stopping_twice_is_stopping(own_live: Live) -> None:
    own_live.run(own_live.app.stop())
    own_live.run(own_live.app._server.stop())
    assert isinstance(own_live.app._server, Server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_in_order(database_dsn: str, tmp_path: Path, number: signal.Signals) -> None:
    environment = {
        **os.environ,
        "DATABASE_URL": database_dsn,
        "LIVEBOX_DATA": str(tmp_path),
        "LIVEBOX_HTTP_PORT": "0",
        "LIVEBOX_LOG_FORMAT": "json",
    }
    command = [sys.executable, "-m", "livebox", "serve"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline()
        port = int(url.split("http://127.0.0.1:")[1].split()[0])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(request("GET", "/v1/readiness"))
            assert read_response(connection.makefile("rb")).status == 200
            process.send_signal(number)
            _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in errors.splitlines() if line.startswith("{")]
    assert events[0] == "started"
    assert "stopping" in events
    assert "Traceback" not in errors


async def test_a_second_signal_does_not_wait(
    database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, started = asyncio.Event(), asyncio.Event()
    stop, apps = app.App.stop, []

    async def never_stop(found: app.App) -> None:
        apps.append(found)
        stopping.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(app.App, "stop", never_stop)
    settings = Settings.load({}, {"data": str(tmp_path), "http.port": 0})
    serving = asyncio.create_task(app.serve(settings, database_dsn, lambda _: started.set()))
    await started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await stopping.wait()
    assert not serving.done()
    os.kill(os.getpid(), signal.SIGINT)
    await serving
    await stop(apps[0])


def test_a_client_that_goes_away_harms_nobody(live: Live) -> None:
    sent = request("GET", "/v1/spaces", f"Authorization: Bearer {live.tokens['owner']}")
    for cut in (1, len(sent) // 2, len(sent)):
        for _ in range(20):
            with connect(live) as connection:
                connection.sendall(sent[:cut])
    assert exchange(live, sent).status == 200


def test_a_client_that_goes_away_in_the_middle_of_its_body_is_no_error(
    own_live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    headers = (
        f"Authorization: Bearer {own_live.tokens['owner']}",
        "Content-Type: application/json",
        "Content-Length: 100",
        "Expect: 100-continue",
    )
    with connect(own_live) as connection:
        connection.sendall(request("POST", "/v1/spaces", *headers))
        assert connection.recv(100).startswith(b"HTTP/1.1 100")  # now it waits for the body
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    own_live.run(own_live.app.stop())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
