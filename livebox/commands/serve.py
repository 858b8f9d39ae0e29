"""`livebox serve`: the server, with its own database unless DATABASE_URL names another."""

from __future__ import annotations

import signal
import sys

import click
import uvloop

from livebox import log
from livebox.app import App, StartError, serve
from livebox.commands._terminal import configuration, database, listening
from livebox.jwks import KeySetError
from livebox.keyring import KeyringError
from livebox.settings import Settings


@click.command("serve")
@click.option("--host", help="Address to listen on; `http.host` by default.")
@click.option("--port", type=int, help="Port to listen on, 0 for a free one; `http.port` by default.")
def command(host: str | None, port: int | None) -> None:
    """Bring the schema up to date and serve until SIGTERM or Ctrl-C.

    What was accepted is finished first. Prints the URL once it listens.
    """
    settings = configuration(http__host=host, http__port=port)
    log.configure(settings.text("log.level"), settings.text("log.format"))
    asked = _wait_with_signals()
    with database(settings, keep=True) as dsn:
        if asked:
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        try:
            uvloop.run(serve(settings, dsn, lambda app: _announce(settings, app)))
        except (StartError, KeyringError, KeySetError) as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            where = f"{settings.text('http.host')}:{settings.integer('http.port')}"
            raise click.ClickException(f"cannot listen on {where}: {error.strerror or error}") from None


def _wait_with_signals() -> list[int]:
    """Until the database is there, a first signal waits (and is in the list): it must not leave one half started."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if asked:
            sys.exit(1)
        asked.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return asked


def _announce(settings: Settings, app: App) -> None:
    click.echo(listening("Livebox", settings.text("http.host"), app.port))
