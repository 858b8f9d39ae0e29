-- Answers NULL when allowed. Else why not: not_found where the principal may not know that the thing exists (the same
-- statements run for what is not there), forbidden or channel_read_only where it may see it and not do that, and the
-- reasons of authorize_invoke.
CREATE OR REPLACE FUNCTION livebox.authorize(p_principal uuid, p_action text, p_resource jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_level smallint;
    v_place record;
    v_me    record;
BEGIN
    CASE p_action
    WHEN 'message.read', 'message.write', 'channel.manage' THEN
        SELECT * INTO v_place FROM livebox.channel_of(p_resource);
        v_level := livebox.channel_level(p_principal, v_place.channel_id);
        RETURN CASE
            WHEN v_level < 1 THEN 'not_found'
            WHEN v_level < CASE p_action WHEN 'message.read' THEN 1 WHEN 'message.write' THEN 2 ELSE 4 END THEN 'forbidden'
            WHEN p_action = 'message.write' AND v_place.read_only THEN 'channel_read_only'
        END;
    WHEN 'structure.manage' THEN
        IF p_resource ?| ARRAY['channel_id', 'thread_id'] THEN
            RETURN livebox.authorize(p_principal, 'channel.manage', p_resource);
        ELSIF p_resource ? 'space_id' THEN
            v_level := livebox.space_level(p_principal, (p_resource->>'space_id')::uuid);
            RETURN CASE WHEN v_level IS NULL THEN 'not_found' WHEN v_level < 4 THEN 'forbidden' END;
        END IF;
        RETURN CASE WHEN NOT livebox.is_owner(p_principal) THEN 'forbidden' END;
    WHEN 'space.read' THEN
        RETURN CASE WHEN livebox.space_level(p_principal, (p_resource->>'space_id')::uuid) IS NULL THEN 'not_found' END;
    WHEN 'audit.read' THEN
        IF p_resource ? 'channel_id' THEN
            RETURN CASE WHEN livebox.channel_level(p_principal, (p_resource->>'channel_id')::uuid) < 4 THEN 'forbidden' END;
        END IF;
        RETURN CASE WHEN NOT livebox.is_owner(p_principal) THEN 'forbidden' END;
    WHEN 'agent.invoke' THEN
        RETURN livebox.authorize_invoke(p_principal, p_resource);
    WHEN 'run.read', 'run.cancel', 'run.control', 'run.update' THEN
        RETURN livebox.authorize_run(p_principal, p_action, (p_resource->>'run_id')::uuid);
    WHEN 'run.overview.read', 'run.register', 'unit.publish', 'sync.snapshot.read', 'principal.read', 'dm.open' THEN
        SELECT p.kind, p.role INTO v_me FROM livebox.principals p WHERE p.id = p_principal AND p.status = 'active';
        RETURN CASE
            WHEN v_me.kind IS NULL THEN 'forbidden'
            WHEN p_action IN ('run.overview.read', 'dm.open') AND v_me.kind <> 'person' THEN 'forbidden'
            WHEN p_action = 'unit.publish' AND v_me.kind = 'person' THEN 'forbidden'
            WHEN p_action = 'run.register' AND v_me.kind = 'person' AND v_me.role IS NULL THEN 'forbidden'
        END;
    ELSE
        RAISE EXCEPTION 'unknown action %', p_action USING ERRCODE = 'LB005';
    END CASE;
END $$;
COMMENT ON FUNCTION livebox.authorize(uuid, text, jsonb) IS
    'The one decision: may this principal do this action to this resource now. NULL is yes; a text is the reason for no.';
