CREATE OR REPLACE FUNCTION livebox.visible_spaces(p_principal uuid) RETURNS TABLE (space_id uuid, level smallint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.space_id, max(r.level)::smallint
      FROM (SELECT s.space_id, s.level FROM livebox.space_rights(p_principal) s
            UNION ALL
            SELECT s.id, 4::smallint FROM livebox.spaces s WHERE livebox.is_owner(p_principal)) AS r
     WHERE r.space_id IS NOT NULL
     GROUP BY r.space_id
$$;
COMMENT ON FUNCTION livebox.visible_spaces(uuid) IS
    'The spaces a principal sees, each with its level: 0 where it sees only some channels; for owners all, with manage.';
