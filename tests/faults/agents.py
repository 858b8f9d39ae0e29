"""Agents and people that talk to a `livebox serve` process over HTTP, through its failures."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import uuid
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request

from tests.fixtures.database import connect
from tests.fixtures.serving import Serving

BEAT: Final = 0.2
"""Seconds between two beats of an agent."""


class Crew:
    """A person and an agent of the world, on whichever server is there now."""

    def __init__(self, server: Serving, dsn: str) -> None:
        self.server = server
        self.dsn = dsn
        server.command("world")
        self.person = server.command("token", "issue", "alex")
        self.agent = server.command("token", "issue", "lotse")
        self.agent_id = server.command("world", "--id", "principal:lotse")
        self.channel = server.command("world", "--id", "channel:Support/General")

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Rows of a plain statement, committed."""
        with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def state(self, run_id: str) -> tuple[str, str | None]:
        """State and reason of a run."""
        (found,) = self.sql("SELECT state, state_reason FROM livebox.runs WHERE id = %s", run_id)
        return found[0], found[1]

    def row(self, run_id: str) -> str:
        """The whole row of a run."""
        return str(self.sql("SELECT r::text FROM livebox.runs r WHERE id = %s", run_id)[0][0])

    def queued(self) -> tuple[str, str]:
        """A new run in a thread of its own: its id, and that of the thread."""
        thread = self.server.post(f"/v1/channels/{self.channel}/threads", {"title": "Weekly report"}, self.person)["id"]
        self.says(thread, [self.agent_id])
        (run,) = self.server.get(f"/v1/threads/{thread}/runs", self.person)["items"]
        return run["id"], thread

    def says(self, thread: str, mentions: list[str] | None = None) -> None:
        """The person writes into a thread."""
        body: dict[str, Any] = {"body": "Which files changed?", "client_msg_id": str(uuid.uuid4())}
        if mentions:
            body["mentions"] = mentions
        self.server.post(f"/v1/threads/{thread}/messages", body, self.person)

    def claimed(self) -> Held:
        """A new run that the agent has taken."""
        run_id, thread = self.queued()
        items = self.server.post("/v1/invocations/claim", {"claim_id": str(uuid.uuid4()), "limit": 1}, self.agent)[
            "items"
        ]
        assert [item["run"]["id"] for item in items] == [run_id]
        return Held(self, run_id, thread, items[0]["token"])

    def running(self) -> Held:
        """A new run that the agent works on."""
        held = self.claimed()
        held.control("start", {})
        return held


class Held:
    """A run in the agent's hands."""

    def __init__(self, crew: Crew, run_id: str, thread: str, token: str) -> None:
        self.crew = crew
        self.id = run_id
        self.thread = thread
        self.token = token

    def request(self, action: str, body: Any) -> Request:
        """A request of run control."""
        headers = {"Content-Type": "application/json", "Livebox-Invocation": self.token}
        url = f"{self.crew.server.url}/v1/runs/{self.id}/{action}"
        return Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - http, our own server

    def control(self, action: str, body: Any) -> Any:
        """What run control answers; raises HTTPError when it refuses."""
        return self.crew.server.send(self.request(action, body), self.crew.agent)

    def send(self, action: str, body: Any) -> http.client.HTTPConnection:
        """Sends a request and does not wait for its answer."""
        connection = http.client.HTTPConnection(urlsplit(self.crew.server.url).netloc, timeout=60)
        headers = {
            "Content-Type": "application/json",
            "Livebox-Invocation": self.token,
            "Authorization": f"Bearer {self.crew.agent}",
        }
        connection.request("POST", f"/v1/runs/{self.id}/{action}", json.dumps(body), headers)
        return connection


class Heart:
    """Beats for a run from a thread of its own, whatever the server does, until it is stopped."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._stop = threading.Event()
        self.answers = 0
        self.refusals: list[int] = []
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                self._held.control("heartbeat", {})
                self.answers += 1
            except urllib.error.HTTPError as refused:
                self.refusals.append(refused.code)
            except (OSError, http.client.HTTPException):
                pass
