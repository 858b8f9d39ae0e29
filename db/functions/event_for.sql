-- What was written stays as it is; what is shown obeys the rights of now. An event of a thread that has moved speaks of
-- the channel it is in now, and the text of a message that was deleted is gone here too.
CREATE OR REPLACE FUNCTION livebox.event_for(p_principal uuid, p_event livebox.events, p_channel uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_event livebox.events := p_event;
    v_from  uuid := (p_event.payload->>'from_channel_id')::uuid;
    v_part  text;
BEGIN
    IF v_event.type = 'access.changed' THEN
        IF livebox.channel_level(p_principal, (v_event.payload->>'channel_id')::uuid) = 0
           AND livebox.space_level(p_principal, (v_event.payload->>'space_id')::uuid) IS NULL THEN
            RETURN livebox.event_unplaced(v_event);
        END IF;
        RETURN livebox.event_json(v_event);
    ELSIF v_event.thread_id IS NULL THEN
        RETURN livebox.event_json(v_event);
    END IF;

    IF v_event.type = 'thread.moved' AND livebox.channel_level(p_principal, p_channel) = 0 THEN
        RETURN livebox.event_left(v_event);
    ELSIF v_from IS NOT NULL AND livebox.channel_level(p_principal, v_from) = 0 THEN
        v_event.payload := v_event.payload - 'from_channel_id';
    END IF;
    IF v_event.channel_id <> p_channel THEN
        v_event.channel_id := p_channel;
        v_event.space_id := (SELECT c.space_id FROM livebox.channels c WHERE c.id = p_channel);
        IF livebox.authorize(p_principal, 'message.read', jsonb_build_object('message_id', v_event.payload->>'triggering_message_id')) IS NOT NULL THEN
            v_event.payload := v_event.payload - 'triggering_message_id' - 'trigger_state';
        END IF;
        FOREACH v_part IN ARRAY ARRAY['message', 'thread', 'run'] LOOP
            IF v_event.payload ? v_part THEN
                v_event.payload := jsonb_set(v_event.payload #- ARRAY[v_part, 'parent_message_id'], ARRAY[v_part, 'channel_id'], to_jsonb(p_channel));
            END IF;
        END LOOP;
    END IF;
    RETURN livebox.event_json(livebox.event_without_deleted(v_event));
END $$;
COMMENT ON FUNCTION livebox.event_for(uuid, livebox.events, uuid) IS
    'An event as one principal is shown it now; p_channel is where its thread is now. Whether it is shown at all is decided by list_events.';
