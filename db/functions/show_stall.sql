CREATE OR REPLACE FUNCTION livebox.show_stall(p_run livebox.runs, p_since timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    UPDATE livebox.runs r
       SET stalled_since = p_since,
           version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    PERFORM livebox.run_event('run.changed', v_run, NULL);
END $$;
COMMENT ON FUNCTION livebox.show_stall(livebox.runs, timestamptz) IS
    'Shows a run that was read under lock as stalled since a time, or as stalled no longer (NULL), and tells who watches it.';
