-- The checks in the order in which they are told: first what the person may do here, then the agent by itself, then the
-- agent here, then the agent for this person, last what the thread is busy with. What only a delivery can meet (rights
-- or place gone since the message) comes before all of them and is named like the end of the run that it causes.
CREATE OR REPLACE FUNCTION livebox.authorize_invoke(p_principal uuid, p_resource jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_agent_id uuid := (p_resource->>'agent_id')::uuid;
    v_person   livebox.principals;
    v_agent    livebox.principals;
    v_place    record;
    v_level    smallint;
BEGIN
    SELECT * INTO v_person FROM livebox.principals p WHERE p.id = p_principal;
    SELECT * INTO v_agent FROM livebox.principals p WHERE p.id = v_agent_id;
    SELECT * INTO v_place FROM livebox.channel_of(jsonb_build_object('thread_id', p_resource->>'thread_id'));
    v_level := livebox.channel_level(p_principal, v_place.channel_id);
    RETURN CASE
        WHEN v_person.status = 'disabled' THEN 'user_disabled'
        WHEN v_place.channel_id IS NULL THEN 'thread_deleted'
        WHEN v_level < 1 THEN 'access_revoked'
        WHEN v_place.read_only THEN 'channel_read_only'
        WHEN v_person.kind IS DISTINCT FROM 'person' OR coalesce(p_resource->>'origin', 'human') <> 'human'
             OR v_level < 3 THEN 'no_trigger_right'
        WHEN v_agent.kind IS DISTINCT FROM 'agent' OR v_agent.status <> 'active' THEN 'agent_disabled'
        WHEN v_place.kind <> 'channel' THEN 'agent_not_allowed_here'
        WHEN v_agent_id IS DISTINCT FROM v_place.operator_agent_id
             AND NOT (v_place.allow_mentioned_agents AND livebox.channel_level(v_agent_id, v_place.channel_id) >= 2)
             THEN 'agent_not_allowed_here'
        WHEN v_agent.billing_mode = 'personal' AND v_agent.credential_holder_id IS DISTINCT FROM p_principal
             THEN 'billing_mode_personal_not_holder'
        WHEN v_agent.tool_class = 'owner_only' AND v_person.role IS DISTINCT FROM 'owner' THEN 'tool_class_owner_only'
        WHEN (p_resource->>'active_agent_id')::uuid <> v_agent_id THEN 'run_active_other_agent'
    END;
END $$;
COMMENT ON FUNCTION livebox.authorize_invoke(uuid, jsonb) IS
    'agent.invoke: may this person make this agent work in this thread now. Resource: agent_id, thread_id, origin, active_agent_id (agent of the target''s active run, when there is one). Used by authorize only.';
