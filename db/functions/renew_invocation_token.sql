-- Until the new token is used, the one it came from still gets it: a lost answer costs nothing. A renewal is a use.
CREATE OR REPLACE FUNCTION livebox.renew_invocation_token(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_jti    uuid := (p_args->'invocation'->>'jti')::uuid;
    v_grace  interval := make_interval(secs => (p_args->'limits'->>'run.renew_grace')::double precision);
    v_denial text := livebox.authorize((p_caller->>'principal')::uuid, 'run.control',
                                       jsonb_build_object('run_id', p_args->>'run_id'));
    v_end    timestamptz := to_timestamp((p_args->'invocation'->>'expires_at')::double precision);
    v_run    livebox.runs;
    v_now    timestamptz;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    -- The grace counts from when the service could be reached: an outage longer than a token's life loses no holder.
    v_grace := v_grace + greatest('0', livebox.service_since(livebox.clock(), p_args->'limits') - v_end);
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    v_denial := livebox.invocation_refusal(v_run, p_args->'invocation', v_grace);
    IF v_denial IN ('invalid_token', 'token_expired') THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_denial IS NOT NULL THEN
        RETURN livebox.run_conflict(v_denial, v_run, livebox.caller_id(p_caller));
    END IF;
    v_now := livebox.run_now(v_run);
    UPDATE livebox.runs r
       SET invocation_jti = CASE WHEN r.invocation_jti = v_jti THEN gen_random_uuid() ELSE r.invocation_jti END,
           renewed_from_jti = v_jti,
           token_issued_at = CASE WHEN r.invocation_jti = v_jti THEN v_now ELSE r.token_issued_at END,
           holder_seen_at = greatest(r.holder_seen_at, v_now),
           last_heartbeat_at = greatest(r.last_heartbeat_at, v_now)
     WHERE r.id = v_run.id AND r.state = v_run.state AND r.version = v_run.version
    RETURNING r.* INTO STRICT v_run;
    RETURN livebox.done('ok',
        jsonb_build_object('run_id', v_run.id, 'expires_at', livebox.utc(livebox.invocation_end(v_run, p_args->'limits'))),
        effects => livebox.invocation_effect(v_run, 0, p_args->'limits'));
END $$;
COMMENT ON FUNCTION livebox.renew_invocation_token(jsonb, jsonb) IS
    'A new token id for the holder of a run, who may come until run.renew_grace after the token expired, or after the service is there again; the effect says what to make the token from. Repeated with the token that it came from, the same one again while that has not been used. Needs the limits run.renew_grace, service.gap and invocation.ttl.';
