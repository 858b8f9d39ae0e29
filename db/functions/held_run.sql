-- The order of the checks is the order in which they are told: who asks, with which token, then whether it is over.
CREATE OR REPLACE FUNCTION livebox.held_run(p_caller jsonb, p_args jsonb) RETURNS livebox.run_hold
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_denial text := livebox.authorize((p_caller->>'principal')::uuid, 'run.control',
                                       jsonb_build_object('run_id', p_args->>'run_id'));
    v_run    livebox.runs;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN ROW(NULL, livebox.refused(v_denial))::livebox.run_hold;
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    IF p_args->'invocation'->>'run_id' IS DISTINCT FROM v_run.id::text THEN
        RETURN ROW(NULL, livebox.refused('invalid_token'))::livebox.run_hold;
    END IF;
    IF (p_args->'invocation'->>'jti')::uuid IS DISTINCT FROM v_run.invocation_jti THEN
        RETURN ROW(v_run, livebox.run_conflict('invocation_superseded', v_run, livebox.caller_id(p_caller)))::livebox.run_hold;
    END IF;
    IF v_run.finished_at IS NOT NULL THEN
        RETURN ROW(v_run, livebox.run_conflict('run_ended', v_run, livebox.caller_id(p_caller)))::livebox.run_hold;
    END IF;
    RETURN ROW(v_run, NULL)::livebox.run_hold;
END $$;
COMMENT ON FUNCTION livebox.held_run(jsonb, jsonb) IS
    'The run of the request, locked, for the agent that holds its current invocation token; else the refusal. A refused repeat of the end still gets the run, so that it can be told from another.';
