CREATE OR REPLACE FUNCTION livebox.registration_json(p_run livebox.runs) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF p_run.trigger_kind <> 'registration' THEN
        RETURN '{}';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'external_id', p_run.external_id,
        'intent', p_run.intent,
        'task', p_run.task,
        'user_dims', p_run.user_dims,
        'mode', p_run.mode,
        'parent_run_id', p_run.parent_run_id,
        'parent_span', p_run.parent_span,
        'registered_at', livebox.utc(p_run.registered_at),
        'registered_by', p_run.registered_by,
        'agents', p_run.agents,
        'budget', p_run.budget,
        'reported_started_at', livebox.utc(p_run.reported_started_at),
        'reported_ended_at', livebox.utc(p_run.reported_ended_at),
        'reported_steps', p_run.reported_steps,
        'halt_reason', p_run.halt_reason,
        'detector', p_run.detector,
        'governance_events', p_run.governance_events));
END $$;
COMMENT ON FUNCTION livebox.registration_json(livebox.runs) IS
    'The members of the run document that only registered runs have; none for another.';
