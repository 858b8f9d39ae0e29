CREATE OR REPLACE FUNCTION livebox.list_threads(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limit   bigint := coalesce((args->>'limit')::bigint, 50);
    v_from    uuid := coalesce((args->'cursor'->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_channel uuid := (args->>'channel_id')::uuid;
    v_denial  text;
    v_items   text;
    v_last    uuid;
    v_more    boolean;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    IF v_channel IS NULL THEN
        SELECT l.items, l.last INTO v_items, v_last FROM livebox.threads_before(livebox.caller_id(caller), v_from, v_limit) l;
    ELSE
        v_denial := livebox.authorize(livebox.caller_id(caller), 'message.read', jsonb_build_object('channel_id', v_channel));
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.id))[v_limit]
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.thread_json(t) AS item, t.id, row_number() OVER (ORDER BY t.id DESC) AS n
                  FROM livebox.threads t
                 WHERE t.channel_id = v_channel AND t.deleted_at IS NULL AND t.id < v_from AND v_denial IS NULL
                 ORDER BY t.id DESC LIMIT v_limit + 1) AS p;
        v_last := CASE WHEN v_more THEN v_last END;
    END IF;
    RETURN livebox.page(v_items, CASE WHEN v_last IS NOT NULL THEN jsonb_build_object('id', v_last) END);
END $$;
COMMENT ON FUNCTION livebox.list_threads(jsonb, jsonb) IS
    'listThreads: the threads the asker may read, of one channel or of all, newest first. A channel that it may not read has none.';
