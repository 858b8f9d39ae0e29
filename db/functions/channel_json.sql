CREATE OR REPLACE FUNCTION livebox.channel_json(p_channel livebox.channels, p_level smallint DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', p_channel.id,
        'kind', p_channel.kind,
        'space_id', p_channel.space_id,
        'name', CASE WHEN p_channel.kind = 'channel' THEN p_channel.name END,
        'member_ids', CASE WHEN p_channel.kind = 'dm' THEN to_jsonb(ARRAY(
            SELECT m.principal_id FROM livebox.channel_members m WHERE m.channel_id = p_channel.id ORDER BY m.principal_id)) END,
        'main_thread_id', (SELECT t.id FROM livebox.threads t WHERE t.channel_id = p_channel.id AND t.is_main),
        'read_only', p_channel.read_only,
        'auto_thread', p_channel.auto_thread,
        'operator_replies_in_threads', p_channel.operator_replies_in_threads,
        'operator_replies_in_main', p_channel.operator_replies_in_main,
        'allow_mentioned_agents', p_channel.allow_mentioned_agents,
        'operator_agent_id', p_channel.operator_agent_id,
        'level', livebox.level_name(p_level),
        'version', p_channel.version,
        'created_at', livebox.utc(p_channel.created_at)));
END $$;
COMMENT ON FUNCTION livebox.channel_json(livebox.channels, smallint) IS 'A channel as clients see it; p_level is the asker''s level and is left out of events.';
