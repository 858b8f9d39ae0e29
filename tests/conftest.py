"""Fixtures for all tests: see tests/fixtures/."""

import pytest

pytest_plugins = [
    "tests.fixtures.database",
    "tests.fixtures.operations",
    "tests.fixtures.world",
    "tests.fixtures.server",
    "tests.fixtures.stage",
    "tests.fixtures.serving",
    "tests.fixtures.readers",
    "tests.fixtures.fuzzing",
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, whatever the order of the others: no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long those tests go on that find more the longer they run; `make soak` asks for much."""
    parser.addoption("--kills", type=int, default=50, help="how often the server is killed under load")
    parser.addoption(
        "--histories", type=int, default=60, help="random histories that are played against the model of runs"
    )
