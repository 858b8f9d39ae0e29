"""Each part of the bench does its work and checks it, on sizes far too small to say anything about speed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from db.embedded import Server
from tests.bench import (
    delivering,
    durable,
    edges,
    footprint,
    growth,
    layer,
    patching,
    peers,
    pgbench,
    reading,
    served,
    transition,
)
from tests.bench.bare import bare
from tests.bench.plan import Plan
from tests.bench.report import Findings
from tests.bench.stage import Stage
from tests.fixtures.database import connect

TINY = Plan(
    rounds=1,
    transitions=2,
    reads=3,
    requests=3,
    growth=((20, 200), (40, 400)),
    samples=3,
    starts=1,
    patches=20,
    devices=5,
    fanned=4,
    seconds=0.2,
    stuck_seconds=0.05,
    sessions=4,
)


@pytest.fixture(autouse=True)
def _no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few operations have no rate: they are only counted."""

    def count(completions: Sequence[Sequence[float]]) -> float:
        return float(sum(len(times) for times in completions))

    for module in (layer, pgbench, served, transition):
        monkeypatch.setattr(module, "rate", count)


@pytest.fixture
def template(server: Server) -> Iterator[Stage]:
    """A database for the bench, and whatever it copies from it, dropped at the end."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    with closing(connect(server.dsn("postgres"))) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        stage = Stage(server, name)
        stage.prepare()
        yield stage
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (name,))
        for (made,) in cursor.fetchall():
            cursor.execute(f'DROP DATABASE "{made}" WITH (FORCE)')


def test_transition_and_reading_over_every_way(template: Stage, tmp_path: Path) -> None:
    with served.served(tmp_path / "data", template.dsn) as running:
        transitions = transition.measure(template, template, running, TINY)
        reads = reading.measure(template, running, TINY)
    assert _goals(transitions) == 3
    assert _goals(reads) == 1
    assert all(detail.rate.per_second == 32 * TINY.transitions for detail in transitions.details)


def test_patches_over_every_way(template: Stage, tmp_path: Path) -> None:
    with served.served(tmp_path / "data", template.dsn) as running, bare() as plain:
        patches = patching.measure(template, running, plain, TINY)
        late = delivering.latency(template, running, plain, TINY)
        stuck = delivering.stuck(template, running, TINY)
        fanned = delivering.fan_out(template, running, plain, TINY)
        left = durable.measure(template, running, TINY)
    assert _goals(patches) == 2 + (len(peers.GOALS) if peers.installed() else 0)
    assert _goals(late) == 1
    assert _goals(stuck) == 2
    assert _goals(fanned) == 2
    assert [row.met for row in left.rows] == [True, True]


def test_memory_of_sessions_and_runs(template: Stage, tmp_path: Path) -> None:
    found = footprint.measure(template, lambda: served.served(tmp_path / "data", template.dsn), TINY)
    assert _goals(found) == 2


def test_growth_over_two_sizes(template: Stage) -> None:
    assert _goals(growth.measure(lambda name: template.copy(f"{template.name}_{name}"), TINY)) == 7


@pytest.mark.breaks_contract  # both answer with one document, made up to be of a usual size
def test_the_layer_answers_like_a_bare_handler() -> None:
    found = layer.measure(TINY)
    assert _goals(found) == 2
    assert {detail.rate.per_second for detail in found.details} == {layer.CALLERS * TINY.requests}


def test_the_edge_reads_what_a_plain_reader_reads() -> None:
    found = edges.measure(TINY)
    assert len(found.rows) == len(edges.BODIES)
    assert _goals(found) == 0


def _goals(found: Findings) -> int:
    return sum(row.met is not None for row in found.rows)
