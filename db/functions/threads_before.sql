-- The rights of the asker on each channel that comes up are asked by index, and each channel's only once in a while
-- (the planner keeps them in a Memoize), while the threads come in the order of their index.
CREATE OR REPLACE FUNCTION livebox.threads_before(p_principal uuid, p_from uuid, p_limit bigint, OUT items text, OUT last uuid)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_more boolean;
BEGIN
    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= p_limit), count(*) > p_limit, (array_agg(p.id))[p_limit]
      INTO items, v_more, last
      FROM (SELECT livebox.thread_json(t.thread) AS item, t.id, row_number() OVER (ORDER BY t.id DESC) AS n
              FROM (SELECT t AS thread, t.id, t.channel_id FROM livebox.threads t
                     WHERE t.deleted_at IS NULL AND t.id < p_from ORDER BY t.id DESC LIMIT livebox.scan_max()) AS t
             CROSS JOIN LATERAL (SELECT FROM livebox.visible_channels(p_principal) v WHERE v.channel_id = t.channel_id) AS seen
             ORDER BY t.id DESC LIMIT p_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT t.id INTO last FROM livebox.threads t WHERE t.deleted_at IS NULL AND t.id < p_from
         ORDER BY t.id DESC OFFSET livebox.scan_max() - 1 LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.threads_before(uuid, uuid, bigint) IS
    'One page of the threads a principal may read, newest first: items as JSON texts, and the last examined id where the list goes on.';
