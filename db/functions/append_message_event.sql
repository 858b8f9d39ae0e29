CREATE OR REPLACE FUNCTION livebox.append_message_event(p_type text, p_message livebox.messages, p_actor uuid, p_limits jsonb)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_channel uuid := (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_message.thread_id);
BEGIN
    RETURN livebox.append_event(
        p_type, p_actor, jsonb_build_object('thread_id', p_message.thread_id), 'message', p_message.id::text,
        p_message.version, 'message.read',
        jsonb_build_object('message', livebox.message_document(
            p_message, v_channel, coalesce((p_limits->>'event.body_max_bytes')::bigint, 4096))),
        p_thread_seq => CASE WHEN p_type = 'message.created' THEN p_message.thread_seq END);
END $$;
COMMENT ON FUNCTION livebox.append_message_event(text, livebox.messages, uuid, jsonb) IS
    'Appends message.created, .updated or .deleted with the message as it is; long bodies are cut to event.body_max_bytes. A message''s created event has the message''s own thread_seq.';
