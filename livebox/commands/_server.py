"""What the commands that talk to a running server share: its URL, a token, and its refusals in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import click

from livebox.client import GatewayAbsent, GatewayRefused, Livebox, Problem, Unreachable
from livebox.commands._terminal import configuration

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE: Final = 5.0  # seconds


class Server:
    """The server that the command talks to, as one principal."""

    def __init__(self, url: str | None, token_file: Path | None) -> None:
        settings = configuration(client__url=url)
        self._url = settings.text("client.url")
        self._token = settings.text("client.token")
        if token_file is not None:
            try:
                self._token = token_file.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise click.BadParameter(f"{token_file} cannot be read: {error}", param_hint="--token-file") from None
        self._token = self._token.strip()
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise click.BadParameter(f"{self._url} is no http or https URL", param_hint="--url")
        if not self._token.isascii() or not self._token.isprintable() or not self._token:
            raise click.UsageError(
                "a token is needed: set LIVEBOX_TOKEN or give --token-file (`livebox token issue HANDLE` makes one)"
            )

    def run(self, work: Callable[[Livebox], Coroutine[Any, Any, T]]) -> T:
        """What `work` gives. A refusal, or no answer, ends the command with one line and status 1."""
        try:
            return asyncio.run(self._run(work))
        except Problem as problem:
            raise click.ClickException(str(problem)) from None
        except (Unreachable, GatewayAbsent, GatewayRefused) as error:
            raise click.ClickException(str(error)) from None

    async def _run(self, work: Callable[[Livebox], Coroutine[Any, Any, T]]) -> T:
        async with Livebox(self._url, self._token, patience=PATIENCE) as livebox:
            return await work(livebox)


def server_options(command: Callable[P, T]) -> Callable[P, T]:
    """Gives a command the options `url` and `token_file`."""
    url = click.option("--url", help="The server; `client.url` by default (LIVEBOX_URL).")
    token = click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file with your token, instead of LIVEBOX_TOKEN.",
    )
    return url(token(command))
