CREATE OR REPLACE FUNCTION livebox.get_message(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_denial  text;
    v_message livebox.messages;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(livebox.caller_id(caller), 'message.read', jsonb_build_object('message_id', args->>'message_id'));
    SELECT * INTO v_message FROM livebox.messages m WHERE m.id = (args->>'message_id')::uuid;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    RETURN livebox.done('ok', livebox.message_json(v_message), v_message.version, 'message', v_message.id::text);
END $$;
COMMENT ON FUNCTION livebox.get_message(jsonb, jsonb) IS 'getMessage: one message, whole; tombstones too.';
