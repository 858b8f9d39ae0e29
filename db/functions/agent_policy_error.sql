CREATE OR REPLACE FUNCTION livebox.agent_policy_error(p_kind text, p_policy jsonb, p_required boolean) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_kind <> 'agent' THEN
        RETURN CASE WHEN p_policy IS NOT NULL
                    THEN livebox.invalid_member('not_allowed_value', '/agent', 'Only an agent has this member.') END;
    ELSIF p_policy IS NULL THEN
        RETURN CASE WHEN p_required THEN livebox.invalid_member('required', '/agent', 'An agent needs this member.') END;
    ELSIF p_policy->>'billing_mode' = 'personal' AND NOT p_policy ? 'credential_holder_id' THEN
        RETURN livebox.invalid_member('required', '/agent/credential_holder_id', 'Personal billing needs a holder.');
    ELSIF p_policy ? 'credential_holder_id'
          AND NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = (p_policy->>'credential_holder_id')::uuid AND p.kind = 'person') THEN
        RETURN livebox.invalid_member('unknown_reference', '/agent/credential_holder_id', 'There is no such person.');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.agent_policy_error(text, jsonb, boolean) IS
    'Refuses an agent policy that does not fit its principal, with its place; NULL when it fits. p_required: an agent must bring one.';
