-- The order of the checks is the order in which they are told: who asks, with which token, then whether it is over.
CREATE OR REPLACE FUNCTION livebox.held_run(p_caller jsonb, p_args jsonb) RETURNS livebox.run_hold
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_denial text := livebox.authorize((p_caller->>'principal')::uuid, 'run.control',
                                       jsonb_build_object('run_id', p_args->>'run_id'));
    v_run    livebox.runs;
    v_now    timestamptz;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN ROW(NULL, livebox.refused(v_denial))::livebox.run_hold;
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    v_denial := livebox.invocation_refusal(v_run, p_args->'invocation');
    IF v_denial IN ('invalid_token', 'token_expired') THEN
        RETURN ROW(NULL, livebox.refused(v_denial))::livebox.run_hold;
    ELSIF v_denial IS NOT NULL THEN
        RETURN ROW(v_run, livebox.run_conflict(v_denial, v_run, livebox.caller_id(p_caller)))::livebox.run_hold;
    END IF;
    v_now := livebox.run_now(v_run);
    v_run.holder_seen_at := greatest(v_run.holder_seen_at, v_now);
    v_run.last_heartbeat_at := greatest(v_run.last_heartbeat_at, v_now);
    IF (p_args->'invocation'->>'jti')::uuid = v_run.invocation_jti THEN
        v_run.renewed_from_jti := NULL;
    END IF;
    RETURN ROW(v_run, NULL)::livebox.run_hold;
END $$;
COMMENT ON FUNCTION livebox.held_run(jsonb, jsonb) IS
    'The run of the request, locked, for the agent that holds it; else the refusal. The run is given with what asking says already in it - a sign of life, and that the newest token is in use - for the update that follows; a refusal writes none of it. A refused repeat of the end still gets the run, so that it can be told from another.';
