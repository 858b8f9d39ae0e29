// The words for what the contract has codes for.

export const STATES = {
  queued: "Waiting to start",
  running: "Working",
  waiting_input: "Has a question",
  completed: "Completed",
  failed: "Failed",
  cancelled: "Cancelled",
};

export const WAITING_ON = {
  model: "Waiting for the model",
  tool: "Waiting for a tool",
  child: "Waiting for a sub-agent",
  provider_retry: "Waiting to try the provider again",
  rate_limit: "Waiting for the provider's rate limit",
};

export const UNIT_STATES = {
  queued: "queued",
  initializing: "starting",
  running: "working",
  waiting_model: "waiting for the model",
  waiting_tool: "waiting for a tool",
  waiting_input: "has a question",
  paused: "paused",
  stopping: "stopping",
  terminal: "ended",
};

export const PLAN_STATES = { pending: "to do", in_progress: "in progress", done: "done", skipped: "skipped" };
export const STEP_STATES = { running: "in progress", completed: "done", failed: "failed", cancelled: "cancelled" };

const CANCEL_OUTCOMES = {
  before_start: "Cancelled before it began.",
  while_waiting: "Cancelled while it waited.",
  acknowledged: "The agent stopped, as it was asked to.",
  forced: "The agent did not answer in time; the run was ended for it.",
  lost_to_completed: "The run completed before the cancel reached it.",
  lost_to_failed: "The run failed before the cancel reached it.",
  lost_to_cancelled: "The run was ended for another reason before the cancel reached it.",
};

const REASONS = {
  access_revoked: "the person who asked may no longer read here",
  adapter_error: "the agent's adapter failed",
  agent_disabled: "the agent is disabled",
  agent_not_allowed_here: "this agent may not work here",
  agent_unavailable: "the agent did not take the work in time",
  billing_mode_mismatch: "the agent bills in another way than was expected",
  billing_mode_personal_not_holder: "only the person whose credential the agent uses may ask it",
  budget_exhausted: "its budget is used up",
  cancel_timeout: "the agent did not answer the cancel in time",
  channel_read_only: "the channel is read-only",
  dev_environment_not_ready: "the development environment is not ready",
  followup_limit: "too many messages already wait for this run",
  interrupted: "the connection to the agent was lost",
  invalid_invocation_token: "the agent could not verify its token",
  multiple_agents_mentioned: "more than one agent was mentioned",
  no_trigger_right: "you may not make agents work here",
  project_not_ready: "the project is not ready",
  run_active_other_agent: "another agent is at work in this thread",
  runtime_error: "the agent ran into an error",
  runtime_not_authenticated: "the agent's runtime is not logged in",
  stale: "nothing was heard of the agent for too long",
  thread_deleted: "the thread was deleted",
  tool_class_mismatch: "the agent has tools that this run may not use",
  tool_class_owner_only: "the agent's tools are for owners only",
  user_cancelled: "a person cancelled it",
  user_disabled: "the person who asked was disabled",
};

const TRIGGERS = {
  received: "Waits for the agent",
  queued: "The agent has it",
  working: "The agent works on it",
  followup_delivered: "The agent has taken it in",
  done: "Done",
};

const PROBLEMS = {
  forbidden: "You may see this but not do that.",
  not_found: "This is not here, or you may not see it.",
  channel_read_only: "The channel is read-only.",
  run_ended: "The run has already ended.",
  body_too_large: "The text is too long.",
  validation_failed: "The server does not take this text.",
  rate_limited: "Too many requests; try again in a moment.",
  idempotency_key_reused: "This was already sent with another text.",
};

/** Why a run failed or was cancelled, or why a message opened none. */
export function reason(code) {
  return REASONS[code] ?? code.replaceAll("_", " ");
}

/** What became of a message that asked an agent. */
export function trigger(message) {
  const state = message.trigger_state;
  const why = message.trigger_state_reason;
  if (state === "failed") return why ? `Not done: ${reason(why)}` : "Not done";
  if (state === "cancelled") return why ? `Cancelled: ${reason(why)}` : "Cancelled";
  return TRIGGERS[state] ?? state;
}

/** What is true of a request to cancel; `name(id)` and `time(at)` give names and times. */
export function cancelReceipt(cancel, agent, name, time) {
  const who = cancel.requested_by ? name(cancel.requested_by) : "The server";
  const asked = `${who} asked to cancel at ${time(cancel.requested_at)}.`;
  if (cancel.outcome) return `${asked} ${CANCEL_OUTCOMES[cancel.outcome] ?? cancel.outcome}`;
  if (cancel.acknowledged_at) return `${asked} ${agent} has heard it and is stopping.`;
  const deadline = cancel.deadline ? ` It is ended at ${time(cancel.deadline)} at the latest.` : "";
  return `${asked} ${agent} has not answered yet.${deadline}`;
}

/** An error, for people. */
export function problem(error) {
  if (error.code === undefined) return "The server cannot be reached.";
  return PROBLEMS[error.code] ?? error.message;
}
