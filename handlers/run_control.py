"""How an agent takes a run, works on it and ends it."""

from __future__ import annotations

import msgspec

from db import Answer
from generated.models import (
    ClaimInvocationsRequest,
    FinishRunRequest,
    RecordRunStepRequest,
    StartRunRequest,
    UpdateRunStepRequest,
)
from generated.parameters import (
    ClaimInvocationsParameters,
    FinishRunParameters,
    RecordRunStepParameters,
    StartRunParameters,
    UpdateRunStepParameters,
)
from handlers.context import Context, Invocations
from handlers.messages import EVENT

STEP = ("run.step_detail_max_bytes",)


async def claim_invocations(
    context: Context, parameters: ClaimInvocationsParameters, body: ClaimInvocationsRequest
) -> Answer:
    """Hands out runs that wait for the calling agent, each with a token."""
    limits = (*EVENT, "run.claim_lease", "invocation.ttl")
    return _with_tokens(await context.write("claim_invocations", parameters, body, limits=limits), context.invocations)


async def start_run(context: Context, parameters: StartRunParameters, body: StartRunRequest | None) -> Answer:
    """queued to running."""
    return await context.write("start_run", parameters, body, limits=EVENT)


async def finish_run(context: Context, parameters: FinishRunParameters, body: FinishRunRequest) -> Answer:
    """Ends a run as its agent reports it."""
    return await context.write("finish_run", parameters, body, limits=(*EVENT, *STEP))


async def record_run_step(context: Context, parameters: RecordRunStepParameters, body: RecordRunStepRequest) -> Answer:
    """Records a step under the id that the agent chose."""
    return await context.write("record_run_step", parameters, body, limits=(*STEP, "run.max_steps_persisted"))


async def update_run_step(context: Context, parameters: UpdateRunStepParameters, body: UpdateRunStepRequest) -> Answer:
    """Updates or finishes a step."""
    return await context.write("update_run_step", parameters, body, limits=STEP)


def _with_tokens(answer: Answer, invocations: Invocations) -> Answer:
    """Puts the tokens into a claim's answer. They are made here so that none ever enters the database.

    Everything a token says comes from the answer, times too: a repeated claim gets the same tokens.
    """
    made = [effect for effect in answer.effects if effect["kind"] == "invocation"]
    if not made or answer.body is None:
        return answer
    body = msgspec.json.decode(answer.body)
    for effect in made:
        body["items"][effect["position"]]["token"] = invocations.mint(
            run_id=effect["run_id"],
            agent_id=effect["agent_id"],
            jti=effect["jti"],
            claim_id=effect["claim_id"],
            issued_at=effect["issued_at"],
            expires_at=effect["expires_at"],
        )
    return answer._replace(body=msgspec.json.encode(body))
