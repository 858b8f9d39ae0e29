CREATE OR REPLACE FUNCTION livebox.grant_place(p_grant livebox.grants) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_grant.space_id IS NOT NULL THEN jsonb_build_object('space_id', p_grant.space_id)
                ELSE jsonb_build_object('channel_id', p_grant.channel_id) END
$$;
COMMENT ON FUNCTION livebox.grant_place(livebox.grants) IS 'Where a grant holds, as a resource for authorize; a channel that is not there for a grant that is not there.';
