CREATE OR REPLACE FUNCTION livebox.claim_run(p_run livebox.runs, p_claim uuid, p_limits jsonb) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := livebox.run_now(p_run);
    v_run livebox.runs;
BEGIN
    UPDATE livebox.runs r
       SET claim_id = p_claim, claimed_at = v_now, token_issued_at = v_now, invocation_jti = gen_random_uuid(),
           renewed_from_jti = NULL, holder_seen_at = greatest(r.holder_seen_at, v_now), session_closed_at = NULL
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    IF p_run.claimed_at IS NULL THEN
        PERFORM livebox.set_trigger_state(v_run.triggering_message_id, 'queued', NULL, v_run.agent_id, p_limits);
    END IF;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.claim_run(livebox.runs, uuid, jsonb) IS
    'Gives a run to a claim under a fresh token id: whoever held it before is superseded. The first claim says so on the message.';
