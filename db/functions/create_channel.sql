CREATE OR REPLACE FUNCTION livebox.create_channel(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_body    jsonb := args->'body';
    v_dm      boolean := v_body->>'kind' = 'dm';
    v_denial  text;
    v_refusal livebox.answer;
    v_channel livebox.channels;
    v_thread  livebox.threads;
BEGIN
    v_denial := CASE WHEN v_dm THEN livebox.authorize(v_me, 'dm.open', '{}')
                     ELSE livebox.authorize(v_me, 'structure.manage', jsonb_build_object('space_id', v_body->>'space_id')) END;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_dm AND NOT v_body->'member_ids' ? v_me::text THEN
        RETURN livebox.invalid_member('invalid_value', '/member_ids', 'You must be one of the members.');
    END IF;
    v_refusal := livebox.unknown_principals(v_body->'member_ids', '/member_ids');
    IF v_refusal.code IS NULL AND v_body ? 'operator_agent_id' THEN
        v_refusal := livebox.not_an_agent(v_body->>'operator_agent_id', '/operator_agent_id');
    END IF;
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    END IF;

    INSERT INTO livebox.channels (kind, space_id, name, read_only, auto_thread, operator_replies_in_threads,
                                  operator_replies_in_main, allow_mentioned_agents, operator_agent_id, created_by)
    VALUES (v_body->>'kind', (v_body->>'space_id')::uuid, coalesce(v_body->>'name', ''),
            coalesce((v_body->>'read_only')::boolean, false), coalesce((v_body->>'auto_thread')::boolean, true),
            coalesce((v_body->>'operator_replies_in_threads')::boolean, true),
            coalesce((v_body->>'operator_replies_in_main')::boolean, false),
            coalesce((v_body->>'allow_mentioned_agents')::boolean, false), (v_body->>'operator_agent_id')::uuid, v_me)
    RETURNING * INTO v_channel;
    INSERT INTO livebox.threads (channel_id, is_main, created_by) VALUES (v_channel.id, true, v_me) RETURNING * INTO v_thread;
    INSERT INTO livebox.channel_members (channel_id, principal_id)
    SELECT v_channel.id, m.id::uuid FROM jsonb_array_elements_text(coalesce(v_body->'member_ids', '[]')) AS m(id);

    -- Who gains a right hears of that first, then of what it may see now.
    PERFORM livebox.access_changed('membership', v_me, m.principal_id, NULL,
                                   jsonb_build_object('channel_id', v_channel.id, 'level', 'write'))
       FROM livebox.channel_members m WHERE m.channel_id = v_channel.id;
    IF v_channel.operator_agent_id IS NOT NULL THEN
        PERFORM livebox.access_changed('grant', v_me, v_channel.operator_agent_id, NULL,
                                       jsonb_build_object('channel_id', v_channel.id, 'level', 'write'));
    END IF;
    PERFORM livebox.append_event('channel.created', v_me, jsonb_build_object('channel_id', v_channel.id), 'channel', v_channel.id::text,
                                 v_channel.version, 'message.read', jsonb_build_object('channel', livebox.channel_json(v_channel)));
    PERFORM livebox.append_thread_event('thread.created', v_thread, v_me, jsonb_build_object('thread', livebox.thread_json(v_thread)));
    RETURN livebox.done('created', livebox.channel_json(v_channel, livebox.channel_level(v_me, v_channel.id)),
                        v_channel.version, 'channel', v_channel.id::text);
END $$;
COMMENT ON FUNCTION livebox.create_channel(jsonb, jsonb) IS
    'createChannel: a channel of a space for who manages the space, or a DM for any person who is one of its members; with its main thread.';
