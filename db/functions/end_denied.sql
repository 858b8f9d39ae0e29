CREATE OR REPLACE FUNCTION livebox.end_denied(p_run livebox.runs, p_reason text, p_limits jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_state  text := (SELECT r.state FROM livebox.run_reasons r WHERE r.code = p_reason);
    v_change livebox.run_change;
BEGIN
    PERFORM livebox.audit(p_run.triggered_by, 'agent.invoke', p_reason, 'agent', p_run.agent_id,
                          (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id));
    v_change := livebox.transition_run(p_run, v_state, p_reason, 'server', NULL, '{}', p_limits);
    RETURN v_change.effects;
END $$;
COMMENT ON FUNCTION livebox.end_denied(livebox.runs, text, jsonb) IS
    'Ends a run that the check at delivery denied, in the state that the reason belongs to, and records the denial. Gives facts to record after the commit.';
