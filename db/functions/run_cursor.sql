CREATE OR REPLACE FUNCTION livebox.run_cursor(p_run livebox.runs) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('queued_at', livebox.utc(p_run.queued_at), 'id', p_run.id)
$$;
COMMENT ON FUNCTION livebox.run_cursor(livebox.runs) IS 'The place of a run in lists of runs; the time with the full precision of the database.';
