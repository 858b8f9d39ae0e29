-- The trigger runs_update was made with the first of it (0002, 0003). It is here so that a new column of runs is a
-- name more in a list, and not the whole function once more in a migration.
CREATE OR REPLACE FUNCTION livebox.guard_run_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- Outside the version: signs of life, claim, token, checkpoint, ownership. duration_ms is computed after triggers.
    unversioned CONSTANT text[] := ARRAY['version', 'version_reserved', 'invocation_jti', 'renewed_from_jti', 'token_issued_at', 'claimed_at',
        'claim_id', 'holder_seen_at', 'session_closed_at', 'last_heartbeat_at', 'last_progress_at', 'document_as_of',
        'live_owner', 'live_epoch', 'live_version', 'triggering_message_id', 'duration_ms'];
    final_save CONSTANT text[] := ARRAY['document', 'document_as_of', 'document_final', 'live_owner', 'live_epoch', 'live_version'];
    late CONSTANT text[] := ARRAY['step_count', 'reported_steps', 'cost_micros', 'currency', 'cost_is_estimate', 'spend_entries', 'spend_tokens'];
    allowed text[];
    v_new livebox.runs;
    v_old livebox.runs := OLD;
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
    v_new := NEW;
    -- What may be megabytes and stays as it was is not spelled out as JSON four times for each entry of spend.
    IF NEW.governance_events = OLD.governance_events THEN
        v_new.governance_events := NULL;
        v_old.governance_events := NULL;
    END IF;
    IF OLD.finished_at IS NOT NULL THEN
        allowed := ARRAY['version', 'version_reserved', 'duration_ms', 'triggering_message_id'];
        IF NOT OLD.document_final AND NEW.document_final THEN allowed := allowed || final_save; END IF;
        IF OLD.trigger_kind = 'registration' THEN allowed := allowed || late; END IF;
        IF to_jsonb(v_new) - allowed IS DISTINCT FROM to_jsonb(v_old) - allowed THEN
            RAISE EXCEPTION 'an ended run is final' USING ERRCODE = 'LB103';
        END IF;
        allowed := ARRAY['version', 'version_reserved', 'duration_ms', 'triggering_message_id'];
    ELSE
        allowed := unversioned;
    END IF;
    IF NEW.version = OLD.version AND to_jsonb(v_new) - allowed IS DISTINCT FROM to_jsonb(v_old) - allowed THEN
        RAISE EXCEPTION 'this change raises the version' USING ERRCODE = 'LB102';
    END IF;
    IF (NEW.version, NEW.state, NEW.invocation_jti, NEW.renewed_from_jti)
       IS DISTINCT FROM (OLD.version, OLD.state, OLD.invocation_jti, OLD.renewed_from_jti) THEN
        PERFORM livebox.note_raised(NEW.id);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_run_update() IS 'LB102 to LB104: what is written once stays, what counts raises the version, an ended run is final. A new column counts until it is named here. What is reserved is never below the version. Notes runs that were raised.';
