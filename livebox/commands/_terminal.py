"""What the commands share: configuration and database with their errors for people, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from db import DatabaseError
from db.embedded import EmbeddedError, Server
from db.migrate import migrate
from livebox.key import Value
from livebox.postgres import postgres
from livebox.settings import Settings, SettingsError


class WrongConfiguration(click.ClickException):
    """Every problem of the configuration, one a line; exit status 2."""

    exit_code = 2

    def __init__(self, error: SettingsError) -> None:
        lines = [f"  {problem}" for problem in error.problems]
        super().__init__("\n".join(["the configuration is wrong:", *lines, "See `livebox config --help`."]))


def configuration(**given: Value | None) -> Settings:
    """The effective configuration; `given` are command line options by key (`http__port` for `http.port`)."""
    overrides = {name.replace("__", "."): value for name, value in given.items() if value is not None}
    try:
        return Settings.load(overrides=overrides)
    except SettingsError as error:
        raise WrongConfiguration(error) from None


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; plain tab-separated lines where the output is no terminal, so that other programs can read it."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            click.echo("\t".join(str(cell) for cell in row))
        return
    shown = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        shown.add_row(*(Text(str(cell)) for cell in row))  # as it is: brackets in it are no markup
    console.print(shown)


def data_folder(settings: Settings) -> Path:
    """The data folder, in full."""
    return Path(settings.text("data")).expanduser().resolve()


def there(settings: Settings) -> bool:
    """Whether there is a database already: one that DATABASE_URL names, or an embedded one in the data folder."""
    return bool(settings.text("database.url")) or Server(data_folder(settings)).made()


@contextmanager
def database(settings: Settings, *, keep: bool = False, existing: bool = False) -> Iterator[str]:
    """The connection string of a database with the present schema, while the block runs.

    With `keep` an embedded one that ends meanwhile is started again; with `existing` none is made where there is none.
    What can go wrong with it is told in one line instead of a traceback.
    """
    if existing and not there(settings):
        raise click.ClickException(
            f"there is no instance in {data_folder(settings)}; run `livebox serve` there, or set LIVEBOX_DATA"
        )
    try:
        with postgres(settings, keep=keep) as dsn:
            migrate(dsn)
            yield dsn
    except (DatabaseError, EmbeddedError) as error:
        raise click.ClickException(f"the database: {error}") from error


def listening(what: str, host: str, port: int) -> str:
    """The line that says where a server listens."""
    shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"{what} listens on http://{shown}:{port} (Ctrl-C stops it)"
