CREATE OR REPLACE FUNCTION livebox.open_thread(p_message livebox.messages, p_channel livebox.channels) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_thread livebox.threads;
BEGIN
    INSERT INTO livebox.threads (channel_id, parent_message_id, title, title_source, operator_agent_id, created_by)
    VALUES (p_channel.id, p_message.id, '', 'auto', p_channel.operator_agent_id, p_message.author_id)
    RETURNING * INTO v_thread;
    PERFORM livebox.append_thread_event(
        'thread.created', v_thread, p_message.author_id, jsonb_build_object('thread', livebox.thread_json(v_thread)));
    RETURN v_thread.id;
END $$;
COMMENT ON FUNCTION livebox.open_thread(livebox.messages, livebox.channels) IS
    'The thread that grows from a message of the main thread when it opens a run there.';
