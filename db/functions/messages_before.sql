CREATE OR REPLACE FUNCTION livebox.messages_before(
    p_principal uuid, p_from uuid, p_limit bigint, p_body_bytes bigint, OUT items text, OUT last uuid)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_owner boolean := livebox.is_owner(p_principal);
    v_more  boolean;
BEGIN
    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= p_limit), count(*) > p_limit, (array_agg(p.id))[p_limit]
      INTO items, v_more, last
      FROM (SELECT livebox.message_document(m.message, t.channel_id, p_body_bytes) AS item, m.id, row_number() OVER (ORDER BY m.id DESC) AS n
              FROM (SELECT m AS message, m.id, m.thread_id FROM livebox.messages m
                     WHERE m.id < p_from ORDER BY m.id DESC LIMIT livebox.scan_max()) AS m
             CROSS JOIN LATERAL (SELECT t.channel_id FROM livebox.threads t
                                  WHERE t.id = m.thread_id AND t.deleted_at IS NULL
                                  LIMIT 1) AS t
             WHERE (v_owner AND livebox.owner_sees(t.channel_id))
                OR t.channel_id IN (SELECT r.channel_id FROM livebox.channel_rights(p_principal) r)
             ORDER BY m.id DESC LIMIT p_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT m.id INTO last FROM livebox.messages m WHERE m.id < p_from ORDER BY m.id DESC OFFSET livebox.scan_max() - 1 LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.messages_before(uuid, uuid, bigint, bigint) IS
    'One page of the messages a principal may read in whatever thread, newest first, long bodies cut: items as JSON texts, and the last examined id where the list goes on.';
