"""The page comes back by itself: after being offline, after sleep, and when the server was killed and started again."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from db import instance
from livebox.auth import new_token, token_hash
from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import BROWSER, Agent, Sit, at_version, box, in_state
from tests.fixtures.server import Live
from tests.fixtures.serving import CHECKED, Serving, Spawn
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

pytestmark = BROWSER

Running = Callable[..., Agent]

# What the browser itself writes when the network is away; nothing else is forgiven.
AWAY = r"^(network|javascript|other): .*(net::ERR_|WebSocket connection)"


def forgive_network(page: Page) -> None:
    """The lines of the browser about requests that could not be sent are no errors of the page."""
    page.errors[:] = [line for line in page.errors if not re.search(AWAY, line)]


async def test_offline_and_back(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await at_version(page, lotse.patch(headline="Before"))
    await page.js("window.same = true")
    await page.offline(True)
    await page.shows("Offline", "#status")
    await page.shows("Connection lost. Last known at", ".away")
    await page.shows("No live connection.", "#away")
    version = lotse.patch(headline="Meanwhile")
    message = lotse.stage.message(lotse.held.run["thread_id"], "owner", "Said meanwhile")
    assert "Before" in await page.text(box())
    await page.offline(False)
    await at_version(page, version)
    await page.shows("Meanwhile", box())
    await page.shows(message["body"], ".messages")
    await page.hides("Connection lost")
    await page.until("!document.querySelector('#away').checkVisibility()")
    assert await page.js("window.same"), "it was not loaded again"
    forgive_network(page)


async def test_before_the_first_session_nothing_is_called_lost(
    chromium: Chromium, running: Running, live: Live
) -> None:
    lotse = running()
    page = await chromium.page()
    # The gateway opens when the test says so; what was shown until then is kept.
    await page.send(
        "Page.addScriptToEvaluateOnNewDocument",
        source="{ const Real = WebSocket; window.WebSocket = class { constructor(...args) { window.dial = () => {"
        " const real = new Real(...args); for (const name of ['onopen', 'onmessage', 'onclose']) real[name] = this[name];"
        " this.send = (text) => real.send(text); this.close = () => real.close();"
        " Object.defineProperty(this, 'readyState', { get: () => real.readyState }); }; } close() {} } }",
    )
    await page.goto(f"{live.url}/#token={live.tokens['alex']}&{lotse.thread.replace('/', '=')}")
    await in_state(page, "running")
    assert await page.text("#status") == "Connecting …"
    assert "lost" not in await page.text()
    await page.js("window.dial()")
    await page.shows("Live", "#status")
    await page.clean()


async def test_what_ended_while_the_device_was_away_is_one_line(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await in_state(page, "running")
    await page.offline(True)
    await page.shows("Offline", "#status")
    lotse.patch(headline="The last word")
    lotse.finish()
    await page.offline(False)
    await in_state(page, "completed")
    assert not await page.js("document.querySelector('.box details').open")
    forgive_network(page)


async def test_a_message_that_was_written_offline_is_sent_once_when_back(sit: Sit, stage: Stage) -> None:
    thread = stage.thread()
    page = await sit("robin", f"thread/{thread}")
    await page.offline(True)
    await page.shows("Offline", "#status")
    await page.click("#message")
    await page.type("Written offline")
    await page.press("Enter", "Ctrl")
    await page.shows("Sending …", ".pending")
    await page.offline(False)
    await page.until("document.querySelectorAll('.messages:not(.pending) .message').length === 1")
    await page.until("!document.querySelector('.pending').checkVisibility()")
    stored = stage.as_("owner").call("listThreadMessages", thread_id=thread).ok()["items"]
    assert [message["body"] for message in stored] == ["Written offline"]
    forgive_network(page)


async def test_a_gap_is_fetched(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await page.js(
        "{ window.drop = true; window.dropped = 0; const real = JSON.parse; JSON.parse = (text) => { const value = real(text);"
        " if (value.type !== 'run.updated' || !window.drop) return value; window.dropped += 1; return {type: 'pong'}; } }"
    )
    for number in range(9):
        lotse.patch(headline=f"Part {number}", metrics={"tool_calls": number})
    await page.until("window.dropped > 0")
    await page.js("window.drop = false")
    version = lotse.ops({"op": "replace", "path": "/headline", "value": "The last"})
    await at_version(page, version)
    await page.shows("The last", box())
    assert "Tool calls8" in await page.js("document.querySelector('.facts').textContent"), "what was lost is there too"


async def test_a_killed_server_comes_back_and_two_browsers_heal(
    chromium: Chromium, spawn: Spawn, data: Path, database_dsn: str
) -> None:
    variables = {"LIVEBOX_DATA": str(data), "DATABASE_URL": database_dsn, **CHECKED}
    server = spawn(**variables).ready()
    world = World(server)
    run = world.run()
    pages = []
    for handle in ("alex", "owner"):
        page = await chromium.page()
        pages.append(page)
        await page.goto(f"{server.url}/#token={world.ids['token', handle]}&thread={run['thread_id']}")
        await in_state(page, "running")
        await page.js("window.same = true")
    version = world.patch("Before the crash")
    for page in pages:
        await at_version(page, version)
    server.process.kill()
    server.process.communicate()
    for page in pages:
        await page.shows("Connection lost. Last known at", ".away")
    again = spawn("--port", server.url.rpartition(":")[2], **variables).ready()
    assert again.url == server.url
    world.server = again
    version = world.patch("After the crash")
    for page in pages:
        await at_version(page, version)
        await page.shows("After the crash", box())
        await page.hides("Connection lost")
        assert await page.js("window.same"), "it was not loaded again"
    world.finish()
    for page in pages:
        await in_state(page, "completed")
        forgive_network(page)
        await page.clean()
    again.end()


class World:
    """The test world of a server in a process of its own, and one run in it."""

    def __init__(self, server: Serving) -> None:
        self.server = server
        lines = [line.split() for line in server.command("world", "--tokens").splitlines()]
        self.ids = {(kind, name): value for kind, name, value in lines}

    def run(self) -> Any:
        """A run that Lotse works on."""
        message = {"body": "Which files?", "client_msg_id": fresh(), "mentions": [self.ids["principal", "lotse"]]}
        thread = self.ids["thread", "Support/General"]
        self.server.post(f"/v1/threads/{thread}/messages", message, self.ids["token", "alex"])
        claimed = self._agent("POST", "/v1/invocations/claim", {"claim_id": fresh()})["items"][0]
        self.run_id, self.invocation = claimed["run"]["id"], claimed["token"]
        return self._agent("POST", f"/v1/runs/{self.run_id}/start", {})

    def patch(self, headline: str) -> int:
        """Patch its headline; the new version."""
        version = self.server.get(f"/v1/runs/{self.run_id}", self.ids["token", "owner"])["version"]
        ops = [{"op": "add", "path": "/headline", "value": headline}]
        body = {"base_version": version, "ops": ops}
        return int(self._agent("PATCH", f"/v1/runs/{self.run_id}/document", body)["version"])

    def finish(self) -> None:
        """End it."""
        self._agent("POST", f"/v1/runs/{self.run_id}/finish", {"state": "completed", "summary": "12 files."})

    def _agent(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(self.server.url + path, json.dumps(body).encode(), method=method)  # noqa: S310
        request.add_header("Content-Type", "application/json")
        request.add_header("Livebox-Invocation", getattr(self, "invocation", ""))
        return self.server.send(request, self.ids["token", "lotse"])


async def test_a_token_that_is_taken_away_leads_back_to_signing_in(sit: Sit, running: Running, live: Live) -> None:
    lotse = running()
    token = new_token()
    issued = instance.issue_token(live.dsn, "alex", token_hash(token), 3600)
    assert issued is not None
    page = await sit("alex", lotse.thread, token=token)
    await in_state(page, "running")
    instance.revoke_token(live.dsn, issued.token_id)
    await page.shows("The server does not take this token.", "#sign-in")
    assert await page.js("document.querySelectorAll('.box').length") == 0
    assert await page.js("sessionStorage.length") == 0
    assert await page.js("document.activeElement.id") == "token"


async def test_a_token_that_expires_leads_back_to_signing_in(sit: Sit, live: Live) -> None:
    page = await sit("alex", token=live.issue("alex", 4))
    await page.shows("Your token has expired. Sign in with a new one.", "#sign-in")
