CREATE OR REPLACE FUNCTION livebox.create_thread(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_body    jsonb := args->'body';
    v_place   jsonb := jsonb_build_object('channel_id', args->>'channel_id');
    v_denial  text;
    v_refusal livebox.answer;
    v_thread  livebox.threads;
BEGIN
    v_denial := livebox.authorize(v_me, 'message.write', v_place);
    IF v_denial IS NULL AND v_body ? 'operator_agent_id' THEN
        v_denial := livebox.authorize(v_me, 'structure.manage', v_place);
    END IF;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_body ? 'operator_agent_id' THEN
        v_refusal := livebox.not_an_agent(v_body->>'operator_agent_id', '/operator_agent_id');
        IF v_refusal.code IS NOT NULL THEN
            RETURN v_refusal;
        END IF;
    END IF;
    INSERT INTO livebox.threads (channel_id, title, title_source, operator_agent_id, created_by)
    VALUES ((args->>'channel_id')::uuid, v_body->>'title', 'person', (v_body->>'operator_agent_id')::uuid, v_me)
    RETURNING * INTO v_thread;
    PERFORM livebox.append_thread_event('thread.created', v_thread, v_me, jsonb_build_object('thread', livebox.thread_json(v_thread)));
    RETURN livebox.done('created', livebox.thread_json(v_thread), v_thread.version, 'thread', v_thread.id::text);
END $$;
COMMENT ON FUNCTION livebox.create_thread(jsonb, jsonb) IS
    'createThread: for who may write in the channel; an operator of its own only for who manages it.';
