CREATE OR REPLACE FUNCTION livebox.own_denial(
    p_person uuid, p_agent uuid, p_channel uuid, p_active_agent uuid, p_denial text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_status text := (SELECT p.status FROM livebox.principals p WHERE p.id = p_agent AND p.kind = 'agent');
    v_facts  text[] := array_remove(ARRAY[
        CASE WHEN livebox.channel_level(p_person, p_channel) < 3 THEN 'no_trigger_right' END,
        CASE WHEN v_status IS DISTINCT FROM 'active' THEN 'agent_disabled' END,
        CASE WHEN p_active_agent <> p_agent THEN 'run_active_other_agent' END], NULL);
BEGIN
    IF p_denial IS NULL THEN
        RETURN v_facts[1];
    END IF;
    RETURN CASE WHEN p_denial IN ('no_trigger_right', 'agent_disabled', 'run_active_other_agent')
                 AND NOT p_denial = ANY (v_facts) THEN p_denial END;
END $$;
COMMENT ON FUNCTION livebox.own_denial(uuid, uuid, uuid, uuid, text) IS
    'Where acceptance''s own view of level, agent and active run contradicts the decision: the reason that only one of the two sees; NULL when they agree.';
