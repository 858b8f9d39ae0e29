CREATE OR REPLACE FUNCTION livebox.channels_after(p_principal uuid, p_from uuid, p_limit bigint, OUT items text, OUT last uuid)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_owner boolean := livebox.is_owner(p_principal);
    v_more  boolean;
BEGIN
    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= p_limit), count(*) > p_limit, (array_agg(p.id))[p_limit]
      INTO items, v_more, last
      FROM (SELECT livebox.channel_json(c.channel, livebox.channel_level(p_principal, c.id)) AS item, c.id, row_number() OVER (ORDER BY c.id) AS n
              FROM (SELECT c AS channel, c.id FROM livebox.channels c WHERE c.id > p_from ORDER BY c.id LIMIT livebox.scan_max()) AS c
             WHERE (v_owner AND livebox.owner_sees(c.id)) OR c.id IN (SELECT r.channel_id FROM livebox.channel_rights(p_principal) r)
             ORDER BY c.id LIMIT p_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT c.id INTO last FROM livebox.channels c WHERE c.id > p_from ORDER BY c.id OFFSET livebox.scan_max() - 1 LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.channels_after(uuid, uuid, bigint) IS
    'One page of the channels a principal may read, by id: items as JSON texts, and the last examined id where the list goes on.';
