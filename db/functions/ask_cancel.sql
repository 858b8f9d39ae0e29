DROP FUNCTION IF EXISTS livebox.ask_cancel(livebox.runs, uuid);
CREATE OR REPLACE FUNCTION livebox.ask_cancel(p_run livebox.runs, p_by uuid, p_limits jsonb) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := livebox.run_now(p_run);
    v_run livebox.runs;
BEGIN
    UPDATE livebox.runs r
       SET cancel_requested_by = p_by,
           cancel_requested_at = v_now,
           cancel_deadline = v_now + make_interval(secs => (p_limits->>'run.cancel_timeout')::double precision),
           version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    PERFORM livebox.run_event('run.changed', v_run, p_by, jsonb_build_object('cancel', livebox.run_cancel_json(v_run)));
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.ask_cancel(livebox.runs, uuid, jsonb) IS
    'Records on a running run that it shall be cancelled, until when its agent may answer, and tells who watches it; its agent hears of it by heartbeats, since its work never comes from the log. Needs the limit run.cancel_timeout.';
