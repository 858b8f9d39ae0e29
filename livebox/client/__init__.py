"""A client of Livebox: for people's tools and for agents. Knows the contract (`generated`) and nothing else of ours."""

from livebox.client.adapter import Adapter
from livebox.client.handle import Answer, RunHandle, Step, WorkFailed
from livebox.client.livebox import Livebox
from livebox.client.problems import (
    AdapterError,
    GatewayAbsent,
    GatewayLost,
    GatewayRefused,
    Problem,
    RunLost,
    Unreachable,
)
from livebox.client.rest import ENDED, Rest
from livebox.client.working import Pace

__all__ = [
    "ENDED",
    "Adapter",
    "AdapterError",
    "Answer",
    "GatewayAbsent",
    "GatewayLost",
    "GatewayRefused",
    "Livebox",
    "Pace",
    "Problem",
    "Rest",
    "RunHandle",
    "RunLost",
    "Step",
    "Unreachable",
    "WorkFailed",
]
