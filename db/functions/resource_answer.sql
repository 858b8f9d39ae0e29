CREATE OR REPLACE FUNCTION livebox.resource_answer(caller jsonb, p_kind text, p_id text) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me    uuid := livebox.caller_id(caller);
    v_id    uuid := p_id::uuid;
    v_found jsonb;
    v_version bigint;
    v_level smallint;
BEGIN
    CASE p_kind
    WHEN 'message' THEN
        RETURN livebox.get_message(caller, jsonb_build_object('message_id', p_id));
    WHEN 'thread' THEN
        RETURN livebox.get_thread(caller, jsonb_build_object('thread_id', p_id));
    WHEN 'principal' THEN
        RETURN livebox.get_principal(caller, jsonb_build_object('principal_id', p_id));
    WHEN 'grant' THEN
        RETURN livebox.get_grant(caller, jsonb_build_object('grant_id', p_id));
    WHEN 'run' THEN
        RETURN livebox.get_run(caller, jsonb_build_object('run_id', p_id));
    WHEN 'space' THEN
        IF livebox.authorize(v_me, 'space.read', jsonb_build_object('space_id', v_id)) IS NULL THEN
            SELECT livebox.space_json(s), s.version INTO v_found, v_version FROM livebox.spaces s WHERE s.id = v_id;
        END IF;
    WHEN 'channel' THEN
        v_level := livebox.channel_level(v_me, v_id);
        IF v_level > 0 THEN
            SELECT livebox.channel_json(c, v_level), c.version INTO v_found, v_version FROM livebox.channels c WHERE c.id = v_id;
        END IF;
    WHEN 'group' THEN
        IF livebox.is_owner(v_me) THEN
            SELECT livebox.group_json(g), g.version INTO v_found, v_version FROM livebox.groups g WHERE g.id = v_id;
        END IF;
    END CASE;
    IF v_found IS NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    RETURN livebox.done('ok', v_found, v_version, p_kind, p_id);
END $$;
COMMENT ON FUNCTION livebox.resource_answer(jsonb, text, text) IS
    'What a repeated request answers with: the resource it made, as it is now and under the rights of now; not_found where that is gone or hidden.';
