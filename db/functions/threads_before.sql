-- The threads come in the order of their index; the rights of the asker are a hashed set that each is looked up in.
CREATE OR REPLACE FUNCTION livebox.threads_before(p_principal uuid, p_from uuid, p_limit bigint, OUT items text, OUT last uuid)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_owner boolean := livebox.is_owner(p_principal);
    v_more  boolean;
BEGIN
    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= p_limit), count(*) > p_limit, (array_agg(p.id))[p_limit]
      INTO items, v_more, last
      FROM (SELECT livebox.thread_json(t.thread) AS item, t.id, row_number() OVER (ORDER BY t.id DESC) AS n
              FROM (SELECT t AS thread, t.id, t.channel_id FROM livebox.threads t
                     WHERE t.deleted_at IS NULL AND t.id < p_from ORDER BY t.id DESC LIMIT livebox.scan_max()) AS t
             WHERE (v_owner AND livebox.owner_sees(t.channel_id))
                OR t.channel_id IN (SELECT r.channel_id FROM livebox.channel_rights(p_principal) r)
             ORDER BY t.id DESC LIMIT p_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT t.id INTO last FROM livebox.threads t WHERE t.deleted_at IS NULL AND t.id < p_from
         ORDER BY t.id DESC OFFSET livebox.scan_max() - 1 LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.threads_before(uuid, uuid, bigint) IS
    'One page of the threads a principal may read, newest first: items as JSON texts, and the last examined id where the list goes on.';
