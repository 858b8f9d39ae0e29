"""The tests of this folder run on the embedded server and on every PostgreSQL that this machine has installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db.embedded import Server
from tests.fixtures.database import built_template, running

OLDEST = 15


def installed() -> list[Path]:
    """Where the programs of installed PostgreSQL versions are, old enough ones left out."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return sorted(path.parent for path in found if path.parts[-3].isdigit() and int(path.parts[-3]) >= OLDEST)


PROGRAMS = [None, *installed()]


@pytest.fixture(
    scope="session", params=PROGRAMS, ids=lambda programs: "embedded" if programs is None else f"pg{programs.parts[-2]}"
)
def server(session_folder: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """The embedded server of this session, or one made from installed programs; never from a running service."""
    programs: Path | None = request.param
    # Not the folder of the other tests' server: the same process may still use that when this one is stopped.
    name = "server-db" if programs is None else f"server-{programs.parts[-2]}"
    with running(session_folder / name, programs) as server:
        yield server


@pytest.fixture(scope="session")
def template(server: Server, session_folder: Path) -> str:
    """As for all tests, but built anew for each of the servers: the shared fixture would keep the first one's."""
    return built_template(server, session_folder)
