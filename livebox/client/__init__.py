"""A client of Livebox: for people's tools and for agents. Knows the contract (`generated`) and nothing else of ours."""

from livebox.client.problems import Problem, Unreachable
from livebox.client.rest import ENDED, Rest

__all__ = ["ENDED", "Problem", "Rest", "Unreachable"]
