CREATE OR REPLACE FUNCTION livebox.invocation_end(p_run livebox.runs, p_limits jsonb) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT date_trunc('second', p_run.claimed_at) + make_interval(secs => (p_limits->>'invocation.ttl')::double precision)
$$;
COMMENT ON FUNCTION livebox.invocation_end(livebox.runs, jsonb) IS
    'When the token of the present claim expires, to the whole second as tokens count. Needs the limit invocation.ttl.';
