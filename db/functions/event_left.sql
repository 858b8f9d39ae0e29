CREATE OR REPLACE FUNCTION livebox.event_left(p_event livebox.events) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    p_event.payload := jsonb_build_object('thread_id', p_event.thread_id);
    p_event.actor_id := NULL;
    p_event.space_id := NULL;
    p_event.channel_id := NULL;
    p_event.thread_seq := NULL;
    p_event.resource_version := NULL;
    RETURN livebox.event_json(p_event);
END $$;
COMMENT ON FUNCTION livebox.event_left(livebox.events) IS
    'thread.moved as it is told to who may read only where the thread was: that it is gone, and nothing of where to or by whom.';
