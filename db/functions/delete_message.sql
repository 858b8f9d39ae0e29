CREATE OR REPLACE FUNCTION livebox.delete_message(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_place   jsonb := jsonb_build_object('message_id', args->>'message_id');
    v_message livebox.messages;
BEGIN
    IF livebox.authorize(v_me, 'message.read', v_place) IS NOT NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    SELECT * INTO v_message FROM livebox.messages m WHERE m.id = (args->>'message_id')::uuid FOR NO KEY UPDATE;
    IF v_message.author_id <> v_me AND livebox.authorize(v_me, 'channel.manage', v_place) IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    ELSIF v_message.kind <> 'text' THEN
        RETURN livebox.refused('message_not_editable');
    END IF;

    IF v_message.deleted_at IS NULL THEN
        IF NOT livebox.version_matches(args, v_message.version) THEN
            RETURN livebox.refused('version_mismatch');
        END IF;
        UPDATE livebox.messages m
           SET body = '', mentions = '{}', deleted_at = greatest(livebox.clock(), m.created_at), version = m.version + 1
         WHERE m.id = v_message.id
        RETURNING * INTO v_message;
        PERFORM livebox.append_message_event('message.deleted', v_message, v_me, args->'limits');
        PERFORM livebox.withdraw_followup(v_message.id);
    END IF;
    RETURN livebox.done('ok', livebox.message_json(v_message), v_message.version);
END $$;
COMMENT ON FUNCTION livebox.delete_message(jsonb, jsonb) IS
    'deleteMessage: the author, or who manages the channel, leaves a tombstone without text. A tombstone answers as it is.';
