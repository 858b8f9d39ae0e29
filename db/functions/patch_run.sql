CREATE OR REPLACE FUNCTION livebox.patch_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me     uuid := livebox.caller_id(p_caller);
    v_denial text;
    v_run    livebox.runs;
    v_reads  boolean;
    v_answer livebox.answer;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(v_me, 'run.control', jsonb_build_object('run_id', p_args->>'run_id'));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid;
    v_denial := livebox.invocation_refusal(v_run, p_args->'invocation');
    v_reads := livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', v_run.id)) IS NULL;
    IF v_denial IN ('invalid_token', 'token_expired') THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial, CASE WHEN v_reads THEN
            jsonb_build_object('current', livebox.run_current_json(v_run))
            || CASE WHEN v_denial = 'run_ended' THEN jsonb_build_object('run', livebox.run_json(v_run)) ELSE '{}' END END);
    END IF;
    v_answer := livebox.done('ok', jsonb_build_object('version', v_run.version, 'epoch', v_run.live_epoch, 'reads', v_reads));
    IF v_run.renewed_from_jti IS NOT NULL AND (p_args->'invocation'->>'jti')::uuid = v_run.invocation_jti THEN
        v_answer.effects := '[{"kind": "invocation", "first_use": true}]';
    END IF;
    RETURN v_answer;
END $$;
COMMENT ON FUNCTION livebox.patch_run(jsonb, jsonb) IS
    'What the database has to say to patchRun, which is applied in memory: whether the caller holds the run, {version, epoch, reads: may see the run}, else the refusal. An effect says when a renewed token is in its first use: that has to be written, by beat_run.';
