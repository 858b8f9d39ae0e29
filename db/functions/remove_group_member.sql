CREATE OR REPLACE FUNCTION livebox.remove_group_member(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE sql VOLATILE AS $$
    SELECT livebox.set_group_member(caller, args, false)
$$;
COMMENT ON FUNCTION livebox.remove_group_member(jsonb, jsonb) IS 'removeGroupMember: owners only.';
