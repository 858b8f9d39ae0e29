CREATE OR REPLACE FUNCTION livebox.run_current_json(p_run livebox.runs) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'state', p_run.state,
        'state_reason', p_run.state_reason,
        'version', p_run.version,
        'allowed', coalesce((SELECT jsonb_agg(t.to_state ORDER BY t.to_state)
                               FROM livebox.run_transitions t WHERE t.from_state = p_run.state), '[]'),
        'changed_at', livebox.utc(p_run.state_changed_at),
        'changed_by', p_run.state_changed_by));
END $$;
COMMENT ON FUNCTION livebox.run_current_json(livebox.runs) IS
    'Where a run is, for a conflict that explains itself: its state, what may follow, since when and by whom (absent: the server).';
