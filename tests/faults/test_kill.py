"""kill -9 of server and database right after an acknowledgement: what was acknowledged is there, once, with its events."""

from __future__ import annotations

import os
import random
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.serving import UNMEASURED, Serving, Spawn

ROUNDS = 4


def killed_within(server: Serving, data: Path, seconds: float) -> None:
    """Kills the server and, every second time, its database too, after so many seconds."""
    postmaster = int((data / "postgres" / "postmaster.pid").read_text().split()[0])

    def kill() -> None:
        server.process.kill()
        if random.random() < 0.5:
            os.kill(postmaster, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    timer.join()
    server.process.communicate()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_was_acknowledged_survives(spawn: Spawn, data: Path) -> None:
    server = spawn(LIVEBOX_DATA=str(data), **UNMEASURED).ready()
    server.command("world")
    token = server.command("token", "issue", "alex")
    thread = server.command("world", "--id", "thread:Support/General")
    lotse = server.command("world", "--id", "principal:lotse")
    acknowledged: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        request = {"body": "Good morning", "client_msg_id": str(uuid.uuid4()), "mentions": [lotse]}
        message = server.post(f"/v1/threads/{thread}/messages", request, token)
        acknowledged.append(message)
        killed_within(server, data, random.uniform(0, 0.02))
        server = spawn(LIVEBOX_DATA=str(data), **UNMEASURED).ready()
        # The repeat of a client that did not hear the answer finds what was made.
        assert server.post(f"/v1/threads/{thread}/messages", request, token) == message
    assert [server.get(f"/v1/messages/{message['id']}", token) for message in acknowledged] == acknowledged

    events = server.get("/v1/events?after=0&limit=200", token)["items"]
    created = [event["resource"]["id"] for event in events if event["type"] == "message.created"]
    for message in acknowledged:
        assert created.count(message["id"]) == 1
    runs = [event for event in events if event["type"] == "run.state_changed"]
    assert [run["payload"]["triggering_message_id"] for run in runs] == [message["id"] for message in acknowledged]
    assert len(server.get("/v1/active-runs", token)["items"]) == ROUNDS
    assert server.end()[0] == 0
