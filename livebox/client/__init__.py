"""A client of Livebox: for people's tools and for agents. Knows the contract (`generated`) and nothing else of ours."""

from livebox.client.adapter import Adapter
from livebox.client.handle import Answer, RunHandle, Step, WorkFailed
from livebox.client.livebox import Livebox
from livebox.client.problems import (
    AdapterError,
    AlreadyRegistered,
    CostOwnedByLedger,
    CurrencyMismatch,
    ExternalIdTaken,
    GatewayAbsent,
    GatewayLost,
    GatewayRefused,
    NotFound,
    Problem,
    RunEnded,
    RunLost,
    SnapshotEnded,
    SpendIdReused,
    StatusNotYours,
    Unreachable,
)
from livebox.client.registered import RegisteredRun
from livebox.client.rest import ENDED, Rest
from livebox.client.working import Pace

__all__ = [
    "ENDED",
    "Adapter",
    "AdapterError",
    "AlreadyRegistered",
    "Answer",
    "CostOwnedByLedger",
    "CurrencyMismatch",
    "ExternalIdTaken",
    "GatewayAbsent",
    "GatewayLost",
    "GatewayRefused",
    "Livebox",
    "NotFound",
    "Pace",
    "Problem",
    "RegisteredRun",
    "Rest",
    "RunEnded",
    "RunHandle",
    "RunLost",
    "SnapshotEnded",
    "SpendIdReused",
    "StatusNotYours",
    "Step",
    "Unreachable",
    "WorkFailed",
]
