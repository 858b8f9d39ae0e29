CREATE OR REPLACE FUNCTION livebox.list_channels(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me    uuid := livebox.caller_id(caller);
    v_limit bigint := coalesce((args->>'limit')::bigint, 50);
    v_from  uuid := coalesce((args->'cursor'->>'id')::uuid, '00000000-0000-0000-0000-000000000000');
    v_space uuid := (args->>'space_id')::uuid;
    v_items text;
    v_last  uuid;
    v_owner boolean := livebox.is_owner(v_me);
    v_more  boolean;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    ELSIF v_space IS NULL THEN
        SELECT l.items, l.last INTO v_items, v_last FROM livebox.channels_after(v_me, v_from, v_limit) l;
    ELSE
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.id))[v_limit]
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.channel_json(c.channel, livebox.channel_level(v_me, c.id)) AS item, c.id, row_number() OVER (ORDER BY c.id) AS n
                  FROM (SELECT c AS channel, c.id FROM livebox.channels c
                         WHERE c.space_id = v_space AND c.id > v_from ORDER BY c.id LIMIT livebox.scan_max()) AS c
                 WHERE (v_owner AND livebox.owner_sees(c.id)) OR c.id IN (SELECT r.channel_id FROM livebox.channel_rights(v_me) r)
                 ORDER BY c.id LIMIT v_limit + 1) AS p;
        IF NOT v_more THEN
            SELECT c.id INTO v_last FROM livebox.channels c WHERE c.space_id = v_space AND c.id > v_from
             ORDER BY c.id OFFSET livebox.scan_max() - 1 LIMIT 1;
        END IF;
    END IF;
    RETURN livebox.page(v_items, CASE WHEN v_last IS NOT NULL THEN jsonb_build_object('id', v_last) END);
END $$;
COMMENT ON FUNCTION livebox.list_channels(jsonb, jsonb) IS 'listChannels: the channels the asker may read, of one space or of all, by id.';
