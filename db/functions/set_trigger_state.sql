CREATE OR REPLACE FUNCTION livebox.set_trigger_state(
    p_message uuid, p_state text, p_reason text, p_actor uuid, p_limits jsonb)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_message livebox.messages;
BEGIN
    UPDATE livebox.messages m
       SET trigger_state = p_state,
           trigger_state_reason = p_reason,
           trigger_state_at = greatest(livebox.clock(), m.created_at, m.trigger_state_at),
           version = m.version + 1
     WHERE m.id = p_message
       AND (m.trigger_state, m.trigger_state_reason) IS DISTINCT FROM (p_state, p_reason)
    RETURNING m.* INTO v_message;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM livebox.append_message_event('message.updated', v_message, p_actor, p_limits);
    RETURN true;
END $$;
COMMENT ON FUNCTION livebox.set_trigger_state(uuid, text, text, uuid, jsonb) IS
    'Says on a message what became of its request: raises its version by one and appends message.updated; an attribute, so no revision. Setting what is stored already writes nothing. Answers whether it changed.';
