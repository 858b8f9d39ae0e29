-- One SELECT without SET or SECURITY, so that the planner inlines it: asked for one channel it is six index probes,
-- asked for all of a principal's it starts from that principal's grants.
CREATE OR REPLACE FUNCTION livebox.channel_rights(p_principal uuid) RETURNS TABLE (channel_id uuid, level smallint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.channel_id, r.level
      FROM livebox.principals me
     CROSS JOIN LATERAL (
            SELECT g.channel_id, livebox.level_rank(g.level) AS level
              FROM livebox.grants g
             WHERE g.principal_id = me.id AND g.channel_id IS NOT NULL
            UNION ALL
            SELECT g.channel_id, livebox.level_rank(g.level)
              FROM livebox.group_members m
              JOIN livebox.grants g ON g.group_id = m.group_id AND g.channel_id IS NOT NULL
             WHERE m.principal_id = me.id
            UNION ALL
            SELECT c.id, livebox.level_rank(g.level)
              FROM livebox.grants g
              JOIN livebox.channels c ON c.space_id = g.space_id
             WHERE g.principal_id = me.id AND g.space_id IS NOT NULL
            UNION ALL
            SELECT c.id, livebox.level_rank(g.level)
              FROM livebox.group_members m
              JOIN livebox.grants g ON g.group_id = m.group_id AND g.space_id IS NOT NULL
              JOIN livebox.channels c ON c.space_id = g.space_id
             WHERE m.principal_id = me.id
            UNION ALL
            SELECT m.channel_id, 2::smallint
              FROM livebox.channel_members m
             WHERE m.principal_id = me.id
            UNION ALL
            SELECT c.id, 2::smallint
              FROM livebox.channels c
             WHERE c.operator_agent_id = me.id
           ) AS r
     WHERE me.id = p_principal AND me.status = 'active'
$$;
COMMENT ON FUNCTION livebox.channel_rights(uuid) IS
    'Each right on a channel that a principal has by name: own and group grants on the channel and its space, a DM''s members and a channel''s operator (write). A channel comes once per right; nothing for a disabled principal. Owners have manage beside these (visible_channels).';
