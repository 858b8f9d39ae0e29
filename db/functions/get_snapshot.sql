-- STABLE: all of it is read in the snapshot of the one statement that calls it, so that it is true at one seq.
CREATE OR REPLACE FUNCTION livebox.get_snapshot(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me       uuid := livebox.caller_id(caller);
    v_limits   jsonb := '{"snapshot.channels_max": 500, "snapshot.threads_max": 500, "snapshot.messages_max": 500,
                          "snapshot.active_runs_max": 500, "event.body_max_bytes": 4096}'::jsonb || coalesce(args->'limits', '{}');
    v_only     text := args->'cursor'->>'list';
    v_from     uuid := (args->'cursor'->>'id')::uuid;
    v_first    uuid := coalesce(v_from, '00000000-0000-0000-0000-000000000000');
    v_newest   uuid := coalesce(v_from, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_lists    text[] := '{}';
    v_list     text;
    v_page     record;
    v_max      bigint;
    v_next     jsonb := '{}';
    v_effects  jsonb;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    FOREACH v_list IN ARRAY ARRAY['channels', 'threads', 'messages', 'active_runs'] LOOP
        v_max := (v_limits->>format('snapshot.%s_max', v_list))::bigint;
        IF v_only <> v_list OR livebox.authorize(v_me, 'sync.snapshot.read', '{}') IS NOT NULL THEN
            v_lists := v_lists || format('"%s": []', v_list);
            CONTINUE;
        ELSIF v_list = 'channels' THEN
            SELECT p.items, jsonb_build_object('id', p.last) AS cursor INTO v_page FROM livebox.channels_after(v_me, v_first, v_max) p;
        ELSIF v_list = 'threads' THEN
            SELECT p.items, jsonb_build_object('id', p.last) AS cursor INTO v_page FROM livebox.threads_before(v_me, v_newest, v_max) p;
        ELSIF v_list = 'messages' THEN
            SELECT p.items, jsonb_build_object('id', p.last) AS cursor INTO v_page
              FROM livebox.messages_before(v_me, v_newest, v_max, (v_limits->>'event.body_max_bytes')::bigint) p;
        ELSE
            SELECT trim(p.items::text, '[]') AS items, p.cursor, p.effects INTO v_page
              FROM livebox.active_run_page(v_me, v_max, args->'cursor', NULL, NULL) p;
            v_effects := v_page.effects;
        END IF;
        v_lists := v_lists || format('"%s": [%s]', v_list, v_page.items);
        IF v_page.cursor->>'id' IS NOT NULL THEN
            v_next := v_next || jsonb_build_object(v_list, v_page.cursor || jsonb_build_object('list', v_list));
        END IF;
    END LOOP;
    RETURN ROW('ok', format('{"seq": %s, "at": "%s", %s}', livebox.last_seq(), livebox.utc(livebox.clock()), array_to_string(v_lists, ', ')),
               NULL, NULL, NULL, nullif(v_next, '{}'), v_effects)::livebox.answer;
END $$;
COMMENT ON FUNCTION livebox.get_snapshot(jsonb, jsonb) IS
    'getSnapshot: channels, threads, messages and active runs that the asker may see at one seq, each list bounded. The cursor has a key for each list that goes on; asked with one of them, it gives more of that list and none of the others.';
