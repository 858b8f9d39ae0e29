"""`livebox migrate`: bring the database to the schema of this version."""

from __future__ import annotations

import click

from db import DatabaseError
from db.embedded import EmbeddedError
from db.migrate import migrate, pending
from livebox.commands._terminal import configuration
from livebox.postgres import postgres


@click.command("migrate")
@click.option("--check", is_flag=True, help="Change nothing; say what is missing and exit with 1 when something is.")
def command(check: bool) -> None:
    """Bring the database to the schema of this version: forward only, all or nothing, safe to run several at once.

    `livebox serve` does this by itself.
    """
    try:
        with postgres(configuration()) as dsn:
            plan = pending(dsn) if check else migrate(dsn)
    except (DatabaseError, EmbeddedError) as error:
        raise click.ClickException(f"the database: {error}") from error
    for name in plan.migrations:
        click.echo(f"{'missing' if check else 'applied'} {name}")
    if plan.functions:
        click.echo(f"{len(plan.functions)} functions {'differ' if check else 'loaded'}")
    if not plan.migrations and not plan.functions:
        click.echo("the schema is up to date")
    elif check:
        raise SystemExit(1)
