CREATE OR REPLACE FUNCTION livebox.audit_entry_json(p_entry livebox.audit_log) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', p_entry.id,
        'at', livebox.utc(p_entry.at),
        'principal_id', p_entry.principal_id,
        'action', p_entry.action,
        'reason', p_entry.reason,
        'resource_kind', p_entry.resource_kind,
        'channel_id', p_entry.channel_id))
$$;
COMMENT ON FUNCTION livebox.audit_entry_json(livebox.audit_log) IS 'An audit entry as its readers see it.';
