CREATE OR REPLACE FUNCTION livebox.reported_run(p_caller jsonb, p_args jsonb) RETURNS livebox.run_hold
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid AND r.trigger_kind = 'registration') THEN
        RETURN livebox.registered_run(p_caller, p_args);
    END IF;
    RETURN livebox.held_run(p_caller, p_args);
END $$;
COMMENT ON FUNCTION livebox.reported_run(jsonb, jsonb) IS
    'The run of the request, locked, for who may report its steps: of a registered run see registered_run, of any other its holder (held_run). Else the refusal.';
