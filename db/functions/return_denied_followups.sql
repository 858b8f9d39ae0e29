CREATE OR REPLACE FUNCTION livebox.return_denied_followups(p_run livebox.runs, p_limits jsonb) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_message livebox.messages;
    v_denial  text;
BEGIN
    FOR v_message IN
        SELECT m.* FROM livebox.run_followups f JOIN livebox.messages m ON m.id = f.message_id
         WHERE f.run_id = p_run.id AND f.state = 'pending'
         ORDER BY f.position
    LOOP
        v_denial := livebox.delivery_denial(v_message.author_id, p_run.agent_id, p_run.thread_id);
        IF v_denial IS NOT NULL THEN
            p_run := livebox.return_followup(p_run, v_message, v_denial, NULL, p_limits);
        END IF;
    END LOOP;
    RETURN p_run;
END $$;
COMMENT ON FUNCTION livebox.return_denied_followups(livebox.runs, jsonb) IS
    'Checks what waits for an active run again before it is handed over, and gives back what is not allowed any more. Gives the run after it.';
