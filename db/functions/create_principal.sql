CREATE OR REPLACE FUNCTION livebox.create_principal(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_body      jsonb := args->'body';
    v_agent     jsonb := args->'body'->'agent';
    v_refusal   livebox.answer;
    v_principal livebox.principals;
BEGIN
    IF livebox.authorize(livebox.caller_id(caller), 'structure.manage', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    v_refusal := livebox.agent_policy_error(v_body->>'kind', v_agent, true);
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    ELSIF v_body ? 'role' AND v_body->>'kind' <> 'person' THEN
        RETURN livebox.invalid_member('not_allowed_value', '/role', 'Only a person can be an owner.');
    END IF;
    INSERT INTO livebox.principals (kind, handle, display_name, role, billing_mode, credential_holder_id, tool_class)
    VALUES (v_body->>'kind', v_body->>'handle', v_body->>'display_name', v_body->>'role',
            v_agent->>'billing_mode', (v_agent->>'credential_holder_id')::uuid, v_agent->>'tool_class')
    ON CONFLICT (lower(handle)) DO NOTHING
    RETURNING * INTO v_principal;
    IF NOT FOUND THEN
        RETURN livebox.refused('handle_taken');
    END IF;
    RETURN livebox.done('created', livebox.principal_json(v_principal), v_principal.version, 'principal', v_principal.id::text);
END $$;
COMMENT ON FUNCTION livebox.create_principal(jsonb, jsonb) IS 'createPrincipal: owners only. Handles are unique whatever their case.';
