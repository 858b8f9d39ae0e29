CREATE OR REPLACE FUNCTION livebox.space_level(p_principal uuid, p_space uuid) RETURNS smallint
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT max(r.level)
              FROM (SELECT s.level FROM livebox.space_rights(p_principal) s WHERE s.space_id = p_space
                    UNION ALL
                    SELECT 4::smallint
                      FROM livebox.principals me, livebox.spaces s
                     WHERE me.id = p_principal AND me.status = 'active' AND me.role = 'owner' AND s.id = p_space) AS r);
END $$;
COMMENT ON FUNCTION livebox.space_level(uuid, uuid) IS
    'The level of a principal on a space: NULL where it may not see the space or there is none, 0 where it sees only some of its channels.';
