CREATE OR REPLACE FUNCTION livebox.withdraw_followup(p_message uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    SELECT r.* INTO v_run
      FROM livebox.run_followups f
      JOIN livebox.runs r ON r.id = f.run_id
     WHERE f.message_id = p_message AND f.state = 'pending' AND r.finished_at IS NULL
       FOR NO KEY UPDATE OF r;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE livebox.run_followups f
       SET state = 'cancelled', at = greatest(livebox.run_now(v_run), f.at)
     WHERE f.run_id = v_run.id AND f.message_id = p_message;
    UPDATE livebox.runs r
       SET version = v_run.version_reserved + 1, version_reserved = v_run.version_reserved + 1
     WHERE r.id = v_run.id AND r.state = v_run.state AND r.version = v_run.version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
END $$;
COMMENT ON FUNCTION livebox.withdraw_followup(uuid) IS
    'Takes a message that was deleted out of the follow-ups that wait for an active run, and raises the run''s version.';
