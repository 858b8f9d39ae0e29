CREATE OR REPLACE FUNCTION livebox.delivery_denial(p_person uuid, p_agent uuid, p_thread uuid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_denial text := livebox.authorize(p_person, 'agent.invoke', jsonb_build_object(
        'agent_id', p_agent, 'thread_id', p_thread, 'origin', 'human', 'active_agent_id', p_agent));
BEGIN
    RETURN CASE WHEN v_denial IS NOT NULL THEN livebox.delivery_reason(v_denial) END;
END $$;
COMMENT ON FUNCTION livebox.delivery_denial(uuid, uuid, uuid) IS
    'Whether a person may still make an agent work in a thread, asked again before work is handed over: NULL is yes, else the reason for a run to end with.';
