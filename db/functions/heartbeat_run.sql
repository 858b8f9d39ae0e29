-- Beats are many and change nothing that others wait for, so they are read and not written: when a run was last heard of
-- is collected by the server and saved for many runs at once (save_signs_of_life).
CREATE OR REPLACE FUNCTION livebox.heartbeat_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_denial text;
    v_run    livebox.runs;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize((p_caller->>'principal')::uuid, 'run.control', jsonb_build_object('run_id', p_args->>'run_id'));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid;
    v_denial := livebox.invocation_refusal(v_run, p_args->'invocation');
    IF v_denial IN ('invalid_token', 'token_expired') THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_denial IS NOT NULL THEN
        RETURN livebox.run_conflict(v_denial, v_run, livebox.caller_id(p_caller));
    END IF;
    RETURN livebox.done('ok', livebox.heartbeat_json(v_run, p_args), effects => CASE
        WHEN v_run.renewed_from_jti IS NOT NULL AND (p_args->'invocation'->>'jti')::uuid = v_run.invocation_jti
        THEN '[{"kind": "invocation", "first_use": true}]'::jsonb END);
END $$;
COMMENT ON FUNCTION livebox.heartbeat_run(jsonb, jsonb) IS
    'What the holder of a run should know. An effect says when the token that it showed is a renewed one in its first use: that has to be written, by beat_run. Needs the limit invocation.ttl.';
