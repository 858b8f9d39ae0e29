"""`livebox token`: local bearer tokens. They are shown once, and kept as a hash."""

from __future__ import annotations

import uuid

import click

from db import instance
from livebox.auth import new_token, token_hash
from livebox.commands._terminal import configuration, database, table
from livebox.keys import DAY, KEYS, MAXIMUM_SECONDS


@click.group("token")
def command() -> None:
    """Issue, list and revoke local tokens."""


@command.command("issue")
@click.argument("handle")
@click.option("--ttl", metavar="DURATION", help="How long it holds, such as 1h or 30d; `auth.token_ttl` by default.")
def issue(handle: str, ttl: str | None) -> None:
    """Print a fresh token of the principal HANDLE. It cannot be shown again."""
    settings = configuration()
    seconds = settings.number("auth.token_ttl")
    if ttl is not None:
        try:
            seconds = float(KEYS["auth.token_ttl"].read(ttl))
        except ValueError as wrong:
            bounds = f"a token may hold from 60s to {MAXIMUM_SECONDS // DAY}d"
            raise click.BadParameter(f"{ttl} {wrong}: {bounds}", param_hint="--ttl") from None
    token = new_token()
    with database(settings, existing=True) as dsn:
        issued = instance.issue_token(dsn, handle, token_hash(token), seconds)
    if issued is None:
        raise click.ClickException(
            f"there is no active principal with the handle {handle} (`livebox world` loads those of the examples)"
        )
    click.echo(f"token {issued.token_id} of {handle}, until {issued.expires_at}", err=True)
    click.echo(token)


@command.command("list")
@click.argument("handle", required=False)
def list_(handle: str | None) -> None:
    """List the tokens of HANDLE, or all: ids, ends and states, never the tokens themselves."""
    with database(configuration(), existing=True) as dsn:
        found = instance.list_tokens(dsn, handle)
    table(("id", "principal", "created", "expires", "state"), found)


@command.command("revoke")
@click.argument("token_id")
def revoke(token_id: str) -> None:
    """End the token TOKEN_ID (an id of `livebox token list`) from the next request on."""
    try:
        uuid.UUID(token_id)
    except ValueError:
        raise click.BadParameter("is not the id of a token", param_hint="TOKEN_ID") from None
    with database(configuration(), existing=True) as dsn:
        revoked = instance.revoke_token(dsn, token_id)
    if not revoked:
        raise click.ClickException("there is no token of that id")
    click.echo("revoked")
