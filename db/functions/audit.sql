CREATE OR REPLACE FUNCTION livebox.audit(
    p_principal uuid, p_action text, p_reason text, p_resource_kind text,
    p_resource_id uuid DEFAULT NULL, p_channel uuid DEFAULT NULL) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    INSERT INTO livebox.audit_log (principal_id, action, reason, resource_kind, resource_id, channel_id)
    VALUES (p_principal, p_action, p_reason, p_resource_kind, p_resource_id, p_channel)
    RETURNING id
$$;
COMMENT ON FUNCTION livebox.audit(uuid, text, text, text, uuid, uuid) IS 'Records a denial: who, what, why, of what kind of thing, and in which channel. Gives the entry''s id.';
