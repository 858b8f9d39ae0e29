CREATE OR REPLACE FUNCTION livebox.run_effect(p_old livebox.runs, p_new livebox.runs) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'kind', 'run.transition',
        'from', p_old.state,
        'to', p_new.state,
        'reason', p_new.state_reason,
        'agent', (SELECT p.handle FROM livebox.principals p WHERE p.id = p_new.agent_id),
        'billing_mode', coalesce(p_new.billing_mode_used, p_new.billing_mode_expected),
        'queued_s', CASE WHEN p_old.state = 'queued'
                         THEN extract(epoch FROM p_new.state_changed_at - p_new.queued_at) END,
        'duration_s', extract(epoch FROM p_new.finished_at - p_new.started_at)));
END $$;
COMMENT ON FUNCTION livebox.run_effect(livebox.runs, livebox.runs) IS
    'A transition as a fact for metrics: seconds in the queue when it left it, seconds of work when a started run ended. No ids.';
