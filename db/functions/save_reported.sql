CREATE OR REPLACE FUNCTION livebox.save_reported(p_run livebox.runs, p_new livebox.runs, p_by uuid) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    UPDATE livebox.runs r
       SET reported_steps = p_new.reported_steps,
           halt_reason = p_new.halt_reason,
           detector = p_new.detector,
           governance_events = p_new.governance_events,
           spend_entries = p_new.spend_entries,
           spend_tokens = p_new.spend_tokens,
           cost_micros = p_new.cost_micros,
           currency = p_new.currency,
           cost_is_estimate = p_new.cost_is_estimate,
           last_progress_at = CASE WHEN p_run.finished_at IS NULL THEN livebox.run_now(p_run) ELSE p_run.last_progress_at END,
           version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    PERFORM livebox.run_event('run.changed', v_run, p_by);
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.save_reported(livebox.runs, livebox.runs, uuid) IS
    'Writes what was reported on a registered run without a change of its state, as progress, and tells of it.';
