-- Asked for only where the token of the request is no good: who may read a registered run is told that it has none.
CREATE OR REPLACE FUNCTION livebox.registered_refusal(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    SELECT * INTO v_run FROM livebox.runs r
     WHERE r.id = (p_args->>'run_id')::uuid AND r.trigger_kind = 'registration'
       AND livebox.authorize(livebox.caller_id(p_caller), 'run.read', jsonb_build_object('run_id', r.id)) IS NULL;
    IF NOT FOUND OR NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    RETURN livebox.run_conflict('run_is_registered', v_run, livebox.caller_id(p_caller));
END $$;
COMMENT ON FUNCTION livebox.registered_refusal(jsonb, jsonb) IS
    'What run control says to a request without a token that works: run_is_registered on a registered run that the caller may read, else invalid_token.';
