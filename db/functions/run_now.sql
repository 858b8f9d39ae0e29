CREATE OR REPLACE FUNCTION livebox.run_now(p_run livebox.runs) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT greatest(livebox.clock(), p_run.queued_at, p_run.claimed_at, p_run.started_at, p_run.state_changed_at,
                    p_run.cancel_requested_at, p_run.last_progress_at)
$$;
COMMENT ON FUNCTION livebox.run_now(livebox.runs) IS
    'The time for a change of a run: now, but never before a time that the run already holds, should the clock go back.';
