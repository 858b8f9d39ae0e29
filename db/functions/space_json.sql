CREATE OR REPLACE FUNCTION livebox.space_json(p_space livebox.spaces) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('id', p_space.id, 'name', p_space.name, 'version', p_space.version,
                              'created_at', livebox.utc(p_space.created_at))
$$;
COMMENT ON FUNCTION livebox.space_json(livebox.spaces) IS 'A space as clients see it.';
