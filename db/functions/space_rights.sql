CREATE OR REPLACE FUNCTION livebox.space_rights(p_principal uuid) RETURNS TABLE (space_id uuid, level smallint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.space_id, r.level
      FROM livebox.principals me
     CROSS JOIN LATERAL (
            SELECT g.space_id, livebox.level_rank(g.level) AS level
              FROM livebox.grants g
             WHERE g.principal_id = me.id AND g.space_id IS NOT NULL
            UNION ALL
            SELECT g.space_id, livebox.level_rank(g.level)
              FROM livebox.group_members m
              JOIN livebox.grants g ON g.group_id = m.group_id AND g.space_id IS NOT NULL
             WHERE m.principal_id = me.id
            UNION ALL
            SELECT c.space_id, 0::smallint
              FROM livebox.grants g
              JOIN livebox.channels c ON c.id = g.channel_id
             WHERE g.principal_id = me.id AND g.channel_id IS NOT NULL
            UNION ALL
            SELECT c.space_id, 0::smallint
              FROM livebox.group_members m
              JOIN livebox.grants g ON g.group_id = m.group_id AND g.channel_id IS NOT NULL
              JOIN livebox.channels c ON c.id = g.channel_id
             WHERE m.principal_id = me.id
            UNION ALL
            SELECT c.space_id, 0::smallint
              FROM livebox.channels c
             WHERE c.operator_agent_id = me.id
           ) AS r
     WHERE me.id = p_principal AND me.status = 'active'
$$;
COMMENT ON FUNCTION livebox.space_rights(uuid) IS
    'Each right by which a principal sees a space: its grants there, and 0 for each channel of it that it may read. Owners have manage beside these.';
