CREATE OR REPLACE FUNCTION livebox.get_thread(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_denial text;
    v_thread livebox.threads;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(livebox.caller_id(caller), 'message.read', jsonb_build_object('thread_id', args->>'thread_id'));
    SELECT * INTO v_thread FROM livebox.threads t WHERE t.id = (args->>'thread_id')::uuid;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    RETURN livebox.done('ok', livebox.thread_json(v_thread), v_thread.version, 'thread', v_thread.id::text);
END $$;
COMMENT ON FUNCTION livebox.get_thread(jsonb, jsonb) IS 'getThread: one thread that is not deleted.';
