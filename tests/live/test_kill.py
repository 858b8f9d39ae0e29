"""Servers that are killed and stopped while they serve live documents: versions never go back, a stop loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.serving import Serving, Spawn

ROUNDS = 2
SETTINGS = {"LIVEBOX_RUN_PATCH_RATE": "100000", "LIVEBOX_RUN_PATCH_BURST": "100000", "LIVEBOX_RUN_VERSION_BLOCK": "16"}


class Agent:
    """An agent over HTTP that works on one run, and everything that it was told and saw of its version."""

    def __init__(self, server: Serving) -> None:
        self.server = server
        self.token = server.command("token", "issue", "lotse")
        self.person = server.command("token", "issue", "alex")
        thread = server.command("world", "--id", "thread:Support/General")
        lotse = server.command("world", "--id", "principal:lotse")
        request = {"body": "Look", "client_msg_id": str(uuid.uuid4()), "mentions": [lotse]}
        server.post(f"/v1/threads/{thread}/messages", request, self.person)
        claimed = server.post("/v1/invocations/claim", {"claim_id": str(uuid.uuid4())}, self.token)["items"][0]
        self.run_id = claimed["run"]["id"]
        self.invocation = claimed["token"]
        self.version = self.ask("POST", "start", {})["version"]
        self.seen = self.version
        self.content = ""

    def ask(self, method: str, what: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "Livebox-Invocation": self.invocation}
        url = f"{self.server.url}/v1/runs/{self.run_id}/{what}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)  # noqa: S310
        return self.server.send(request, self.token)

    def patch(self, text: str) -> None:
        """One patch that is acknowledged, healing from conflicts."""
        while True:
            ops = [{"op": "add", "path": "/headline", "value": text}]
            try:
                told = self.ask("PATCH", "document", {"base_version": self.version, "ops": ops})
            except urllib.error.HTTPError as error:
                problem = json.load(error)
                assert problem["code"] == "version_conflict", problem
                assert problem["run"]["version"] >= self.seen
                self.seen = self.version = problem["run"]["version"]
                continue
            assert told["version"] > self.seen
            self.seen = self.version = told["version"]
            self.content = text
            return

    def look(self) -> dict[str, Any]:
        """getRun: what it shows never goes back."""
        run = self.server.get(f"/v1/runs/{self.run_id}", self.person)
        assert run["version"] >= self.seen, "the version went back"
        self.seen = run["version"]
        return dict(run)


def serve(spawn: Spawn, data: Path) -> Serving:
    return spawn(LIVEBOX_DATA=str(data), **SETTINGS).ready()


@pytest.mark.timeout(600)
def test_versions_never_go_back_over_a_kill(spawn: Spawn, data: Path) -> None:
    server = serve(spawn, data)
    server.command("world")
    agent = Agent(server)
    for turn in range(ROUNDS):
        postmaster = int((data / "postgres" / "postmaster.pid").read_text().split()[0])

        def kill(server: Serving = server, postmaster: int = postmaster, turn: int = turn) -> None:
            server.process.kill()
            if turn % 2:
                os.kill(postmaster, signal.SIGKILL)

        timer = threading.Timer(random.uniform(0.05, 0.5), kill)
        timer.start()
        try:
            for index in range(100_000):
                agent.patch(f"{turn}.{index}")
                if index % 10 == 0:
                    assert agent.look()["headline"] == agent.content
        except (OSError, urllib.error.URLError):
            pass
        timer.join()
        server.process.communicate()
        server = agent.server = serve(spawn, data)
        agent.look()
        agent.patch("after")
        assert agent.look()["headline"] == "after"
    assert server.end()[0] == 0


@pytest.mark.timeout(300)
def test_a_stop_loses_nothing(spawn: Spawn, data: Path) -> None:
    server = serve(spawn, data)
    server.command("world")
    agent = Agent(server)
    for turn in range(2):
        for index in range(50):
            agent.patch(f"{turn}.{index}")
        assert server.end()[0] == 0
        server = agent.server = serve(spawn, data)
        run = agent.look()
        assert (run["headline"], run["version"]) == (agent.content, agent.seen)
    told = agent.ask("POST", "finish", {"state": "completed"})
    assert told["headline"] == agent.content
    assert server.end()[0] == 0
