CREATE OR REPLACE FUNCTION livebox.update_channel(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_body    jsonb := args->'body';
    v_id      uuid := (args->>'channel_id')::uuid;
    v_denial  text;
    v_refusal livebox.answer;
    v_old     livebox.channels;
    v_new     livebox.channels;
    v_effects jsonb;
BEGIN
    v_denial := livebox.authorize(v_me, 'structure.manage', jsonb_build_object('channel_id', v_id));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_body->'unset' ? 'operator_agent_id' AND v_body ? 'operator_agent_id' THEN
        RETURN livebox.invalid_member('invalid_value', '/unset', 'A member cannot be set and taken away at once.');
    ELSIF v_body ? 'operator_agent_id' THEN
        v_refusal := livebox.not_an_agent(v_body->>'operator_agent_id', '/operator_agent_id');
        IF v_refusal.code IS NOT NULL THEN
            RETURN v_refusal;
        END IF;
    END IF;
    SELECT * INTO v_old FROM livebox.channels c WHERE c.id = v_id FOR NO KEY UPDATE;
    IF NOT livebox.version_matches(args, v_old.version) THEN
        RETURN livebox.refused('version_mismatch');
    END IF;

    v_new := v_old;
    v_new.name := coalesce(v_body->>'name', v_old.name);
    v_new.read_only := coalesce((v_body->>'read_only')::boolean, v_old.read_only);
    v_new.auto_thread := coalesce((v_body->>'auto_thread')::boolean, v_old.auto_thread);
    v_new.operator_replies_in_threads := coalesce((v_body->>'operator_replies_in_threads')::boolean, v_old.operator_replies_in_threads);
    v_new.operator_replies_in_main := coalesce((v_body->>'operator_replies_in_main')::boolean, v_old.operator_replies_in_main);
    v_new.allow_mentioned_agents := coalesce((v_body->>'allow_mentioned_agents')::boolean, v_old.allow_mentioned_agents);
    v_new.operator_agent_id := CASE WHEN v_body ? 'unset' THEN NULL
                                    ELSE coalesce((v_body->>'operator_agent_id')::uuid, v_old.operator_agent_id) END;
    IF v_new IS DISTINCT FROM v_old THEN
        UPDATE livebox.channels c
           SET (name, read_only, auto_thread, operator_replies_in_threads, operator_replies_in_main, allow_mentioned_agents,
                operator_agent_id, version, updated_at)
             = (v_new.name, v_new.read_only, v_new.auto_thread, v_new.operator_replies_in_threads, v_new.operator_replies_in_main,
                v_new.allow_mentioned_agents, v_new.operator_agent_id, v_old.version + 1, greatest(livebox.clock(), v_old.updated_at))
         WHERE c.id = v_id
        RETURNING * INTO v_new;
        IF v_new.operator_agent_id IS DISTINCT FROM v_old.operator_agent_id THEN
            PERFORM livebox.access_changed('grant', v_me, a.id, NULL,
                                           jsonb_build_object('channel_id', v_id, 'level', CASE WHEN a.id = v_new.operator_agent_id THEN 'write' END))
               FROM unnest(ARRAY[v_old.operator_agent_id, v_new.operator_agent_id]) AS a(id) WHERE a.id IS NOT NULL;
        END IF;
        IF v_new.read_only AND NOT v_old.read_only THEN
            v_effects := livebox.note_consequence('channel_read_only', v_me, jsonb_build_object('channel_id', v_id));
        END IF;
        PERFORM livebox.append_event('channel.updated', v_me, jsonb_build_object('channel_id', v_id), 'channel', v_id::text,
                                     v_new.version, 'message.read', jsonb_build_object('channel', livebox.channel_json(v_new)));
    END IF;
    RETURN livebox.done('ok', livebox.channel_json(v_new, livebox.channel_level(v_me, v_id)), v_new.version, effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.update_channel(jsonb, jsonb) IS
    'updateChannel: name, switches and operator, for who manages it. Read-only ends the runs of the channel. What is stored already changes nothing.';
