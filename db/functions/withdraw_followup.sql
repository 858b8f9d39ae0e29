CREATE OR REPLACE FUNCTION livebox.withdraw_followup(p_message uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    SELECT r.* INTO v_run
      FROM livebox.run_followups f
      JOIN livebox.runs r ON r.id = f.run_id
     WHERE f.message_id = p_message AND f.state = 'pending' AND r.finished_at IS NULL
       FOR NO KEY UPDATE OF r;
    IF FOUND THEN
        PERFORM livebox.set_followup(v_run, p_message, 'cancelled');
    END IF;
END $$;
COMMENT ON FUNCTION livebox.withdraw_followup(uuid) IS
    'Takes a message that was deleted out of the follow-ups that wait for an active run, and raises the run''s version.';
