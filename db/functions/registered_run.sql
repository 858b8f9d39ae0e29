CREATE OR REPLACE FUNCTION livebox.registered_run(p_caller jsonb, p_args jsonb) RETURNS livebox.run_hold
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_denial text := livebox.authorize(livebox.caller_id(p_caller), 'run.update', jsonb_build_object('run_id', p_args->>'run_id'));
    v_run    livebox.runs;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN ROW(NULL, livebox.refused(v_denial))::livebox.run_hold;
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    RETURN ROW(v_run, NULL)::livebox.run_hold;
END $$;
COMMENT ON FUNCTION livebox.registered_run(jsonb, jsonb) IS
    'The registered run of the request, locked, ended or not, for its agents and its registrar; else the refusal.';
