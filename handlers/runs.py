"""What agents are doing and have done."""

from __future__ import annotations

from db import Answer
from generated.models import CancelRunRequest
from generated.parameters import (
    CancelRunParameters,
    GetRunParameters,
    ListActiveRunsParameters,
    ListRunFollowupsParameters,
    ListRunStepsParameters,
    ListThreadRunsParameters,
)
from handlers.context import Context
from handlers.messages import EVENT


async def get_run(context: Context, parameters: GetRunParameters) -> Answer:
    """One run, whole."""

    async def read() -> Answer:
        return await context.read("get_run", parameters)

    return await context.shown(parameters["run_id"], await read(), read)


async def list_run_steps(context: Context, parameters: ListRunStepsParameters) -> Answer:
    """A page of a run's steps."""
    return await context.read("list_run_steps", parameters)


async def list_run_followups(context: Context, parameters: ListRunFollowupsParameters) -> Answer:
    """A page of the messages that came while the run was active."""
    return await context.read("list_run_followups", parameters)


async def cancel_run(context: Context, parameters: CancelRunParameters, body: CancelRunRequest | None) -> Answer:
    """Cancels a run, or asks its agent to."""
    return await context.write("cancel_run", parameters, body, limits=(*EVENT, "run.cancel_timeout"))


async def list_thread_runs(context: Context, parameters: ListThreadRunsParameters) -> Answer:
    """A page of a thread's runs."""
    return await context.read("list_thread_runs", parameters)


async def list_active_runs(context: Context, parameters: ListActiveRunsParameters) -> Answer:
    """A page of the active runs that the caller may see."""
    return await context.read("list_active_runs", parameters)
