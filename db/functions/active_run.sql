CREATE OR REPLACE FUNCTION livebox.active_run(p_thread uuid) RETURNS livebox.runs LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    SELECT * INTO v_run
      FROM livebox.runs r
     WHERE r.thread_id = p_thread AND r.state IN ('queued', 'running', 'waiting_input')
       FOR NO KEY UPDATE;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.active_run(uuid) IS 'The active run of a thread, locked; NULL when there is none.';
