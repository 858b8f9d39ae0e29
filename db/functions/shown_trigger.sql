CREATE OR REPLACE FUNCTION livebox.shown_trigger(p_run livebox.runs) RETURNS uuid LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT m.id
          FROM livebox.messages m
          JOIN livebox.threads its ON its.id = m.thread_id
          JOIN livebox.threads t ON t.id = p_run.thread_id AND t.channel_id = its.channel_id
         WHERE m.id = p_run.triggering_message_id AND its.deleted_at IS NULL);
END $$;
COMMENT ON FUNCTION livebox.shown_trigger(livebox.runs) IS
    'The message that triggered a run, while it is in the channel that the run''s thread is in: after a move, who reads the run may not read that.';
