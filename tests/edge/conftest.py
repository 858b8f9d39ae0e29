"""Fixtures of the edge tests: live servers and the clients that check what they answer."""

from tests.fixtures.server import clients, live, own_clients, own_live

__all__ = ["clients", "live", "own_clients", "own_live"]
