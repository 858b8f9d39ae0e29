CREATE OR REPLACE FUNCTION livebox.invocation_resumes(p_run livebox.runs) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_run.state = 'waiting_input' OR coalesce(p_run.started_claim_id <> p_run.claim_id, false)
$$;
COMMENT ON FUNCTION livebox.invocation_resumes(livebox.runs) IS
    'Whether the present claim of a run goes on with what another began, and so is handed what waits as well.';
