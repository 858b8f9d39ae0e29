"""`livebox owner`: make the first owner of an instance."""

from __future__ import annotations

import click

from db import instance
from generated.validators import checker
from livebox.commands._terminal import configuration, data_folder, database, there


@click.command("owner")
@click.argument("handle")
@click.option("--name", metavar="NAME", help="How people see them; the handle by default.")
def command(handle: str, name: str | None) -> None:
    """Make the person HANDLE an owner, who can make everybody else, and print the id. Safe to repeat.

    Makes an instance where there is none. `livebox token issue HANDLE` then gives a token."""
    wanted = {"kind": "person", "handle": handle, "display_name": name or handle}
    for error in checker("/schemas/CreatePrincipalRequest")(wanted):
        hint = "HANDLE" if error.name == "/handle" else "--name"
        raise click.BadParameter(error.message, param_hint=hint)
    settings = configuration()
    if not there(settings):
        click.echo(f"making a new instance in {data_folder(settings)}", err=True)
    with database(settings) as dsn:
        made = instance.create_owner(dsn, handle, wanted["display_name"])
    if made is None:
        raise click.ClickException(f"the handle {handle} belongs to somebody who is no active owner")
    click.echo(made)
