CREATE OR REPLACE FUNCTION livebox.invocation_json(p_run livebox.runs, p_limits jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object(
        'kind', 'start',
        'run', livebox.run_json(p_run),
        'messages', coalesce((SELECT jsonb_agg(livebox.message_json(m) ORDER BY m.thread_seq)
                                FROM livebox.messages m
                               WHERE m.id = p_run.triggering_message_id), '[]'),
        'expires_at', livebox.utc(livebox.invocation_end(p_run, p_limits)));
END $$;
COMMENT ON FUNCTION livebox.invocation_json(livebox.runs, jsonb) IS
    'One invocation as its agent gets it, but for the token, which is put in outside the database.';
