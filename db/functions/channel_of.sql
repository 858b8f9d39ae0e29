CREATE OR REPLACE FUNCTION livebox.channel_of(p_resource jsonb)
RETURNS TABLE (channel_id uuid, kind text, read_only boolean, is_main boolean, operator_agent_id uuid, allow_mentioned_agents boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_resource ? 'message_id' THEN
        RETURN QUERY
        SELECT c.id, c.kind, c.read_only, t.is_main, coalesce(t.operator_agent_id, c.operator_agent_id), c.allow_mentioned_agents
          FROM livebox.messages m
          JOIN livebox.threads t ON t.id = m.thread_id
          JOIN livebox.channels c ON c.id = t.channel_id
         WHERE m.id = (p_resource->>'message_id')::uuid AND t.deleted_at IS NULL;
    ELSIF p_resource ? 'thread_id' THEN
        RETURN QUERY
        SELECT c.id, c.kind, c.read_only, t.is_main, coalesce(t.operator_agent_id, c.operator_agent_id), c.allow_mentioned_agents
          FROM livebox.threads t
          JOIN livebox.channels c ON c.id = t.channel_id
         WHERE t.id = (p_resource->>'thread_id')::uuid AND t.deleted_at IS NULL;
    ELSE
        RETURN QUERY
        SELECT c.id, c.kind, c.read_only, false, c.operator_agent_id, c.allow_mentioned_agents
          FROM livebox.channels c
         WHERE c.id = (p_resource->>'channel_id')::uuid;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.channel_of(jsonb) IS
    'The channel that a message, thread or channel is in now and what decides there, with the effective operator; no row for what is deleted or not there.';
