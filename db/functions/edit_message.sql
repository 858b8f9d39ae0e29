CREATE OR REPLACE FUNCTION livebox.edit_message(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_place   jsonb := jsonb_build_object('message_id', args->>'message_id');
    v_message livebox.messages;
    v_denial  text;
BEGIN
    IF livebox.authorize(v_me, 'message.read', v_place) IS NOT NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    SELECT * INTO v_message FROM livebox.messages m WHERE m.id = (args->>'message_id')::uuid FOR NO KEY UPDATE;
    IF v_message.kind <> 'text' THEN
        RETURN livebox.refused('message_not_editable');
    ELSIF v_message.author_id <> v_me THEN
        RETURN livebox.refused('forbidden');
    END IF;
    v_denial := livebox.authorize(v_me, 'message.write', v_place);
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_message.deleted_at IS NOT NULL THEN
        RETURN livebox.refused('message_not_editable');
    ELSIF NOT livebox.version_matches(args, v_message.version) THEN
        RETURN livebox.refused('version_mismatch');
    END IF;

    IF v_message.body <> args->'body'->>'body' THEN
        INSERT INTO livebox.message_revisions (message_id, version, body, mentions, replaced_by)
        VALUES (v_message.id, v_message.version, v_message.body, v_message.mentions, v_me);
        UPDATE livebox.messages m
           SET body = args->'body'->>'body', edited_at = greatest(livebox.clock(), m.created_at, m.edited_at), version = m.version + 1
         WHERE m.id = v_message.id
        RETURNING * INTO v_message;
        PERFORM livebox.append_message_event('message.updated', v_message, v_me, args->'limits');
    END IF;
    RETURN livebox.done('ok', livebox.message_json(v_message), v_message.version);
END $$;
COMMENT ON FUNCTION livebox.edit_message(jsonb, jsonb) IS
    'editMessage: the author replaces its own text; what stood there becomes a revision. The same text again changes nothing.';
