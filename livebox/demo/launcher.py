"""Starts what the demo needs - server, world, agent - plays the scenario, and leaves the server up until a signal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
import webbrowser
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console

import livebox
from db import instance
from livebox.app import App
from livebox.auth import new_token, token_hash
from livebox.client import GatewayAbsent, GatewayRefused, Livebox, Problem, Unreachable
from livebox.demo.process import AgentProcess
from livebox.demo.scenario import AGENT, MISSING, PLACE, Asked, Scenario, Unexpected, check_failure, check_report
from livebox.demo.view import view
from livebox.settings import Settings
from livebox.world import OWNER, World, WorldError, load

T = TypeVar("T")

INTERRUPTED: Final = 130
PAGE_PAUSE: Final = 2.0  # seconds in which a browser shows the page before the first question
_SAMPLE: Final = {
    "README.md": "# Sample\n\nA small folder to look into.\n\nTODO say more\n",
    "app/main.py": 'def main() -> None:\n    print("hello")  # TODO greet by name\n',
    "app/schema.sql": "CREATE TABLE greetings (name text PRIMARY KEY);\n",
    "app/static/page.html": "<!doctype html>\n<title>Sample</title>\n",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo is played: the agent's root, seconds of rest between its phases, whether to end after the runs."""

    root: Path
    pace: float
    exit_when_done: bool


class Launcher:
    """One demo on the database `dsn`; what it writes beside that goes into `folder`."""

    def __init__(self, settings: Settings, dsn: str, folder: Path, options: Options) -> None:
        self._settings = settings
        self._dsn = dsn
        self._folder = folder
        self._options = options
        self._console = Console(highlight=False)
        self._issued: list[str] = []
        self._done = False

    async def play(self) -> int:
        """The exit status: 0 when all was as it must be, 1 when not, 130 when it was interrupted before."""
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, asked.set)
        playing = asyncio.create_task(self._play(asked))
        stopping = asyncio.create_task(asked.wait())
        try:
            await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done() and not self._done:
                playing.cancel()
            await playing
        except asyncio.CancelledError:
            click.echo("interrupted", err=True)
            return INTERRUPTED
        except (Unexpected, WorldError, Problem, Unreachable, GatewayAbsent, GatewayRefused) as error:
            click.echo(f"The demo failed: {error}", err=True)
            return 1
        finally:
            stopping.cancel()
            for token_id in self._issued:
                instance.revoke_token(self._dsn, token_id)
        return 0

    async def _play(self, asked_to_stop: asyncio.Event) -> None:
        owner = instance.create_owner(self._dsn, OWNER, OWNER.capitalize())
        if owner is None:
            raise Unexpected(f"the handle {OWNER} belongs to somebody who is no active owner")
        app = App(self._settings, self._dsn)
        await app.start()
        try:
            world = await load(app.database, owner)
            url = f"http://{self._settings.text('http.host')}:{app.port}"
            click.echo(f"Livebox listens on {url}, its database is in {self._settings.text('data')}")
            await self._act(url, world, asked_to_stop)
        finally:
            await app.stop()

    async def _act(self, url: str, world: World, asked_to_stop: asyncio.Event) -> None:
        """What is shown, on a server that is up: Alex asks Lotse twice."""
        alex_token = self._token("alex")
        agent = AgentProcess.lotse(self._folder, url, self._token("lotse"), self._options.root, pace=self._options.pace)
        async with agent, Livebox(url, alex_token) as alex:
            click.echo(f"Lotse runs as process {agent.pid} and may read below {self._options.root}")
            click.echo("It asks no model: the tokens, the context and the cost that it shows are simulated.")
            if not self._options.exit_when_done:
                await _show_page(f"{url}/#token={alex_token}")
            scenario = Scenario(alex, world.threads[PLACE], world.principals["lotse"])
            report = await while_alive([agent.ended()], self._runs(scenario))
            self._done = True
            if not self._options.exit_when_done:
                _invite(url, alex_token, report)
                await asked_to_stop.wait()
                click.echo("Stopping.")

    async def _runs(self, scenario: Scenario) -> Asked:
        report = await self._ask(scenario, f"@{AGENT} what is in this folder?")
        check_report(report)
        async for line in scenario.report_of(report):
            click.echo(f"    {line}".rstrip())
        check_failure(await self._ask(scenario, f"@{AGENT} and what is in `{MISSING}`?"))
        return report

    async def _ask(self, scenario: Scenario, text: str) -> Asked:
        click.echo(f"\nAlex: {text}")
        return await scenario.ask(text, lambda: view(self._console, AGENT))

    def _token(self, handle: str) -> str:
        token = new_token()
        issued = instance.issue_token(self._dsn, handle, token_hash(token), self._settings.number("auth.token_ttl"))
        if issued is None:
            raise Unexpected(f"{handle} is disabled here")
        self._issued.append(issued.token_id)
        return token


async def while_alive(ends: Sequence[Awaitable[str]], work: Coroutine[Any, Any, T]) -> T:
    """The work's result; Unexpected, with what an agent said last, when one of them ends before it is done."""
    working = asyncio.ensure_future(work)
    ended = [asyncio.ensure_future(each) for each in ends]
    try:
        await asyncio.wait({working, *ended}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Unexpected(next(each.result() for each in ended if each.done()))
        return working.result()
    finally:
        for each in (working, *ended):
            each.cancel()
        await asyncio.wait({working, *ended})


async def _show_page(address: str) -> None:
    """The address of the page, signed in as Alex; where there is a screen, a browser opens on it before the run begins.

    The token is behind the #, which no browser sends, and the page takes it out of the address.
    """
    click.echo(f"\nWatch it as Alex in a browser: {address}")
    browser = _browser() if sys.stdout.isatty() else None
    if browser is not None and await asyncio.to_thread(browser.open, address):
        await asyncio.sleep(PAGE_PAUSE)


def _browser() -> webbrowser.BaseBrowser | None:
    """A browser with a window; None where there is none, or only one that would take the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    return None if type(browser) is webbrowser.GenericBrowser else browser


def _invite(url: str, token: str, report: Asked) -> None:
    """The URL and three lines to paste."""
    authorization = f"-H 'Authorization: Bearer {token}'"
    run_id, thread_id = report.run["id"], report.run.get("thread_id", "")
    message = json.dumps({"body": "What is in this folder?", "client_msg_id": str(uuid.uuid4())})
    click.echo(f"\nThe server stays up at {url} until you press Ctrl-C. See the run, its steps, and ask again:\n")
    click.echo(f"curl -sS {url}/v1/runs/{run_id} {authorization}")
    click.echo(f"curl -sS {url}/v1/runs/{run_id}/steps {authorization}")
    click.echo(
        f"curl -sS {url}/v1/threads/{thread_id}/messages {authorization}"
        f" -H 'Content-Type: application/json' -d '{message}'"
    )
    click.echo("\nThe last one never posts twice: its client_msg_id is the same each time you paste it.")


def project_folder(otherwise: Path) -> Path:
    """The folder of this project; a small sample, made in `otherwise`, where only the package is installed."""
    project = Path(livebox.__file__).resolve().parents[1]
    if (project / "openapi.yaml").is_file() and (project / "pyproject.toml").is_file():
        return project
    for name, text in _SAMPLE.items():
        file = otherwise / "sample" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return otherwise / "sample"
