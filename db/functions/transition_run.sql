-- The one way from a state to another. The caller has read p_run under FOR NO KEY UPDATE in this transaction and knows
-- that the pair is allowed and who may do it; here the rest happens, in the order that readers of the log rely on:
-- the row, run.state_changed, message.updated.
CREATE OR REPLACE FUNCTION livebox.transition_run(
    p_run livebox.runs, p_state text, p_reason text, p_setter text, p_actor uuid, p_facts jsonb, p_limits jsonb)
RETURNS livebox.run_change LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ends    boolean := p_state IN ('completed', 'failed', 'cancelled');
    v_now     timestamptz := livebox.run_now(p_run);
    v_run     livebox.runs := jsonb_populate_record(p_run, p_facts);
    v_trigger text := livebox.trigger_state_of(p_state);
    v_shown   uuid := livebox.shown_trigger(p_run);
    v_effects jsonb;
BEGIN
    IF p_reason IS NOT NULL AND NOT EXISTS (
        SELECT FROM livebox.run_reasons r
         WHERE r.code = p_reason AND r.state = p_state AND r.setter IN (p_setter, 'both')) THEN
        RAISE EXCEPTION '% may not give % for %', p_setter, p_reason, p_state USING ERRCODE = 'LB121';
    END IF;
    IF v_ends THEN
        UPDATE livebox.run_steps s
           SET status = p_state, finished_at = greatest(v_now, s.started_at)
         WHERE s.run_id = p_run.id AND s.status = 'running';
    END IF;
    IF p_run.state = 'waiting_input' THEN
        UPDATE livebox.run_followups f SET answers_since = NULL
         WHERE f.run_id = p_run.id AND f.answers_since IS NOT NULL;
    END IF;
    UPDATE livebox.runs r
       SET state = p_state,
           state_reason = p_reason,
           state_changed_at = v_now,
           state_changed_by = p_actor,
           version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1,
           started_at = CASE WHEN p_state = 'running' THEN coalesce(p_run.started_at, v_now) ELSE p_run.started_at END,
           finished_at = CASE WHEN v_ends THEN v_now END,
           last_progress_at = v_now,
           stalled_since = NULL,
           agent_session_id = v_run.agent_session_id,
           billing_mode_used = v_run.billing_mode_used,
           billing_evidence = v_run.billing_evidence,
           model = v_run.model,
           summary = v_run.summary,
           question = CASE WHEN p_state = 'waiting_input' THEN v_run.question END,
           started_jti = v_run.started_jti,
           started_claim_id = v_run.started_claim_id,
           start_hash = v_run.start_hash,
           finish_hash = v_run.finish_hash,
           await_hash = p_facts->>'await_hash',
           resume_hash = p_facts->>'resume_hash',
           holder_seen_at = p_run.holder_seen_at,
           last_heartbeat_at = p_run.last_heartbeat_at,
           renewed_from_jti = p_run.renewed_from_jti,
           document = v_run.document,
           document_as_of = CASE WHEN v_run.document <> p_run.document THEN v_now ELSE p_run.document_as_of END,
           step_count = v_run.step_count,
           cost_micros = v_run.cost_micros,
           currency = v_run.currency,
           cost_is_estimate = v_run.cost_is_estimate,
           reported_ended_at = v_run.reported_ended_at,
           reported_steps = v_run.reported_steps,
           halt_reason = v_run.halt_reason,
           detector = v_run.detector,
           governance_events = v_run.governance_events,
           cancel_requested_by = v_run.cancel_requested_by,
           cancel_requested_at = CASE WHEN v_run.cancel_requested_by IS NOT NULL
                                      THEN coalesce(p_run.cancel_requested_at, v_now) END,
           cancel_outcome = CASE WHEN v_run.cancel_requested_by IS NOT NULL
                                 THEN coalesce(p_facts->>'cancel_outcome', livebox.cancel_outcome_of(p_run.state, p_state, p_reason)) END
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    v_effects := jsonb_build_array(livebox.run_effect(p_run, v_run));

    PERFORM livebox.run_event('run.state_changed', v_run, p_actor, jsonb_strip_nulls(jsonb_build_object(
        'triggering_message_id', v_shown,
        'trigger_state', CASE WHEN v_shown IS NOT NULL THEN v_trigger END)));
    IF v_trigger IS NOT NULL THEN
        PERFORM livebox.set_trigger_state(v_run.triggering_message_id, v_trigger, p_reason, p_actor, p_limits);
    END IF;
    IF v_ends THEN
        v_effects := v_effects || livebox.settle_followups(v_run, p_actor, p_limits);
    END IF;
    RETURN ROW(v_run, v_effects)::livebox.run_change;
END $$;
COMMENT ON FUNCTION livebox.transition_run(livebox.runs, text, text, text, uuid, jsonb, jsonb) IS
    'Takes a run to another state by compare-and-swap on state and version. p_setter: server or adapter, who gives the reason; p_actor: the principal behind it, NULL for the server; p_facts: columns that change along with the state, cancel_outcome where it does not follow from the states. At an end its running steps are closed, an open request to cancel gets its outcome, and its follow-ups are settled.';
