"""`livebox mock`: the contract's examples over HTTP, for building a client before there is a database."""

from __future__ import annotations

import asyncio
import importlib.util
import math

import click

from livebox import log
from livebox.commands._terminal import configuration, listening


@click.command("mock")
@click.option("--host", help="Address to listen on; `http.host` by default.")
@click.option("--port", type=int, help="Port to listen on, 0 for a free one; `http.port` by default.")
@click.option("--gateway", "with_gateway", is_flag=True, help="Play a session of the gateway too.")
@click.option("--script", default="run", show_default=True, help="What sessions of the gateway play; `?` lists all.")
@click.option("--pace", default=0.5, show_default=True, type=click.FloatRange(0, 60), help="Seconds between frames.")
def command(host: str | None, port: int | None, with_gateway: bool, script: str, pace: float) -> None:
    """Answer every operation with the examples of the contract, without a database, until Ctrl-C.

    Requests that break the contract are refused as the server refuses them; any token is taken. `Prefer: example=NAME`
    or `Prefer: code=STATUS` chooses the answer.
    """
    if importlib.util.find_spec("connexion") is None:
        raise click.ClickException("`livebox mock` needs connexion: `pip install -e '.[mock]'` in the project's folder")
    # Here, not above: what this loads is not for the other commands to wait for.
    from livebox.mock.gateway import Gateway
    from livebox.mock.script import scripts
    from livebox.mock.server import serve

    if script not in scripts():
        raise click.BadParameter(f"there are {', '.join(scripts())}", param_hint="--script")
    if math.isnan(pace):  # a range lets it pass, and nothing ever comes after so many seconds
        raise click.BadParameter("it is not a number", param_hint="--pace")
    settings = configuration(http__host=host, http__port=port)
    log.configure(settings.text("log.level"), settings.text("log.format"))
    gateway = Gateway(settings, script, pace) if with_gateway else None
    where = settings.text("http.host")
    try:
        asyncio.run(serve(settings, gateway, lambda found: click.echo(listening("Livebox mock", where, found))))
    except OSError as error:
        where = f"{where}:{settings.integer('http.port')}"
        raise click.ClickException(f"cannot listen on {where}: {error.strerror or error}") from None
