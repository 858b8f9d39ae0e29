CREATE OR REPLACE FUNCTION livebox.append_event(
    p_type text, p_actor uuid, p_scope jsonb, p_resource_kind text, p_resource_id text, p_resource_version bigint,
    p_receive_action text, p_payload jsonb, p_audience_principal uuid DEFAULT NULL, p_audience_group uuid DEFAULT NULL,
    p_thread_seq bigint DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_thread     uuid := (p_scope->>'thread_id')::uuid;
    v_channel    uuid := (p_scope->>'channel_id')::uuid;
    v_space      uuid := (p_scope->>'space_id')::uuid;
    v_thread_seq bigint := p_thread_seq;
    v_seq        bigint;
BEGIN
    PERFORM livebox.lock_log();
    IF v_thread IS NOT NULL AND v_thread_seq IS NULL THEN
        UPDATE livebox.threads t SET last_thread_seq = t.last_thread_seq + 1 WHERE t.id = v_thread
        RETURNING t.last_thread_seq, t.channel_id INTO v_thread_seq, v_channel;
    ELSIF v_thread IS NOT NULL THEN
        SELECT t.channel_id INTO v_channel FROM livebox.threads t WHERE t.id = v_thread;
    END IF;
    IF v_channel IS NOT NULL THEN
        SELECT c.id, c.space_id INTO v_channel, v_space FROM livebox.channels c WHERE c.id = v_channel;
    END IF;
    IF v_channel IS NULL AND (v_thread IS NOT NULL OR p_scope ? 'channel_id') THEN
        RAISE EXCEPTION 'the scope of % is not there', p_type USING ERRCODE = 'LB006';
    END IF;
    INSERT INTO livebox.events (type, actor_id, space_id, channel_id, thread_id, thread_seq, resource_kind, resource_id,
                                resource_version, receive_action, audience_principal, audience_group, payload)
    VALUES (p_type, p_actor, v_space, v_channel, v_thread, v_thread_seq, p_resource_kind, p_resource_id,
            p_resource_version, p_receive_action, p_audience_principal, p_audience_group, p_payload)
    RETURNING seq INTO v_seq;
    RETURN v_seq;
END $$;
COMMENT ON FUNCTION livebox.append_event(text, uuid, jsonb, text, text, bigint, text, jsonb, uuid, uuid, bigint) IS
    'Appends to the log in the transaction of its cause and gives the seq. p_scope names a thread, a channel or a space; what lies above it is filled in. An event of a thread takes the thread''s next number unless it was taken already (p_thread_seq).';
