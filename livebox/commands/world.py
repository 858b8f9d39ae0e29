"""`livebox world`: load the test world and show it."""

from __future__ import annotations

import asyncio

import click

from db import Database, instance
from livebox.auth import new_token, token_hash
from livebox.commands._terminal import configuration, data_folder, database, table, there
from livebox.world import OWNER, World, WorldError, load


@click.command("world")
@click.option("--tokens", is_flag=True, help="Issue and print a fresh token for everybody.")
@click.option("--id", "wanted", metavar="KIND:NAME", help="Print one id only, such as thread:Support/General.")
def command(tokens: bool, wanted: str | None) -> None:
    """Load the small world of examples and tests, and print its names and ids. Safe to repeat.

    Without --id it makes an instance where there is none."""
    settings = configuration()
    if wanted is None and not there(settings):
        click.echo(f"making a new instance in {data_folder(settings)}", err=True)
    with database(settings, existing=wanted is not None) as dsn:
        try:
            loaded = asyncio.run(_loaded(dsn))
        except WorldError as error:
            raise click.ClickException(str(error)) from None
        issued = _tokens(dsn, loaded, settings.number("auth.token_ttl")) if tokens else {}
    rows = _rows(loaded)
    if wanted is None:
        table(("kind", "name", "id"), [*rows, *(("token", handle, token) for handle, token in issued.items())])
        return
    ids = {f"{kind}:{name}": identity for kind, name, identity in rows}
    if wanted not in ids:
        raise click.BadParameter(f"there is none; there are {', '.join(ids)}", param_hint="--id")
    click.echo(ids[wanted])


async def _loaded(dsn: str) -> World:
    owner = instance.create_owner(dsn, OWNER, OWNER.capitalize())
    if owner is None:
        raise WorldError(f"the handle {OWNER} belongs to somebody who is no active owner")
    opened = Database(dsn)
    await opened.start()
    try:
        return await load(opened, owner)
    finally:
        await opened.stop()


def _tokens(dsn: str, world: World, seconds: float) -> dict[str, str]:
    tokens = {}
    for handle in world.principals:
        token = new_token()
        if instance.issue_token(dsn, handle, token_hash(token), seconds) is not None:
            tokens[handle] = token
    return tokens


def _rows(world: World) -> list[tuple[str, str, str]]:
    kinds = {
        "principal": world.principals,
        "group": world.groups,
        "space": world.spaces,
        "channel": world.channels,
        "thread": world.threads,
    }
    return [(kind, name, identity) for kind, ids in kinds.items() for name, identity in ids.items()]
