CREATE OR REPLACE FUNCTION livebox.delivery_reason(p_denial text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- Denials that speak of the thread or of what may be seen, said as reasons that a run can end with.
    v_reason text := CASE p_denial
        WHEN 'run_active_other_agent' THEN 'agent_not_allowed_here'
        WHEN 'not_found' THEN 'access_revoked'
        WHEN 'forbidden' THEN 'no_trigger_right'
        ELSE p_denial
    END;
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.run_reasons r WHERE r.code = v_reason AND r.setter IN ('server', 'both')) THEN
        RAISE EXCEPTION 'no run can end with the denial %', p_denial USING ERRCODE = 'LB122';
    END IF;
    RETURN v_reason;
END $$;
COMMENT ON FUNCTION livebox.delivery_reason(text) IS
    'The reason that a run ends with when the check at delivery gives this denial. Total over all denials of agent.invoke.';
