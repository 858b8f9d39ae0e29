CREATE OR REPLACE FUNCTION livebox.visible_channels(p_principal uuid) RETURNS TABLE (channel_id uuid, level smallint)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.channel_id, max(r.level)::smallint
      FROM (SELECT c.channel_id, c.level FROM livebox.channel_rights(p_principal) c
            UNION ALL
            SELECT c.id, 4::smallint
              FROM livebox.principals me, livebox.channels c
             WHERE me.id = p_principal AND me.status = 'active' AND me.role = 'owner' AND c.kind = 'channel') AS r
     GROUP BY r.channel_id
$$;
COMMENT ON FUNCTION livebox.visible_channels(uuid) IS
    'The channels a principal may read, each with its highest level; for owners all but DMs, with manage. Lists that look at many channels ask owner_sees and channel_rights instead, which say the same row by row.';
