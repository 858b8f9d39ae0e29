-- Each place is looked up by its key: joined by the channel, the threads of a large one would be read to find two.
CREATE OR REPLACE FUNCTION livebox.shown_trigger(p_run livebox.runs) RETURNS uuid LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT m.id
          FROM livebox.messages m
         WHERE m.id = p_run.triggering_message_id
           AND (SELECT its.channel_id FROM livebox.threads its WHERE its.id = m.thread_id AND its.deleted_at IS NULL)
             = (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id));
END $$;
COMMENT ON FUNCTION livebox.shown_trigger(livebox.runs) IS
    'The message that triggered a run, while it is in the channel that the run''s thread is in: after a move, who reads the run may not read that.';
