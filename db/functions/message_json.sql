CREATE OR REPLACE FUNCTION livebox.message_json(p_message livebox.messages) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN livebox.message_document(
        p_message, (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_message.thread_id), NULL);
END $$;
COMMENT ON FUNCTION livebox.message_json(livebox.messages) IS 'A message as clients see it, whole.';
