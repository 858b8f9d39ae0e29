CREATE OR REPLACE FUNCTION livebox.add_followup(p_run livebox.runs, p_message uuid, p_at timestamptz) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    INSERT INTO livebox.run_followups (run_id, message_id, position, state, at, answers_since)
    SELECT p_run.id, p_message, coalesce(max(f.position), 0) + 1, 'pending', p_at,
           CASE WHEN p_run.state = 'waiting_input' THEN p_at END
      FROM livebox.run_followups f
     WHERE f.run_id = p_run.id;
    UPDATE livebox.runs r
       SET version = p_run.version_reserved + 1, version_reserved = p_run.version_reserved + 1
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.add_followup(livebox.runs, uuid, timestamptz) IS
    'Puts a message behind the follow-ups of an active run that was read under lock; raises the run''s version and gives the run after it.';
