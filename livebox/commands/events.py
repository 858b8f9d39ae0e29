"""`livebox events`: the durable events of the log, as they happen."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from livebox.client import Livebox
from livebox.commands._server import Server, server_options


@click.group("events")
def command() -> None:
    """The log: what happened, and what happens.

    Needs a token: LIVEBOX_TOKEN or --token-file. Columns are separated by tabs.
    """


@command.command("tail")
@click.option("--after", type=click.IntRange(min=0), help="From this position of the log on; from now on without it.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
@server_options
def tail(after: int | None, limit: int | None, as_json: bool, url: str | None, token_file: Path | None) -> None:
    """Print the events that you may see, in the order of the log and each once, until Ctrl-C.

    Each line has the position, the time, the type, and what it is about: kind, id, and for runs the state. What happens
    while the server is away is made up for. A position that the log does not reach back to is refused.
    """

    async def printed(livebox: Livebox) -> None:
        number = 0
        async for event in livebox.events(after):
            click.echo(msgspec.json.encode(event).decode() if as_json else _row(cast(dict[str, Any], event)))
            number += 1
            if number == limit:
                return

    with suppress(KeyboardInterrupt):
        Server(url, token_file).run(printed)


def _row(event: Mapping[str, Any]) -> str:
    resource = event.get("resource", {})
    cells = [str(event["seq"]), event["at"], event["type"], resource.get("kind", ""), resource.get("id", "")]
    payload = event.get("payload", {})
    if event["type"] == "run.state_changed":
        cells.append(payload.get("run", {}).get("state", ""))
    return "\t".join(cells).rstrip("\t")
