CREATE OR REPLACE FUNCTION livebox.invocation_effect(p_run livebox.runs, p_position bigint, p_limits jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(jsonb_build_object(
        'kind', 'invocation',
        'position', p_position,
        'run_id', p_run.id,
        'agent_id', p_run.agent_id,
        'jti', p_run.invocation_jti,
        'claim_id', p_run.claim_id,
        'issued_at', floor(extract(epoch FROM coalesce(p_run.token_issued_at, p_run.claimed_at)))::bigint,
        'expires_at', extract(epoch FROM livebox.invocation_end(p_run, p_limits))::bigint))
$$;
COMMENT ON FUNCTION livebox.invocation_effect(livebox.runs, bigint, jsonb) IS
    'What the newest token of a run is made from; times in whole seconds of the epoch, so that a repeat gets the same token.';
