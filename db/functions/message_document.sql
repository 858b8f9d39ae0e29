-- plpgsql, so that its plan is kept: an SQL function would be read and planned anew in every list that asks for it.
CREATE OR REPLACE FUNCTION livebox.message_document(p_message livebox.messages, p_channel uuid, p_body_bytes bigint)
RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', p_message.id,
        'thread_id', p_message.thread_id,
        'channel_id', p_channel,
        'author_id', p_message.author_id,
        'origin', p_message.origin,
        'kind', p_message.kind,
        'body', CASE WHEN p_message.kind = 'text' AND p_message.deleted_at IS NULL
                     THEN CASE WHEN octet_length(p_message.body) > p_body_bytes
                               THEN livebox.cut_text(p_message.body, p_body_bytes) ELSE p_message.body END END,
        'truncated', CASE WHEN octet_length(p_message.body) > p_body_bytes THEN true END,
        'mentions', CASE WHEN p_message.mentions <> '{}' THEN to_jsonb(p_message.mentions) END,
        'silent', CASE WHEN p_message.silent THEN true END,
        'client_msg_id', p_message.client_msg_id,
        'run_id', p_message.run_id,
        'trigger_state', p_message.trigger_state,
        'trigger_state_reason', p_message.trigger_state_reason,
        'trigger_state_at', livebox.utc(p_message.trigger_state_at),
        'version', p_message.version,
        'thread_seq', p_message.thread_seq,
        'created_at', livebox.utc(p_message.created_at),
        'edited_at', livebox.utc(p_message.edited_at),
        'deleted_at', livebox.utc(p_message.deleted_at)));
END $$;
COMMENT ON FUNCTION livebox.message_document(livebox.messages, uuid, bigint) IS
    'A message as clients see it, in the channel its thread is in now; a body longer than p_body_bytes is cut (NULL: never).';
