CREATE OR REPLACE FUNCTION livebox.count_step(p_run livebox.runs, p_new bigint, p_at timestamptz) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    UPDATE livebox.runs r
       SET step_count = p_run.step_count + p_new,
           last_progress_at = CASE WHEN p_run.finished_at IS NULL THEN p_at ELSE p_run.last_progress_at END,
           stalled_since = NULL,
           version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1,
           holder_seen_at = p_run.holder_seen_at,
           last_heartbeat_at = p_run.last_heartbeat_at,
           renewed_from_jti = p_run.renewed_from_jti
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    IF p_run.stalled_since IS NOT NULL THEN
        PERFORM livebox.run_event('run.changed', v_run, v_run.agent_id);
    END IF;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.count_step(livebox.runs, bigint, timestamptz) IS
    'Raises the version of a run whose steps changed and counts the new ones; a step is progress, and a run that had stalled is said to go on.';
