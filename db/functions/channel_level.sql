-- visible_channels asked for one channel, said so that it is six index probes and one short plan: this is asked more
-- often than anything else. The same statement answers for a channel that is not there.
CREATE OR REPLACE FUNCTION livebox.channel_level(p_principal uuid, p_channel uuid) RETURNS smallint
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    v_level smallint;
BEGIN
    SELECT CASE WHEN me.role = 'owner' AND c.kind = 'channel' THEN 4::smallint ELSE greatest(
               (SELECT max(livebox.level_rank(g.level)) FROM livebox.grants g
                 WHERE g.principal_id = p_principal AND g.channel_id = p_channel),
               (SELECT max(livebox.level_rank(g.level)) FROM livebox.grants g
                 WHERE g.principal_id = p_principal AND g.space_id = c.space_id),
               (SELECT max(livebox.level_rank(g.level)) FROM livebox.group_members m
                  JOIN livebox.grants g ON g.group_id = m.group_id AND g.channel_id = p_channel
                 WHERE m.principal_id = p_principal),
               (SELECT max(livebox.level_rank(g.level)) FROM livebox.group_members m
                  JOIN livebox.grants g ON g.group_id = m.group_id AND g.space_id = c.space_id
                 WHERE m.principal_id = p_principal),
               (SELECT 2::smallint FROM livebox.channel_members m WHERE m.principal_id = p_principal AND m.channel_id = p_channel),
               CASE WHEN c.operator_agent_id = p_principal THEN 2::smallint END) END
      INTO v_level
      FROM livebox.principals me LEFT JOIN livebox.channels c ON c.id = p_channel
     WHERE me.id = p_principal AND me.status = 'active';
    RETURN coalesce(v_level, 0);
END $$;
COMMENT ON FUNCTION livebox.channel_level(uuid, uuid) IS
    'The level of a principal on one channel as a number; 0 for none, and also for a channel that is not there (the same statement answers both).';
