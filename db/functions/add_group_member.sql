CREATE OR REPLACE FUNCTION livebox.add_group_member(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE sql VOLATILE AS $$
    SELECT livebox.set_group_member(caller, args, true)
$$;
COMMENT ON FUNCTION livebox.add_group_member(jsonb, jsonb) IS 'addGroupMember: owners only.';
