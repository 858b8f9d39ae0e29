CREATE OR REPLACE FUNCTION livebox.group_json(p_group livebox.groups) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('id', p_group.id, 'name', p_group.name, 'version', p_group.version,
                              'created_at', livebox.utc(p_group.created_at))
$$;
COMMENT ON FUNCTION livebox.group_json(livebox.groups) IS 'A group as clients see it.';
