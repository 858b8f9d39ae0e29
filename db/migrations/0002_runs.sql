-- The run: one piece of work of one agent, with its state, steps and follow-ups. Every rule that can be said in
-- the database is said here, so that it holds whoever asks, psql included.

-- LB10x and LB11x are raised by the guards below, LB12x by functions that were called wrongly.
INSERT INTO livebox.sqlstates (sqlstate, name, problem, meaning) VALUES
    ('LB100', 'run_not_new', 'internal_error', 'A run does not begin queued (a registered one: queued or running) at version 1.'),
    ('LB101', 'run_transition', 'invalid_state_transition', 'The pair of states is not one of run_transitions.'),
    ('LB102', 'run_version', 'internal_error', 'A change that counts did not raise the version of its run, or the version fell.'),
    ('LB103', 'run_final', 'run_ended', 'An ended run was changed in more than the few things that may still come.'),
    ('LB104', 'run_write_once', 'internal_error', 'A column of a run that is written once was written again.'),
    ('LB105', 'run_time', 'internal_error', 'A state would begin before the one it follows, or a run start without working.'),
    ('LB106', 'run_step_final', 'internal_error', 'A step of an ended run was written, or a finished step changed.'),
    ('LB107', 'run_step_write_once', 'internal_error', 'What a step is (run, ordinal, parent, kind, name, start) was changed.'),
    ('LB108', 'run_followup_final', 'internal_error', 'A follow-up came for an ended run or back from an end state, or what it is was changed.'),
    ('LB109', 'trigger_reason', 'internal_error', 'A trigger state carries a reason that is in neither list.'),
    ('LB120', 'run_lost', 'internal_error', 'A run changed between being read under lock and being written.'),
    ('LB121', 'run_reason', 'internal_error', 'The server gave a reason that it may not give for that state.'),
    ('LB122', 'run_denial', 'internal_error', 'A denial at delivery has no reason that a run can end with.');

CREATE TABLE livebox.run_transitions (
    from_state text NOT NULL CHECK (from_state IN ('queued', 'running', 'waiting_input')),
    to_state   text NOT NULL CHECK (to_state IN ('running', 'waiting_input', 'completed', 'failed', 'cancelled')),
    PRIMARY KEY (from_state, to_state),
    CHECK (from_state <> to_state)
);
COMMENT ON TABLE livebox.run_transitions IS 'The pairs of states a run may go through; every other pair is refused. The picture in the README comes from here.';
COMMENT ON COLUMN livebox.run_transitions.from_state IS 'An active state.';
COMMENT ON COLUMN livebox.run_transitions.to_state IS 'The state that may follow it.';

INSERT INTO livebox.run_transitions (from_state, to_state) VALUES
    ('queued', 'running'), ('queued', 'failed'), ('queued', 'cancelled'),
    ('running', 'waiting_input'), ('running', 'completed'), ('running', 'failed'), ('running', 'cancelled'),
    ('waiting_input', 'running'), ('waiting_input', 'failed'), ('waiting_input', 'cancelled');

CREATE TABLE livebox.run_reasons (
    code    text PRIMARY KEY CHECK (code ~ '^[a-z][a-z_]{0,63}$'),
    state   text NOT NULL CHECK (state IN ('failed', 'cancelled')),
    setter  text NOT NULL CHECK (setter IN ('adapter', 'server', 'both')),
    UNIQUE (code, state)
);
COMMENT ON TABLE livebox.run_reasons IS 'Why a run failed or was cancelled: the only list. Contract, docs and metric labels are made from it.';
COMMENT ON COLUMN livebox.run_reasons.code IS 'Machine-readable reason.';
COMMENT ON COLUMN livebox.run_reasons.state IS 'The one end state this reason belongs to.';
COMMENT ON COLUMN livebox.run_reasons.setter IS 'Who may give it: the adapter of the agent, the server, or both.';

INSERT INTO livebox.run_reasons (code, state, setter) VALUES
    ('billing_mode_mismatch', 'failed', 'adapter'),
    ('tool_class_mismatch', 'failed', 'adapter'),
    ('invalid_invocation_token', 'failed', 'adapter'),
    ('runtime_not_authenticated', 'failed', 'adapter'),
    ('runtime_error', 'failed', 'adapter'),
    ('adapter_error', 'failed', 'both'),
    ('budget_exhausted', 'failed', 'both'),
    ('agent_unavailable', 'failed', 'server'),
    ('agent_not_allowed_here', 'failed', 'server'),
    ('no_trigger_right', 'failed', 'server'),
    ('billing_mode_personal_not_holder', 'failed', 'server'),
    ('tool_class_owner_only', 'failed', 'server'),
    ('project_not_ready', 'failed', 'server'),
    ('dev_environment_not_ready', 'failed', 'server'),
    ('stale', 'failed', 'server'),
    ('interrupted', 'failed', 'server'),
    ('user_cancelled', 'cancelled', 'both'),
    ('cancel_timeout', 'cancelled', 'server'),
    ('user_disabled', 'cancelled', 'server'),
    ('agent_disabled', 'cancelled', 'server'),
    ('access_revoked', 'cancelled', 'server'),
    ('channel_read_only', 'cancelled', 'server'),
    ('thread_deleted', 'cancelled', 'server');

CREATE TABLE livebox.rejection_reasons (
    code text PRIMARY KEY CHECK (code ~ '^[a-z][a-z_]{0,63}$')
);
COMMENT ON TABLE livebox.rejection_reasons IS 'Why a message that asked for an agent opened no run.';
COMMENT ON COLUMN livebox.rejection_reasons.code IS 'Machine-readable reason, stored as the trigger state''s reason.';

INSERT INTO livebox.rejection_reasons (code) VALUES
    ('multiple_agents_mentioned'), ('no_trigger_right'), ('agent_disabled'), ('agent_not_allowed_here'),
    ('billing_mode_personal_not_holder'), ('tool_class_owner_only'), ('project_not_ready'),
    ('dev_environment_not_ready'), ('run_active_other_agent'), ('followup_limit');

CREATE TABLE livebox.runs (
    id                        uuid PRIMARY KEY DEFAULT livebox.new_id(),
    thread_id                 uuid REFERENCES livebox.threads (id),
    agent_id                  uuid NOT NULL REFERENCES livebox.principals (id),
    state                     text NOT NULL
        CONSTRAINT runs_state_known CHECK (state IN ('queued', 'running', 'waiting_input', 'completed', 'failed', 'cancelled')),
    state_reason              text,
    state_changed_at          timestamptz NOT NULL,
    state_changed_by          uuid REFERENCES livebox.principals (id),
    version                   bigint NOT NULL DEFAULT 1 CONSTRAINT runs_version_positive CHECK (version BETWEEN 1 AND 9007199254740991),
    version_reserved          bigint NOT NULL DEFAULT 1,
    trigger_kind              text NOT NULL
        CONSTRAINT runs_trigger_kind_known CHECK (trigger_kind IN ('message', 'command', 'interaction', 'registration')),
    triggering_message_id     uuid REFERENCES livebox.messages (id) ON DELETE SET NULL,
    triggering_command_id     uuid,
    triggering_interaction_id uuid,
    triggered_by              uuid REFERENCES livebox.principals (id),
    agent_session_id          uuid,
    dev_environment_id        uuid,
    billing_mode_expected     text NOT NULL
        CONSTRAINT runs_billing_mode_expected_known CHECK (billing_mode_expected IN ('personal', 'organization')),
    billing_mode_used         text
        CONSTRAINT runs_billing_mode_used_known CHECK (billing_mode_used IN ('personal', 'organization')),
    billing_evidence          text,
    model                     text,
    summary                   text,
    question                  jsonb
        CONSTRAINT runs_question_object CHECK (jsonb_typeof(question) = 'object' AND NOT livebox.has_json_null(question)),
    invocation_jti            uuid CONSTRAINT runs_invocation_jti_unique UNIQUE,
    started_jti               uuid,
    started_claim_id          uuid,
    renewed_from_jti          uuid,
    start_hash                text,
    finish_hash               text,
    document                  jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT runs_document_object CHECK (jsonb_typeof(document) = 'object' AND NOT livebox.has_json_null(document)),
    document_as_of            timestamptz,
    document_final            boolean NOT NULL DEFAULT false,
    live_owner                text,
    live_epoch                bigint NOT NULL DEFAULT 0 CONSTRAINT runs_live_epoch_positive CHECK (live_epoch >= 0),
    step_count                bigint NOT NULL DEFAULT 0 CONSTRAINT runs_step_count_positive CHECK (step_count BETWEEN 0 AND 9007199254740991),
    cost_micros               bigint CONSTRAINT runs_cost_range CHECK (cost_micros BETWEEN 0 AND 9007199254740991),
    currency                  text CONSTRAINT runs_currency_code CHECK (currency ~ '^[A-Z]{3}$'),
    cost_is_estimate          boolean,
    queued_at                 timestamptz NOT NULL DEFAULT livebox.clock(),
    claimed_at                timestamptz,
    claim_id                  uuid,
    holder_seen_at            timestamptz,
    session_closed_at         timestamptz,
    started_at                timestamptz,
    finished_at               timestamptz,
    duration_ms               bigint GENERATED ALWAYS AS (floor(extract(epoch FROM finished_at - started_at) * 1000)::bigint) STORED,
    cancel_requested_by       uuid REFERENCES livebox.principals (id),
    cancel_requested_at       timestamptz,
    cancel_deadline           timestamptz,
    cancel_acknowledged_at    timestamptz,
    cancel_outcome            text CONSTRAINT runs_cancel_outcome_known CHECK (cancel_outcome IN (
        'before_start', 'while_waiting', 'acknowledged', 'forced', 'lost_to_completed', 'lost_to_failed', 'lost_to_cancelled')),
    stalled_since             timestamptz,
    last_heartbeat_at         timestamptz,
    last_progress_at          timestamptz,
    external_id               text CONSTRAINT runs_external_id_unique UNIQUE,
    intent                    text,
    task                      text,
    user_dims                 jsonb
        CONSTRAINT runs_user_dims_object CHECK (jsonb_typeof(user_dims) = 'object' AND NOT livebox.has_json_null(user_dims)),
    mode                      text,
    parent_run_id             uuid REFERENCES livebox.runs (id),
    parent_span               text,
    registered_at             timestamptz,
    registered_by             uuid REFERENCES livebox.principals (id),
    agents                    uuid[],
    budget                    jsonb
        CONSTRAINT runs_budget_object CHECK (jsonb_typeof(budget) = 'object' AND NOT livebox.has_json_null(budget)),
    reported_started_at       timestamptz,
    reported_ended_at         timestamptz,
    reported_steps            jsonb
        CONSTRAINT runs_reported_steps_object CHECK (jsonb_typeof(reported_steps) = 'object' AND NOT livebox.has_json_null(reported_steps)),
    halt_reason               text,
    detector                  text,
    governance_events         jsonb
        CONSTRAINT runs_governance_events_array CHECK (jsonb_typeof(governance_events) = 'array' AND NOT livebox.has_json_null(governance_events)),

    CONSTRAINT runs_reason_of_state FOREIGN KEY (state_reason, state) REFERENCES livebox.run_reasons (code, state),
    CONSTRAINT runs_reason_where_it_belongs CHECK ((state IN ('failed', 'cancelled')) = (state_reason IS NOT NULL)),
    CONSTRAINT runs_finished_when_ended CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT runs_started_when_working CHECK (
        CASE state WHEN 'queued' THEN started_at IS NULL
                   WHEN 'failed' THEN true WHEN 'cancelled' THEN true
                   ELSE started_at IS NOT NULL END),
    CONSTRAINT runs_times_in_order CHECK (
        started_at >= queued_at AND finished_at >= queued_at AND finished_at >= started_at AND state_changed_at >= queued_at),
    CONSTRAINT runs_version_within_reserved CHECK (version_reserved BETWEEN version AND 9007199254740991),
    CONSTRAINT runs_one_trigger CHECK (num_nonnulls(triggering_message_id, triggering_command_id, triggering_interaction_id) <= 1),
    CONSTRAINT runs_trigger_matches_kind CHECK (
        (triggering_message_id IS NULL OR trigger_kind = 'message')
        AND (triggering_command_id IS NULL OR trigger_kind = 'command')
        AND (triggering_interaction_id IS NULL OR trigger_kind = 'interaction')),
    CONSTRAINT runs_thread_unless_registered CHECK ((trigger_kind = 'registration') = (thread_id IS NULL)),
    CONSTRAINT runs_triggered_by_in_thread CHECK (thread_id IS NULL OR triggered_by IS NOT NULL),
    CONSTRAINT runs_token_unless_registered CHECK ((trigger_kind = 'registration') = (invocation_jti IS NULL)),
    CONSTRAINT runs_cost_whole CHECK (
        num_nonnulls(cost_micros, currency, cost_is_estimate) IN (0, 3)),
    CONSTRAINT runs_claim_whole CHECK (num_nonnulls(claim_id, claimed_at) IN (0, 2)),
    CONSTRAINT runs_question_while_waiting CHECK (question IS NULL OR state = 'waiting_input'),
    CONSTRAINT runs_cancel_whole CHECK (
        CASE WHEN cancel_requested_at IS NULL
             THEN num_nonnulls(cancel_requested_by, cancel_deadline, cancel_acknowledged_at, cancel_outcome) = 0
             ELSE cancel_requested_by IS NOT NULL AND (cancel_outcome IS NOT NULL) = (finished_at IS NOT NULL) END),
    CONSTRAINT runs_registration_columns CHECK (
        CASE WHEN trigger_kind = 'registration'
             THEN num_nonnulls(registered_at, registered_by, agents) = 3
             ELSE num_nonnulls(external_id, intent, task, user_dims, mode, parent_run_id, parent_span, registered_at,
                               registered_by, agents, budget, reported_started_at, reported_ended_at, reported_steps,
                               halt_reason, detector, governance_events) = 0 END),
    CONSTRAINT runs_reported_end_with_end CHECK (reported_ended_at IS NULL OR finished_at IS NOT NULL),
    CONSTRAINT runs_not_its_own_parent CHECK (parent_run_id <> id),
    CONSTRAINT runs_texts_bounded CHECK (
        length(model) <= 200 AND length(billing_evidence) <= 200 AND length(summary) <= 4000
        AND length(external_id) BETWEEN 1 AND 200 AND length(live_owner) <= 200)
);

COMMENT ON TABLE livebox.runs IS 'One piece of work of one agent: state, content, costs and token under one version.';
COMMENT ON COLUMN livebox.runs.id IS 'UUIDv7; of a registered run the UUID its registrar chose.';
COMMENT ON COLUMN livebox.runs.thread_id IS 'The thread it works in; exactly registered runs have none.';
COMMENT ON COLUMN livebox.runs.agent_id IS 'The agent that does the work; of a registered run the entry agent. Written once.';
COMMENT ON COLUMN livebox.runs.state IS 'queued, running and waiting_input are active; completed, failed and cancelled are ended and final.';
COMMENT ON COLUMN livebox.runs.state_reason IS 'Why it failed or was cancelled (run_reasons); no other state has one.';
COMMENT ON COLUMN livebox.runs.state_changed_at IS 'When the present state began.';
COMMENT ON COLUMN livebox.runs.state_changed_by IS 'Who brought the present state about; NULL when the server did.';
COMMENT ON COLUMN livebox.runs.version IS 'Rises with every change that counts; the last version saved.';
COMMENT ON COLUMN livebox.runs.version_reserved IS 'Up to here the owner of the live document may have handed out versions; equal to version without patches.';
COMMENT ON COLUMN livebox.runs.trigger_kind IS 'What opened the run.';
COMMENT ON COLUMN livebox.runs.triggering_message_id IS 'The message that opened it; NULL after that message was removed.';
COMMENT ON COLUMN livebox.runs.triggering_command_id IS 'The command that opened it. The table of commands and its foreign key come with that feature.';
COMMENT ON COLUMN livebox.runs.triggering_interaction_id IS 'The interaction that opened it. The table of interactions and its foreign key come with that feature.';
COMMENT ON COLUMN livebox.runs.triggered_by IS 'The person whose rights the run uses; set for every run in a thread.';
COMMENT ON COLUMN livebox.runs.agent_session_id IS 'The agent session it belongs to. The table of agent sessions and its foreign key come with that feature.';
COMMENT ON COLUMN livebox.runs.dev_environment_id IS 'The development environment it uses. The table of those and its foreign key come with that feature.';
COMMENT ON COLUMN livebox.runs.billing_mode_expected IS 'The agent''s billing mode when the run was opened.';
COMMENT ON COLUMN livebox.runs.billing_mode_used IS 'The billing mode that the runtime reported.';
COMMENT ON COLUMN livebox.runs.billing_evidence IS 'What the runtime showed for its billing mode.';
COMMENT ON COLUMN livebox.runs.model IS 'The model that the runtime reported.';
COMMENT ON COLUMN livebox.runs.summary IS 'What was done, as the agent says at the end.';
COMMENT ON COLUMN livebox.runs.question IS 'What a waiting run asks: prompt, choices, asked_at.';
COMMENT ON COLUMN livebox.runs.invocation_jti IS 'Id of the one invocation token that is valid now; fresh with every claim.';
COMMENT ON COLUMN livebox.runs.started_jti IS 'Id of the token that started the run.';
COMMENT ON COLUMN livebox.runs.started_claim_id IS 'The claim (the holder) that started the run; a repeated start is compared with it.';
COMMENT ON COLUMN livebox.runs.renewed_from_jti IS 'Id of the token that the current one was renewed from.';
COMMENT ON COLUMN livebox.runs.start_hash IS 'SHA-256 (hex) of the body that started it, so that a repeat replays and another body does not.';
COMMENT ON COLUMN livebox.runs.finish_hash IS 'SHA-256 (hex) of holder and body of the finish that ended it, so that a repeat replays.';
COMMENT ON COLUMN livebox.runs.document IS 'The patchable members of the run document, as last saved.';
COMMENT ON COLUMN livebox.runs.document_as_of IS 'When the document was last saved.';
COMMENT ON COLUMN livebox.runs.document_final IS 'The last live document was saved after the end; nothing follows.';
COMMENT ON COLUMN livebox.runs.live_owner IS 'The process that holds the live document.';
COMMENT ON COLUMN livebox.runs.live_epoch IS 'Rises with each owner; a save of an older epoch does not apply.';
COMMENT ON COLUMN livebox.runs.step_count IS 'Steps recorded, compacted ones included.';
COMMENT ON COLUMN livebox.runs.cost_micros IS 'Cost in millionths of the currency''s unit.';
COMMENT ON COLUMN livebox.runs.currency IS 'ISO 4217 code of the cost.';
COMMENT ON COLUMN livebox.runs.cost_is_estimate IS 'The cost is an estimate.';
COMMENT ON COLUMN livebox.runs.queued_at IS 'When the run was opened; with id the order of all lists.';
COMMENT ON COLUMN livebox.runs.claimed_at IS 'When the present claim was made; the token of the claim is issued at it.';
COMMENT ON COLUMN livebox.runs.claim_id IS 'The present claim: its tokens are one holder.';
COMMENT ON COLUMN livebox.runs.holder_seen_at IS 'Last sign of life of the holder.';
COMMENT ON COLUMN livebox.runs.session_closed_at IS 'When the holder''s gateway session closed.';
COMMENT ON COLUMN livebox.runs.started_at IS 'When it first ran; kept.';
COMMENT ON COLUMN livebox.runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN livebox.runs.duration_ms IS 'Milliseconds from start to end; computed, absent when it never started.';
COMMENT ON COLUMN livebox.runs.cancel_requested_by IS 'Who asked to cancel it.';
COMMENT ON COLUMN livebox.runs.cancel_requested_at IS 'When that was.';
COMMENT ON COLUMN livebox.runs.cancel_deadline IS 'When a running run ends without its agent''s answer.';
COMMENT ON COLUMN livebox.runs.cancel_acknowledged_at IS 'When the agent said that it knows.';
COMMENT ON COLUMN livebox.runs.cancel_outcome IS 'What became of the request; set at the end and only then.';
COMMENT ON COLUMN livebox.runs.stalled_since IS 'Alive without progress since.';
COMMENT ON COLUMN livebox.runs.last_heartbeat_at IS 'Last sign of life of the work.';
COMMENT ON COLUMN livebox.runs.last_progress_at IS 'When document, step or state last moved.';
COMMENT ON COLUMN livebox.runs.external_id IS 'Registered: its id in another scheme. Written once.';
COMMENT ON COLUMN livebox.runs.intent IS 'Registered: what it is for. Written once.';
COMMENT ON COLUMN livebox.runs.task IS 'Registered: the task. Written once.';
COMMENT ON COLUMN livebox.runs.user_dims IS 'Registered: dimensions of the reporter; user_id may name a person. Written once.';
COMMENT ON COLUMN livebox.runs.mode IS 'Registered: how it works. Written once.';
COMMENT ON COLUMN livebox.runs.parent_run_id IS 'Registered: the run that caused it. Written once, so no cycle can arise.';
COMMENT ON COLUMN livebox.runs.parent_span IS 'Registered: trace span of the cause. Written once.';
COMMENT ON COLUMN livebox.runs.registered_at IS 'Registered: when. Written once.';
COMMENT ON COLUMN livebox.runs.registered_by IS 'Registered: by whom. Written once.';
COMMENT ON COLUMN livebox.runs.agents IS 'Registered: the agents that may report. Written once.';
COMMENT ON COLUMN livebox.runs.budget IS 'Registered: tokens, steps and cost it may use. Written once.';
COMMENT ON COLUMN livebox.runs.reported_started_at IS 'Registered: the start by the reporter''s clock; decides nothing. Written once.';
COMMENT ON COLUMN livebox.runs.reported_ended_at IS 'Registered: the end by the reporter''s clock; decides nothing.';
COMMENT ON COLUMN livebox.runs.reported_steps IS 'Registered: each reporter''s own step count, by principal id.';
COMMENT ON COLUMN livebox.runs.halt_reason IS 'Registered: why it was halted, as reported.';
COMMENT ON COLUMN livebox.runs.detector IS 'Registered: what halted it.';
COMMENT ON COLUMN livebox.runs.governance_events IS 'Registered: events of governance, appended.';

CREATE UNIQUE INDEX runs_one_active_per_thread ON livebox.runs (thread_id)
    WHERE state IN ('queued', 'running', 'waiting_input');
COMMENT ON INDEX livebox.runs_one_active_per_thread IS 'At most one active run per thread; waiting counts.';
CREATE INDEX runs_by_thread ON livebox.runs (thread_id, queued_at DESC, id DESC);
COMMENT ON INDEX livebox.runs_by_thread IS 'Order of a thread''s runs.';
CREATE INDEX runs_active_by_state ON livebox.runs (state, agent_id)
    WHERE state IN ('queued', 'running', 'waiting_input');
COMMENT ON INDEX livebox.runs_active_by_state IS 'Claims and the gauge of active runs.';
CREATE INDEX runs_active_in_order ON livebox.runs (queued_at DESC, id DESC)
    WHERE state IN ('queued', 'running', 'waiting_input');
COMMENT ON INDEX livebox.runs_active_in_order IS 'Order of the list of active runs and of the snapshot.';
CREATE INDEX runs_by_agent_end ON livebox.runs (agent_id, finished_at DESC);
COMMENT ON INDEX livebox.runs_by_agent_end IS 'An agent''s ended runs, latest first.';
CREATE INDEX runs_by_triggering_message ON livebox.runs (triggering_message_id) WHERE triggering_message_id IS NOT NULL;
COMMENT ON INDEX livebox.runs_by_triggering_message IS 'Serves the foreign key when a message is removed.';
CREATE INDEX runs_by_parent ON livebox.runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
COMMENT ON INDEX livebox.runs_by_parent IS 'The tree below a registered run.';

CREATE TABLE livebox.run_steps (
    run_id         uuid NOT NULL REFERENCES livebox.runs (id) ON DELETE CASCADE,
    id             uuid NOT NULL,
    ordinal        bigint NOT NULL CONSTRAINT run_steps_ordinal_positive CHECK (ordinal BETWEEN 1 AND 9007199254740991),
    parent_step_id uuid,
    kind           text NOT NULL CONSTRAINT run_steps_kind_known CHECK (
        kind IN ('tool', 'text', 'status', 'subagent', 'workflow', 'job', 'api_retry', 'input')),
    name           text NOT NULL CONSTRAINT run_steps_name_bounded CHECK (length(name) BETWEEN 1 AND 200),
    title          text CONSTRAINT run_steps_title_bounded CHECK (length(title) <= 1000),
    status         text NOT NULL CONSTRAINT run_steps_status_known CHECK (
        status IN ('running', 'completed', 'failed', 'cancelled')),
    detail         jsonb NOT NULL DEFAULT '{}' CONSTRAINT run_steps_detail_object CHECK (
        jsonb_typeof(detail) = 'object' AND NOT livebox.has_json_null(detail)),
    recorded_by    uuid REFERENCES livebox.principals (id),
    request_hash   text,
    stands_for     bigint CONSTRAINT run_steps_stands_for_positive CHECK (stands_for >= 1),
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz,
    duration_ms    bigint GENERATED ALWAYS AS (floor(extract(epoch FROM finished_at - started_at) * 1000)::bigint) STORED,
    PRIMARY KEY (run_id, id),
    CONSTRAINT run_steps_ordinal_unique UNIQUE (run_id, ordinal),
    CONSTRAINT run_steps_parent_of_run FOREIGN KEY (run_id, parent_step_id) REFERENCES livebox.run_steps (run_id, id)
        ON DELETE SET NULL (parent_step_id),
    CONSTRAINT run_steps_not_its_own_parent CHECK (parent_step_id <> id),
    CONSTRAINT run_steps_finished_unless_running CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT run_steps_times_in_order CHECK (finished_at >= started_at)
);
COMMENT ON TABLE livebox.run_steps IS 'What an agent did in a run, durable and in order. A step id counts within its run, so that it tells nothing about others.';
COMMENT ON COLUMN livebox.run_steps.run_id IS 'The run.';
COMMENT ON COLUMN livebox.run_steps.id IS 'Chosen by the reporter; repeats of it are recognised.';
COMMENT ON COLUMN livebox.run_steps.ordinal IS 'Order within the run, given by the server from 1.';
COMMENT ON COLUMN livebox.run_steps.parent_step_id IS 'The step of the same run that caused it.';
COMMENT ON COLUMN livebox.run_steps.kind IS 'What sort of step it is.';
COMMENT ON COLUMN livebox.run_steps.name IS 'Name of the tool, sub-agent or status.';
COMMENT ON COLUMN livebox.run_steps.title IS 'One line for people.';
COMMENT ON COLUMN livebox.run_steps.status IS 'running until it is finished.';
COMMENT ON COLUMN livebox.run_steps.detail IS 'What else is known, as an object.';
COMMENT ON COLUMN livebox.run_steps.recorded_by IS 'Who reported it; NULL when the server wrote it.';
COMMENT ON COLUMN livebox.run_steps.request_hash IS 'SHA-256 (hex) of the body that recorded it, to tell a repeat from another step.';
COMMENT ON COLUMN livebox.run_steps.stands_for IS 'Of the one step that stands for the oldest ones: how many those are.';
COMMENT ON COLUMN livebox.run_steps.started_at IS 'When it was recorded.';
COMMENT ON COLUMN livebox.run_steps.finished_at IS 'When it was finished, at the latest when its run ended.';
COMMENT ON COLUMN livebox.run_steps.duration_ms IS 'Milliseconds from start to end; computed.';

CREATE INDEX run_steps_running ON livebox.run_steps (run_id) WHERE status = 'running';
COMMENT ON INDEX livebox.run_steps_running IS 'Steps to close when their run ends.';
CREATE UNIQUE INDEX run_steps_compacted ON livebox.run_steps (run_id) WHERE stands_for IS NOT NULL;
COMMENT ON INDEX livebox.run_steps_compacted IS 'The one step of a run that stands for its oldest ones.';
CREATE INDEX run_steps_by_parent ON livebox.run_steps (run_id, parent_step_id) WHERE parent_step_id IS NOT NULL;
COMMENT ON INDEX livebox.run_steps_by_parent IS 'Children of a step; serves the foreign key.';

CREATE TABLE livebox.run_followups (
    run_id     uuid NOT NULL REFERENCES livebox.runs (id) ON DELETE CASCADE,
    message_id uuid NOT NULL REFERENCES livebox.messages (id) ON DELETE CASCADE,
    position   bigint NOT NULL CONSTRAINT run_followups_position_positive CHECK (position BETWEEN 1 AND 9007199254740991),
    state      text NOT NULL CONSTRAINT run_followups_state_known CHECK (
        state IN ('pending', 'delivered', 'promoted', 'returned', 'cancelled')),
    at         timestamptz NOT NULL,
    PRIMARY KEY (run_id, message_id),
    CONSTRAINT run_followups_position_unique UNIQUE (run_id, position)
);
COMMENT ON TABLE livebox.run_followups IS 'Messages that arrived for a run while it was active. None is ever lost: at the end each is promoted to the next run, carried over to it, or returned with a reason.';
COMMENT ON COLUMN livebox.run_followups.run_id IS 'The run it arrived for.';
COMMENT ON COLUMN livebox.run_followups.message_id IS 'The message.';
COMMENT ON COLUMN livebox.run_followups.position IS 'Order of arrival within the run, from 1.';
COMMENT ON COLUMN livebox.run_followups.state IS 'pending until the agent takes it; the other states but delivered are final.';
COMMENT ON COLUMN livebox.run_followups.at IS 'When it got its present state.';

CREATE INDEX run_followups_by_message ON livebox.run_followups (message_id);
COMMENT ON INDEX livebox.run_followups_by_message IS 'The runs that a message followed up.';

-- Anchor and run may be written in either order: the check waits for the end of the transaction.
ALTER TABLE livebox.messages
    ADD CONSTRAINT messages_run FOREIGN KEY (run_id) REFERENCES livebox.runs (id)
    ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED;
COMMENT ON CONSTRAINT messages_run ON livebox.messages IS 'The run that an anchor message stands for; checked at commit.';
CREATE FUNCTION livebox.guard_run_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.state_changed_at := coalesce(NEW.state_changed_at, NEW.queued_at);
    IF NEW.version <> 1 OR NEW.version_reserved <> 1
       OR NOT (NEW.state = 'queued' OR NEW.state = 'running' AND NEW.trigger_kind = 'registration') THEN
        RAISE EXCEPTION 'a run starts queued at version 1' USING ERRCODE = 'LB100';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_insert() IS 'LB100: the history of a run begins at its beginning, and its first state when it was queued.';
CREATE TRIGGER runs_new BEFORE INSERT ON livebox.runs
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_insert();
COMMENT ON TRIGGER runs_new ON livebox.runs IS 'See guard_run_insert.';

-- Fires when an UPDATE names the state, changed or not, so that a self loop is refused as well.
CREATE FUNCTION livebox.guard_run_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.run_transitions WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'no transition from % to %', OLD.state, NEW.state USING ERRCODE = 'LB101';
    END IF;
    IF NEW.version <= OLD.version THEN
        RAISE EXCEPTION 'a transition raises the version' USING ERRCODE = 'LB102';
    END IF;
    IF NEW.state_changed_at < OLD.state_changed_at THEN
        RAISE EXCEPTION 'a state cannot begin before the one it follows' USING ERRCODE = 'LB105';
    END IF;
    IF OLD.started_at IS NULL AND NEW.started_at IS NOT NULL AND NEW.state <> 'running' THEN
        RAISE EXCEPTION 'a run starts by working' USING ERRCODE = 'LB105';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_transition() IS 'LB101, LB102, LB105: a transition is one of run_transitions, raises the version and goes forward in time.';
CREATE TRIGGER runs_transition BEFORE UPDATE OF state ON livebox.runs
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_transition();
COMMENT ON TRIGGER runs_transition ON livebox.runs IS 'See guard_run_transition.';

CREATE FUNCTION livebox.guard_run_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- Outside the version: signs of life, claim, token, checkpoint, ownership. duration_ms is computed after triggers.
    unversioned CONSTANT text[] := ARRAY['version', 'version_reserved', 'invocation_jti', 'renewed_from_jti', 'claimed_at',
        'claim_id', 'holder_seen_at', 'session_closed_at', 'last_heartbeat_at', 'last_progress_at', 'document_as_of',
        'live_owner', 'live_epoch', 'triggering_message_id', 'duration_ms'];
    final_save CONSTANT text[] := ARRAY['document', 'document_as_of', 'document_final', 'live_owner', 'live_epoch'];
    late CONSTANT text[] := ARRAY['step_count', 'reported_steps', 'cost_micros', 'currency', 'cost_is_estimate'];
    allowed text[];
BEGIN
    NEW.version_reserved := greatest(NEW.version_reserved, NEW.version);
    IF (NEW.id, NEW.thread_id, NEW.agent_id, NEW.trigger_kind, NEW.triggering_command_id, NEW.triggering_interaction_id,
        NEW.triggered_by, NEW.billing_mode_expected, NEW.queued_at, NEW.external_id, NEW.intent, NEW.task, NEW.user_dims,
        NEW.mode, NEW.parent_run_id, NEW.parent_span, NEW.registered_at, NEW.registered_by, NEW.agents, NEW.budget,
        NEW.reported_started_at)
       IS DISTINCT FROM
       (OLD.id, OLD.thread_id, OLD.agent_id, OLD.trigger_kind, OLD.triggering_command_id, OLD.triggering_interaction_id,
        OLD.triggered_by, OLD.billing_mode_expected, OLD.queued_at, OLD.external_id, OLD.intent, OLD.task, OLD.user_dims,
        OLD.mode, OLD.parent_run_id, OLD.parent_span, OLD.registered_at, OLD.registered_by, OLD.agents, OLD.budget,
        OLD.reported_started_at)
       OR (OLD.started_at IS NOT NULL AND NEW.started_at IS DISTINCT FROM OLD.started_at)
       OR (NEW.triggering_message_id IS DISTINCT FROM OLD.triggering_message_id AND NEW.triggering_message_id IS NOT NULL)
       OR (OLD.cancel_requested_at IS NOT NULL
           AND (NEW.cancel_requested_at, NEW.cancel_requested_by)
               IS DISTINCT FROM (OLD.cancel_requested_at, OLD.cancel_requested_by)) THEN
        RAISE EXCEPTION 'a column that is written once cannot be changed' USING ERRCODE = 'LB104';
    END IF;
    IF NEW.version < OLD.version OR NEW.version_reserved < OLD.version_reserved OR NEW.live_epoch < OLD.live_epoch THEN
        RAISE EXCEPTION 'the version never goes back' USING ERRCODE = 'LB102';
    END IF;
    IF OLD.finished_at IS NOT NULL THEN
        allowed := ARRAY['version', 'version_reserved', 'duration_ms', 'triggering_message_id'];
        IF NOT OLD.document_final AND NEW.document_final THEN allowed := allowed || final_save; END IF;
        IF OLD.trigger_kind = 'registration' THEN allowed := allowed || late; END IF;
        IF to_jsonb(NEW) - allowed IS DISTINCT FROM to_jsonb(OLD) - allowed THEN
            RAISE EXCEPTION 'an ended run is final' USING ERRCODE = 'LB103';
        END IF;
        allowed := ARRAY['version', 'version_reserved', 'duration_ms', 'triggering_message_id'];
    ELSE
        allowed := unversioned;
    END IF;
    IF NEW.version = OLD.version AND to_jsonb(NEW) - allowed IS DISTINCT FROM to_jsonb(OLD) - allowed THEN
        RAISE EXCEPTION 'this change raises the version' USING ERRCODE = 'LB102';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_update() IS 'LB102 to LB104: what is written once stays, what counts raises the version, an ended run is final. A new column counts until it is named here. What is reserved is never below the version.';
CREATE TRIGGER runs_update BEFORE UPDATE ON livebox.runs
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_update();
COMMENT ON TRIGGER runs_update ON livebox.runs IS 'See guard_run_update.';

CREATE FUNCTION livebox.guard_run_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM livebox.runs
               WHERE id = NEW.run_id AND finished_at IS NOT NULL AND trigger_kind <> 'registration') THEN
        RAISE EXCEPTION 'an ended run gets no step' USING ERRCODE = 'LB106';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        -- Its parent was compacted away: the step is what it was.
        IF NEW.parent_step_id IS NULL AND OLD.parent_step_id IS NOT NULL
           AND to_jsonb(NEW) - 'parent_step_id' - 'duration_ms' = to_jsonb(OLD) - 'parent_step_id' - 'duration_ms' THEN
            RETURN NEW;
        END IF;
        IF OLD.finished_at IS NOT NULL THEN
            RAISE EXCEPTION 'a finished step is final' USING ERRCODE = 'LB106';
        END IF;
        IF (NEW.run_id, NEW.id, NEW.ordinal, NEW.parent_step_id, NEW.kind, NEW.name, NEW.started_at, NEW.recorded_by)
           IS DISTINCT FROM
           (OLD.run_id, OLD.id, OLD.ordinal, OLD.parent_step_id, OLD.kind, OLD.name, OLD.started_at, OLD.recorded_by) THEN
            RAISE EXCEPTION 'what a step is cannot be changed' USING ERRCODE = 'LB107';
        END IF;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_step() IS 'LB106, LB107: steps belong to the run while it lasts; a finished step is final (late steps only of registered runs).';
CREATE TRIGGER run_steps_final BEFORE INSERT OR UPDATE ON livebox.run_steps
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_step();
COMMENT ON TRIGGER run_steps_final ON livebox.run_steps IS 'See guard_run_step.';

CREATE FUNCTION livebox.guard_run_followup() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF EXISTS (SELECT FROM livebox.runs r WHERE r.id = NEW.run_id AND r.finished_at IS NOT NULL) THEN
            RAISE EXCEPTION 'an ended run gets no follow-up' USING ERRCODE = 'LB108';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.state IN ('promoted', 'returned', 'cancelled')
       OR (NEW.run_id, NEW.message_id, NEW.position) IS DISTINCT FROM (OLD.run_id, OLD.message_id, OLD.position)
       OR (OLD.state = 'delivered' AND NEW.state = 'pending') THEN
        RAISE EXCEPTION 'a follow-up that left its run does not come back' USING ERRCODE = 'LB108';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_followup() IS 'LB108: a follow-up comes while the run is active and only goes forward.';
CREATE TRIGGER run_followups_forward BEFORE INSERT OR UPDATE ON livebox.run_followups
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_run_followup();
COMMENT ON TRIGGER run_followups_forward ON livebox.run_followups IS 'See guard_run_followup.';

CREATE FUNCTION livebox.guard_trigger_reason() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.run_reasons WHERE code = NEW.trigger_state_reason)
       AND NOT EXISTS (SELECT FROM livebox.rejection_reasons WHERE code = NEW.trigger_state_reason)
       AND NEW.trigger_state_reason IS DISTINCT FROM current_setting('livebox.unlisted_denial', true) THEN
        RAISE EXCEPTION 'unknown reason of a trigger state' USING ERRCODE = 'LB109';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_trigger_reason() IS
    'LB109: the reason of a trigger state is one that a run can end with or a message be rejected for. Acceptance names a denial that is in neither list in livebox.unlisted_denial, since it must not undo the message.';
CREATE TRIGGER messages_trigger_reason_known BEFORE INSERT OR UPDATE ON livebox.messages
    FOR EACH ROW WHEN (NEW.trigger_state_reason IS NOT NULL) EXECUTE FUNCTION livebox.guard_trigger_reason();
COMMENT ON TRIGGER messages_trigger_reason_known ON livebox.messages IS 'See guard_trigger_reason.';

CREATE TYPE livebox.run_change AS (
    run     livebox.runs,
    effects jsonb
);
COMMENT ON TYPE livebox.run_change IS 'A run after a change, and the facts to record after the commit.';

CREATE TYPE livebox.run_hold AS (
    run     livebox.runs,
    refusal livebox.answer
);
COMMENT ON TYPE livebox.run_hold IS 'A run that was read under lock for its agent, or why it was not.';

CREATE TYPE livebox.run_end AS (
    state    text,
    reason   text,
    original text,
    refusal  livebox.answer
);
COMMENT ON TYPE livebox.run_end IS 'The end that a report amounts to, the reason that was replaced by another, or why the report is refused.';
