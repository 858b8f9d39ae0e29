CREATE OR REPLACE FUNCTION livebox.start_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_body   jsonb := coalesce(p_args->'body', '{}');
    v_claim  uuid := (p_args->'invocation'->>'claim_id')::uuid;
    v_hold   livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run    livebox.runs := v_hold.run;
    v_change livebox.run_change;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    IF v_run.state <> 'queued' THEN
        RETURN CASE
            WHEN v_run.started_claim_id IS DISTINCT FROM v_claim THEN livebox.run_conflict('already_started', v_run, livebox.caller_id(p_caller))
            WHEN v_run.start_hash <> livebox.body_hash(v_body) THEN livebox.run_conflict('invalid_state_transition', v_run, livebox.caller_id(p_caller))
            ELSE livebox.run_answer(v_run.id)
        END;
    END IF;
    v_change := livebox.transition_run(v_run, 'running', NULL, 'adapter', (p_caller->>'principal')::uuid,
        v_body || jsonb_build_object(
            'started_jti', p_args->'invocation'->'jti',
            'started_claim_id', v_claim,
            'start_hash', livebox.body_hash(v_body)),
        p_args->'limits');
    v_run := v_change.run;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.start_run(jsonb, jsonb) IS
    'queued to running by the holder of the run. A repeat by the same claim with the same body answers with the run; another claim gets already_started. Needs the limit event.body_max_bytes.';
