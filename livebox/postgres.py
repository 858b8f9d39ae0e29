"""Which PostgreSQL a process uses: the one that DATABASE_URL names, or the embedded one in the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from db.embedded import Server
from db.keeper import Keeper
from livebox.settings import Settings


@contextmanager
def postgres(settings: Settings, *, keep: bool = False) -> Iterator[str]:
    """The connection string of the database, while the block runs.

    The embedded server is started (or joined, when another process has started it) and given up at the end; the last
    process that uses it stops it. With `keep` it is started again when it ends meanwhile.
    Raises `db.embedded.EmbeddedError` when it cannot be started.
    """
    url = settings.text("database.url")
    if url:
        yield url
        return
    server = Server(Path(settings.text("data")))
    with ExitStack() as ends:
        server.start()
        ends.callback(server.stop)
        if keep:
            keeper = Keeper(server)
            keeper.start()
            ends.callback(keeper.stop)
        yield server.dsn()
