CREATE OR REPLACE FUNCTION livebox.access_changed(p_change text, p_actor uuid, p_principal uuid, p_group uuid, p_details jsonb DEFAULT '{}')
RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT livebox.append_event(
        'access.changed', p_actor, '{}',
        CASE WHEN p_principal IS NOT NULL THEN 'principal' ELSE 'group' END, coalesce(p_principal, p_group)::text, NULL, 'personal',
        jsonb_strip_nulls(jsonb_build_object('change', p_change, 'principal_id', p_principal, 'group_id', p_group) || p_details),
        p_principal, CASE WHEN p_principal IS NULL THEN p_group END)
$$;
COMMENT ON FUNCTION livebox.access_changed(text, uuid, uuid, uuid, jsonb) IS
    'Tells a principal, or else the members of a group, that a right of theirs changed: status, grant, membership or policy.';
