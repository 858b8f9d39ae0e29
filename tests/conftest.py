"""Fixtures for all tests: see tests/fixtures/."""

pytest_plugins = [
    "tests.fixtures.database",
    "tests.fixtures.operations",
    "tests.fixtures.server",
    "tests.fixtures.stage",
    "tests.fixtures.serving",
    "tests.fixtures.world",
]
