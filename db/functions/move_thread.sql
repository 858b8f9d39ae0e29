CREATE OR REPLACE FUNCTION livebox.move_thread(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_id      uuid := (args->>'thread_id')::uuid;
    v_target  uuid := (args->'body'->>'channel_id')::uuid;
    v_denial  text;
    v_thread  livebox.threads;
    v_from    uuid;
    v_effects jsonb;
BEGIN
    v_denial := livebox.authorize(v_me, 'structure.manage', jsonb_build_object('thread_id', v_id));
    SELECT * INTO v_thread FROM livebox.threads t WHERE t.id = v_id FOR NO KEY UPDATE;
    IF v_denial IS NULL THEN
        v_denial := CASE WHEN v_thread.is_main THEN 'main_thread'
                         ELSE livebox.authorize(v_me, 'structure.manage', jsonb_build_object('channel_id', v_target)) END;
    END IF;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF NOT livebox.version_matches(args, v_thread.version) THEN
        RETURN livebox.refused('version_mismatch');
    END IF;

    IF v_thread.channel_id <> v_target THEN
        v_from := v_thread.channel_id;
        -- The message it grew from stays where it was; who reads the thread now may not read that.
        UPDATE livebox.threads t
           SET channel_id = v_target, parent_message_id = NULL, updated_at = greatest(livebox.clock(), t.updated_at), version = t.version + 1
         WHERE t.id = v_id
        RETURNING * INTO v_thread;
        PERFORM livebox.append_thread_event('thread.moved', v_thread, v_me, jsonb_build_object(
            'thread_id', v_id, 'thread', livebox.thread_json(v_thread), 'from_channel_id', v_from));
        v_effects := livebox.note_consequence('access_revoked', v_me, jsonb_build_object('thread_id', v_id));
        IF (SELECT c.read_only FROM livebox.channels c WHERE c.id = v_target) THEN
            v_effects := livebox.note_consequence('channel_read_only', v_me, jsonb_build_object('thread_id', v_id));
        END IF;
    END IF;
    RETURN livebox.done('ok', livebox.thread_json(v_thread), v_thread.version, effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.move_thread(jsonb, jsonb) IS
    'moveThread: for who manages both channels. Who may see the thread and its runs follows at once, and a run ends whose person may not read it there or that comes to a read-only channel; its link to the message it grew from ends.';
