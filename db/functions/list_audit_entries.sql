CREATE OR REPLACE FUNCTION livebox.list_audit_entries(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_limit   bigint := coalesce((args->>'limit')::bigint, 50);
    v_from    uuid := coalesce((args->'cursor'->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_channel uuid := (args->>'channel_id')::uuid;
    v_owner   boolean := livebox.authorize(v_me, 'audit.read', '{}') IS NULL;
    v_denial  text;
    v_items   text;
    v_last    uuid;
    v_more    boolean;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    IF v_channel IS NULL THEN
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.id))[v_limit]
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.audit_entry_json(a.entry) AS item, a.id, row_number() OVER (ORDER BY a.id DESC) AS n
                  FROM (SELECT a AS entry, a.id, a.channel_id FROM livebox.audit_log a
                         WHERE a.id < v_from ORDER BY a.id DESC LIMIT livebox.scan_max()) AS a
                 WHERE (v_owner AND (a.channel_id IS NULL OR livebox.owner_sees(a.channel_id)))
                    OR a.channel_id IN (SELECT r.channel_id FROM livebox.channel_rights(v_me) r WHERE r.level >= 4)
                 ORDER BY a.id DESC LIMIT v_limit + 1) AS p;
        IF NOT v_more THEN
            SELECT a.id INTO v_last FROM livebox.audit_log a WHERE a.id < v_from ORDER BY a.id DESC OFFSET livebox.scan_max() - 1 LIMIT 1;
        END IF;
    ELSE
        v_denial := livebox.authorize(v_me, 'audit.read', jsonb_build_object('channel_id', v_channel));
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.id))[v_limit]
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.audit_entry_json(a) AS item, a.id, row_number() OVER (ORDER BY a.id DESC) AS n
                  FROM livebox.audit_log a
                 WHERE a.channel_id = v_channel AND a.id < v_from AND v_denial IS NULL
                 ORDER BY a.id DESC LIMIT v_limit + 1) AS p;
        v_last := CASE WHEN v_more THEN v_last END;
    END IF;
    RETURN livebox.page(v_items, CASE WHEN v_last IS NOT NULL THEN jsonb_build_object('id', v_last) END);
END $$;
COMMENT ON FUNCTION livebox.list_audit_entries(jsonb, jsonb) IS
    'listAuditEntries: newest first; of the channels the asker manages, and for owners also what belongs to no channel. A channel that it may not audit has none.';
