CREATE OR REPLACE FUNCTION livebox.grant_json(p_grant livebox.grants) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', p_grant.id,
        'principal_id', p_grant.principal_id,
        'group_id', p_grant.group_id,
        'space_id', p_grant.space_id,
        'channel_id', p_grant.channel_id,
        'level', p_grant.level,
        'version', p_grant.version,
        'created_at', livebox.utc(p_grant.created_at)))
$$;
COMMENT ON FUNCTION livebox.grant_json(livebox.grants) IS 'A grant as clients see it.';
