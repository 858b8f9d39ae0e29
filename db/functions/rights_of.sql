-- Beside the rights themselves: threads that moved or went between p_after and the seq of this snapshot. Who follows the log
-- from p_after on must not show what was said in them before to somebody whose rights are newer than that.
CREATE OR REPLACE FUNCTION livebox.rights_of(p_principals uuid[], p_after bigint)
RETURNS TABLE (seq bigint, principal_id text, active boolean, owner boolean, channels text, spaces text, groups text, places text)
LANGUAGE sql STABLE AS $$
    SELECT livebox.last_seq(), p.id::text, p.status = 'active', p.status = 'active' AND p.role IS NOT DISTINCT FROM 'owner',
           (SELECT coalesce(jsonb_object_agg(v.channel_id, v.level), '{}')::text FROM livebox.visible_channels(p.id) v),
           (SELECT coalesce(jsonb_object_agg(v.space_id, v.level), '{}')::text FROM livebox.visible_spaces(p.id) v),
           (SELECT coalesce(jsonb_agg(m.group_id), '[]')::text FROM livebox.group_members m WHERE m.principal_id = p.id),
           (SELECT coalesce(jsonb_object_agg(e.thread_id, CASE WHEN t.deleted_at IS NULL THEN t.channel_id::text ELSE '' END), '{}')::text
              FROM livebox.events e JOIN livebox.threads t ON t.id = e.thread_id
             WHERE e.seq > p_after AND e.type IN ('thread.moved', 'thread.deleted'))
      FROM livebox.principals p
     WHERE p.id = ANY (p_principals)
$$;
COMMENT ON FUNCTION livebox.rights_of(uuid[], bigint) IS
    'All rights of some principals at one seq: levels on channels and spaces, groups, whether active and owner. places: where the threads are now ('''': nowhere) that moved or went after p_after.';
