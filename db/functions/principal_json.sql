CREATE OR REPLACE FUNCTION livebox.principal_json(p_principal livebox.principals) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', p_principal.id,
        'kind', p_principal.kind,
        'handle', p_principal.handle,
        'display_name', p_principal.display_name,
        'status', p_principal.status,
        'role', p_principal.role,
        'agent', CASE WHEN p_principal.kind = 'agent' THEN jsonb_build_object(
            'billing_mode', p_principal.billing_mode,
            'credential_holder_id', p_principal.credential_holder_id,
            'tool_class', p_principal.tool_class) END,
        'version', p_principal.version,
        'created_at', livebox.utc(p_principal.created_at),
        'updated_at', livebox.utc(p_principal.updated_at)))
$$;
COMMENT ON FUNCTION livebox.principal_json(livebox.principals) IS 'A principal as the directory shows it.';
