CREATE OR REPLACE FUNCTION livebox.heartbeat_json(p_run livebox.runs, p_args jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'run_id', p_run.id,
        'state', p_run.state,
        'version', p_run.version,
        'cancel_requested', p_run.cancel_requested_at IS NOT NULL,
        'cancel', livebox.run_cancel_json(p_run),
        'followups_pending', (SELECT count(*) FROM livebox.run_followups f WHERE f.run_id = p_run.id AND f.state = 'pending'),
        'token_expires_at', livebox.utc(coalesce(
            to_timestamp((p_args->'invocation'->>'expires_at')::double precision),
            livebox.invocation_end(p_run, p_args->'limits')))))
$$;
COMMENT ON FUNCTION livebox.heartbeat_json(livebox.runs, jsonb) IS
    'What the holder of a run is told at each sign of life: what is asked of it, and until when the token that it showed is good.';
