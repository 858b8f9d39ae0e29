-- The tokens of one claim are one holder. While a renewal has not been used, the token it came from passes as well.
CREATE OR REPLACE FUNCTION livebox.invocation_refusal(p_run livebox.runs, p_invocation jsonb, p_grace interval DEFAULT '0')
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN p_run.trigger_kind = 'registration' THEN 'run_is_registered'
        WHEN p_invocation->>'run_id' IS DISTINCT FROM p_run.id::text THEN 'invalid_token'
        WHEN to_timestamp((p_invocation->>'expires_at')::double precision) + p_grace <= livebox.clock() THEN 'token_expired'
        WHEN (p_invocation->>'jti')::uuid IN (p_run.invocation_jti, p_run.renewed_from_jti)
            THEN CASE WHEN p_run.finished_at IS NOT NULL THEN 'run_ended' END
        WHEN (p_invocation->>'claim_id')::uuid = p_run.claim_id THEN 'token_renewed'
        ELSE 'invocation_superseded'
    END
$$;
COMMENT ON FUNCTION livebox.invocation_refusal(livebox.runs, jsonb, interval) IS
    'Why a verified invocation token does not hold this run; NULL when it does. Expiry is judged by the clock of the database, p_grace later than the token says.';
