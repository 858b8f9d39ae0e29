CREATE OR REPLACE FUNCTION livebox.list_spaces(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me    uuid := livebox.caller_id(caller);
    v_limit bigint := coalesce((args->>'limit')::bigint, 50);
    v_from  uuid := coalesce((args->'cursor'->>'id')::uuid, '00000000-0000-0000-0000-000000000000');
    v_items text;
    v_last  uuid;
    v_owner boolean := livebox.is_owner(v_me);
    v_more  boolean;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.id))[v_limit]
      INTO v_items, v_more, v_last
      FROM (SELECT livebox.space_json(s.space) AS item, s.id, row_number() OVER (ORDER BY s.id) AS n
              FROM (SELECT s AS space, s.id FROM livebox.spaces s WHERE s.id > v_from ORDER BY s.id LIMIT livebox.scan_max()) AS s
             WHERE v_owner OR s.id IN (SELECT r.space_id FROM livebox.space_rights(v_me) r)
             ORDER BY s.id LIMIT v_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT s.id INTO v_last FROM livebox.spaces s WHERE s.id > v_from ORDER BY s.id OFFSET livebox.scan_max() - 1 LIMIT 1;
    END IF;
    RETURN livebox.page(v_items, CASE WHEN v_last IS NOT NULL THEN jsonb_build_object('id', v_last) END);
END $$;
COMMENT ON FUNCTION livebox.list_spaces(jsonb, jsonb) IS 'listSpaces: those with a grant of the asker''s or a channel that it may read, by id.';
