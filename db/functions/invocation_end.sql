CREATE OR REPLACE FUNCTION livebox.invocation_end(p_run livebox.runs, p_limits jsonb) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT date_trunc('second', coalesce(p_run.token_issued_at, p_run.claimed_at))
           + make_interval(secs => (p_limits->>'invocation.ttl')::double precision)
$$;
COMMENT ON FUNCTION livebox.invocation_end(livebox.runs, jsonb) IS
    'When the newest token of a run expires, to the whole second as tokens count. Needs the limit invocation.ttl.';
