CREATE OR REPLACE FUNCTION livebox.create_message(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_body    jsonb := args->'body';
    v_hash    text := coalesce(args->>'request_hash', encode(sha256(convert_to((args - 'limits')::text, 'UTF8')), 'hex'));
    v_thread  uuid := (args->>'thread_id')::uuid;
    v_denial  text;
    v_refusal livebox.answer;
    v_message livebox.messages;
    v_effects jsonb;
BEGIN
    SELECT * INTO v_message FROM livebox.messages m WHERE m.author_id = v_me AND m.client_msg_id = v_body->>'client_msg_id';
    IF FOUND THEN  -- gone or hidden since then comes first
        IF livebox.authorize(v_me, 'message.read', jsonb_build_object('message_id', v_message.id)) IS NOT NULL THEN
            RETURN livebox.refused('not_found');
        ELSIF v_message.request_hash <> v_hash THEN
            RETURN livebox.refused('idempotency_key_reused');
        END IF;
        RETURN livebox.done('created', livebox.message_json(v_message), v_message.version, 'message', v_message.id::text);
    END IF;

    v_denial := livebox.authorize(v_me, 'message.write', jsonb_build_object('thread_id', v_thread));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    v_refusal := livebox.unknown_principals(v_body->'mentions', '/mentions');
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    END IF;

    INSERT INTO livebox.messages (thread_id, author_id, origin, body, mentions, client_msg_id, request_hash, thread_seq)
    SELECT v_thread, v_me, CASE p.kind WHEN 'person' THEN 'human' WHEN 'agent' THEN 'agent' ELSE 'app' END, v_body->>'body',
           ARRAY(SELECT i.id::uuid FROM jsonb_array_elements_text(coalesce(v_body->'mentions', '[]')) WITH ORDINALITY AS i(id, n) ORDER BY i.n),
           v_body->>'client_msg_id', v_hash, livebox.next_thread_seq(v_thread)
      FROM livebox.principals p
     WHERE p.id = v_me
    RETURNING * INTO v_message;
    PERFORM livebox.append_message_event('message.created', v_message, v_me, args->'limits');
    v_effects := livebox.accept_message(v_message.id, coalesce(args->'limits', '{}'));

    SELECT * INTO v_message FROM livebox.messages m WHERE m.id = v_message.id;
    RETURN livebox.done('created', livebox.message_json(v_message), v_message.version, 'message', v_message.id::text,
                        effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.create_message(jsonb, jsonb) IS
    'createMessage: stores a message and in the same transaction lets it open a run. client_msg_id is its idempotency key and lives as long as the row.';
