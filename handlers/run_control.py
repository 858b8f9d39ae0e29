"""How an agent takes a run, works on it and ends it."""

from __future__ import annotations

import msgspec

from db import SUCCESS, Answer
from generated.models import (
    AckFollowupRequest,
    AwaitRunInputRequest,
    ClaimInvocationsRequest,
    FinishRunRequest,
    HeartbeatRunRequest,
    PatchRunRequest,
    RecordRunStepRequest,
    RenewInvocationTokenRequest,
    ResumeRunRequest,
    StartRunRequest,
    UpdateRunStepRequest,
)
from generated.parameters import (
    AckFollowupParameters,
    AwaitRunInputParameters,
    ClaimInvocationsParameters,
    FinishRunParameters,
    HeartbeatRunParameters,
    PatchRunParameters,
    RecordRunStepParameters,
    RenewInvocationTokenParameters,
    ResumeRunParameters,
    StartRunParameters,
    UpdateRunStepParameters,
)
from handlers.context import Context, Invocations
from handlers.messages import EVENT

STEP = ("run.step_detail_max_bytes",)
TOKEN = ("invocation.ttl",)


async def claim_invocations(
    context: Context, parameters: ClaimInvocationsParameters, body: ClaimInvocationsRequest
) -> Answer:
    """Hands out runs that wait for the calling agent, each with a token."""
    limits = (*EVENT, *TOKEN, "run.claim_lease", "run.holder_grace", "service.gap")
    answer = await context.write("claim_invocations", parameters, body, limits=limits)
    made = _tokens(answer, context.invocations)
    if not made or answer.body is None:
        return answer
    claimed = msgspec.json.decode(answer.body)
    for position, token in made.items():
        claimed["items"][position]["token"] = token
    return answer._replace(body=msgspec.json.encode(claimed))


async def start_run(context: Context, parameters: StartRunParameters, body: StartRunRequest | None) -> Answer:
    """queued to running."""
    return await context.write("start_run", parameters, body, limits=EVENT)


async def heartbeat_run(
    context: Context, parameters: HeartbeatRunParameters, body: HeartbeatRunRequest | None
) -> Answer:
    """A sign of life: what it says is read, and written only where it changes the run."""
    said = bool(body and body.get("cancel_seen"))
    if not said:
        answer = await context.read("heartbeat_run", parameters, limits=TOKEN)
        said = any(effect.get("first_use") for effect in answer.effects)
    if said:
        answer = await context.write("beat_run", parameters, body, limits=TOKEN)
    if answer.code in SUCCESS:
        context.alive(parameters["run_id"])
    return answer


async def patch_run(context: Context, parameters: PatchRunParameters, body: PatchRunRequest) -> Answer:
    """Patches what people see of the run this second."""
    return await context.patch(parameters, body)


async def renew_invocation_token(
    context: Context, parameters: RenewInvocationTokenParameters, body: RenewInvocationTokenRequest | None
) -> Answer:
    """A new token for the holder of one that still passes, or has only just expired."""
    limits = (*TOKEN, "run.renew_grace", "service.gap")
    answer = await context.write("renew_invocation_token", parameters, body, limits=limits)
    made = _tokens(answer, context.invocations)
    if not made or answer.body is None:
        return answer
    return answer._replace(body=msgspec.json.encode({**msgspec.json.decode(answer.body), "token": made[0]}))


async def await_run_input(context: Context, parameters: AwaitRunInputParameters, body: AwaitRunInputRequest) -> Answer:
    """running to waiting_input, with a question."""
    return await context.write("await_run_input", parameters, body, limits=EVENT)


async def resume_run(context: Context, parameters: ResumeRunParameters, body: ResumeRunRequest | None) -> Answer:
    """waiting_input to running."""
    return await context.write("resume_run", parameters, body, limits=EVENT)


async def ack_followup(context: Context, parameters: AckFollowupParameters, body: AckFollowupRequest | None) -> Answer:
    """Takes a follow-up into the work."""
    return await context.write("ack_followup", parameters, body, limits=EVENT)


async def finish_run(context: Context, parameters: FinishRunParameters, body: FinishRunRequest) -> Answer:
    """Ends a run as its agent reports it."""
    return await context.write("finish_run", parameters, body, limits=(*EVENT, *STEP))


async def record_run_step(context: Context, parameters: RecordRunStepParameters, body: RecordRunStepRequest) -> Answer:
    """Records a step under the id that the agent chose."""
    return await context.write("record_run_step", parameters, body, limits=(*EVENT, *STEP, "run.max_steps_persisted"))


async def update_run_step(context: Context, parameters: UpdateRunStepParameters, body: UpdateRunStepRequest) -> Answer:
    """Updates or finishes a step."""
    return await context.write("update_run_step", parameters, body, limits=STEP)


def _tokens(answer: Answer, invocations: Invocations) -> dict[int, str]:
    """The tokens that an answer speaks of, by position. They are made here so that none ever enters the database.

    Everything a token says comes from the answer, times too: a repeated request gets the same tokens.
    """
    return {
        effect["position"]: invocations.mint(
            run_id=effect["run_id"],
            agent_id=effect["agent_id"],
            jti=effect["jti"],
            claim_id=effect["claim_id"],
            issued_at=effect["issued_at"],
            expires_at=effect["expires_at"],
        )
        for effect in answer.effects
        if effect["kind"] == "invocation"
    }
