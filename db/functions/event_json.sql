CREATE OR REPLACE FUNCTION livebox.event_json(p_event livebox.events) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'seq', p_event.seq,
        'id', p_event.id,
        'type', p_event.type,
        'schema_version', p_event.schema_version,
        'at', livebox.utc(p_event.at),
        'actor_id', p_event.actor_id,
        'scope', jsonb_build_object('space_id', p_event.space_id, 'channel_id', p_event.channel_id, 'thread_id', p_event.thread_id),
        'thread_seq', p_event.thread_seq,
        'resource', jsonb_build_object('kind', p_event.resource_kind, 'id', p_event.resource_id, 'version', p_event.resource_version)))
        || jsonb_build_object('payload', p_event.payload);
END $$;
COMMENT ON FUNCTION livebox.event_json(livebox.events) IS 'An event as it was written, in the envelope that all events share.';
