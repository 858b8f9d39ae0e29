"""The embedded database ends under a running server: it comes back by itself, and nothing acknowledged is gone."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.error
import uuid
from pathlib import Path
from typing import Any

import pytest

from db.embedded import Server
from db.keeper import Keeper
from tests.fixtures.serving import Serving, Spawn
from tests.fixtures.waiting import eventually

WRITERS = 4
ENDED, RUNS = "the embedded database has ended", "the embedded database runs again"


def postmaster(data: Path) -> int:
    found = Server(data).postmaster()
    assert found is not None
    return found


def ready(server: Serving) -> bool:
    try:
        return bool(server.get("/v1/readiness")["status"] == "ready")
    except urllib.error.HTTPError:
        return False


class Writers:
    """People who write without a pause, repeat by key what was refused, and remember what was acknowledged."""

    def __init__(self, server: Serving, token: str, thread: str) -> None:
        self._server = server
        self._token = token
        self._path = f"/v1/threads/{thread}/messages"
        self.acknowledged: dict[str, Any] = {}
        self.refused: set[int] = set()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(WRITERS)]
        for one in self._threads:
            one.start()

    async def more(self) -> None:
        """Returns when writes go through."""
        before = len(self.acknowledged)
        await eventually(lambda: len(self.acknowledged) > before + 2 * WRITERS, "writes")

    def stop(self) -> None:
        self._over.set()
        for one in self._threads:
            one.join()

    def _write(self) -> None:
        body: dict[str, str] = {}
        while not self._over.is_set():
            body = body or {"body": "Good morning", "client_msg_id": str(uuid.uuid4())}
            try:
                message = self._server.post(self._path, body, self._token)
            except urllib.error.HTTPError as refused:
                self.refused.add(refused.code)
                self._over.wait(0.05)
            else:
                assert body["client_msg_id"] not in self.acknowledged
                self.acknowledged[body["client_msg_id"]] = message
                body = {}


@pytest.mark.timeout(240)
async def test_a_killed_postmaster_is_started_again(spawn: Spawn, data: Path) -> None:
    variables = {
        "LIVEBOX_DATA": str(data),
        "LIVEBOX_RL_WRITE_RATE": "100000",
        "LIVEBOX_RL_WRITE_BURST": "100000",
        "LIVEBOX_JOBS_REAP_INTERVAL": "0.1",
        "LIVEBOX_RUN_LIFE_FLUSH_INTERVAL": "0.1",
    }
    server, other = spawn(**variables).ready(), spawn(**variables).ready()
    server.command("world")
    token = server.command("token", "issue", "alex")
    writers = Writers(server, token, server.command("world", "--id", "thread:Support/General"))
    for _ in range(2):
        await writers.more()
        before = postmaster(data)
        os.kill(before, signal.SIGKILL)
        await eventually(lambda before=before: Server(data).postmaster() not in (None, before), "the next one")
        await eventually(lambda: ready(server) and ready(other), "both servers")
    await writers.more()
    writers.stop()
    assert writers.refused <= {503}
    for message in writers.acknowledged.values():
        assert server.get(f"/v1/messages/{message['id']}", token) == message
    pid = postmaster(data)
    logs = []
    for one in (server, other):
        status, log = one.end()
        assert status == 0
        logs.append([json.loads(line) for line in log.splitlines()])
    assert Server(data).postmaster() is None, f"{pid} ended with the last server, and nobody started it again"
    ended = 0
    for lines in logs:
        events = [line["event"] for line in lines]
        assert events.count(ENDED) == events.count(RUNS) <= 2, (
            "who looks late finds that the other has started it again"
        )
        ended += events.count(ENDED)
        assert events.count("database_away") <= 2, "once an outage at most"
        assert not [line for line in lines if "exception" in line and line["event"] == "job_failed"]
    assert ended >= 2


@pytest.fixture
def kept(own_server: Server) -> Server:
    """A server whose start fails while there is a file called ``broken`` in its folder."""
    launch = own_server._launch

    def launch_or_fail() -> None:
        if (own_server.folder / "broken").exists():
            raise OSError("it cannot be started")
        launch()

    own_server._launch = launch_or_fail  # type: ignore[method-assign]
    return own_server


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "livebox.db.keeper"]


async def test_it_is_given_up_after_some_tries_and_taken_up_when_somebody_else_starts_it(
    kept: Server, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(kept, look=0.01, pauses=(0.0, 0.01, 0.01), stable=0)
    keeper.start()
    (kept.folder / "broken").touch()
    kept.crash()
    given_up = "the embedded database is given up after 3 tries: it cannot be started"
    await eventually(lambda: told(caplog) == [ENDED, given_up], "the end of its tries")
    (kept.folder / "broken").unlink()
    kept.start()
    await eventually(lambda: told(caplog)[2:] == [RUNS], "that it sees the server")
    kept.crash()
    await eventually(lambda: told(caplog)[3:] == [ENDED, RUNS], "its own start")
    assert kept.postmaster() is not None
    keeper.stop()


async def test_a_server_that_ends_after_each_start_is_given_up(kept: Server, caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper(kept, look=0.01, pauses=(0.0, 0.0), stable=3600)
    keeper.start()
    for number in (1, 2):
        kept.crash()
        await eventually(lambda number=number: told(caplog).count(RUNS) == number, "its start")
    kept.crash()
    await eventually(lambda: "given up" in told(caplog)[-1], "the end of its tries")
    assert kept.postmaster() is None
    keeper.stop()
    kept.start()


async def test_who_has_given_the_server_up_does_not_start_it(own_server: Server) -> None:
    own_server.stop()
    own_server.revive()
    assert own_server.postmaster() is None
    own_server.start()


async def test_a_lost_folder_is_not_made_anew(own_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    own_server.crash()
    own_server.data.rename(own_server.folder / "elsewhere")
    keeper = Keeper(own_server, look=0.01, pauses=(0.0,))
    keeper.start()
    await eventually(lambda: any("is gone" in line for line in told(caplog)), "the end of its tries")
    keeper.stop()
    assert not own_server.data.exists()
    (own_server.folder / "elsewhere").rename(own_server.data)
    own_server.start()
