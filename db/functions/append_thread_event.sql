CREATE OR REPLACE FUNCTION livebox.append_thread_event(p_type text, p_thread livebox.threads, p_actor uuid, p_payload jsonb)
RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT livebox.append_event(p_type, p_actor, jsonb_build_object('thread_id', p_thread.id), 'thread', p_thread.id::text,
                                p_thread.version, 'message.read', p_payload)
$$;
COMMENT ON FUNCTION livebox.append_thread_event(text, livebox.threads, uuid, jsonb) IS 'Appends thread.created, .moved or .deleted.';
