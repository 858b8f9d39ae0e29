"""Runs that no message opens: registered once, reported on by their agents, with their spend."""

from __future__ import annotations

from db import Answer
from generated.models import RecordSpendRequest, RegisterRunRequest, UpdateRunRequest
from generated.parameters import (
    GetRunSpendParameters,
    RecordSpendParameters,
    RegisterRunParameters,
    UpdateRunParameters,
)
from handlers.context import Context
from handlers.messages import EVENT
from handlers.run_control import STEP


async def register_run(context: Context, parameters: RegisterRunParameters, body: RegisterRunRequest) -> Answer:
    """Registers a run, once."""
    return await context.write("register_run", parameters, body)


async def update_run(context: Context, parameters: UpdateRunParameters, body: UpdateRunRequest) -> Answer:
    """Reports on a registered run."""
    limits = (*EVENT, *STEP, "registered.currency", "registered.governance_events_max")
    return await context.write("update_run", parameters, body, limits=limits)


async def record_spend(context: Context, parameters: RecordSpendParameters, body: RecordSpendRequest) -> Answer:
    """Records what an agent has spent on a run."""
    return await context.write("record_spend", parameters, body, limits=EVENT)


async def get_run_spend(context: Context, parameters: GetRunSpendParameters) -> Answer:
    """What a run has cost, by itself and with the runs below it."""
    return await context.read("get_run_spend", parameters, limits=("registered.tree_max",))
