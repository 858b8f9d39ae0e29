CREATE OR REPLACE FUNCTION livebox.thread_json(p_thread livebox.threads) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', p_thread.id,
        'channel_id', p_thread.channel_id,
        'is_main', p_thread.is_main,
        'parent_message_id', p_thread.parent_message_id,
        'title', p_thread.title,
        'title_source', p_thread.title_source,
        'operator_agent_id', p_thread.operator_agent_id,
        'created_by', p_thread.created_by,
        'version', p_thread.version,
        'created_at', livebox.utc(p_thread.created_at)))
$$;
COMMENT ON FUNCTION livebox.thread_json(livebox.threads) IS 'A thread as clients see it.';
