CREATE OR REPLACE FUNCTION livebox.reported_run(p_caller jsonb, p_args jsonb) RETURNS livebox.run_hold
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_denial text;
    v_run    livebox.runs;
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid AND r.trigger_kind = 'registration') THEN
        RETURN livebox.held_run(p_caller, p_args);
    END IF;
    v_denial := livebox.authorize(livebox.caller_id(p_caller), 'run.update', jsonb_build_object('run_id', p_args->>'run_id'));
    IF v_denial IS NOT NULL THEN
        RETURN ROW(NULL, livebox.refused(v_denial))::livebox.run_hold;
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    RETURN ROW(v_run, NULL)::livebox.run_hold;
END $$;
COMMENT ON FUNCTION livebox.reported_run(jsonb, jsonb) IS
    'The run of the request, locked, for who may report on it: of a registered run its agents and its registrar, ended or not; of any other its holder (held_run). Else the refusal.';
