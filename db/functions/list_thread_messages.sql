CREATE OR REPLACE FUNCTION livebox.list_thread_messages(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_thread  uuid := (args->>'thread_id')::uuid;
    v_limit   bigint := coalesce((args->>'limit')::bigint, 50);
    v_from    bigint := (args->'cursor'->>'thread_seq')::bigint;
    v_channel uuid;
    v_denial  text;
    v_items   text;
    v_more    boolean;
    v_last    bigint;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(livebox.caller_id(caller), 'message.read', jsonb_build_object('thread_id', v_thread));
    SELECT t.channel_id INTO v_channel FROM livebox.threads t WHERE t.id = v_thread;
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;

    IF args->>'order' = 'asc' THEN
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, max(p.thread_seq) FILTER (WHERE p.n = v_limit)
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.message_document(m, v_channel, NULL) AS item, m.thread_seq, row_number() OVER (ORDER BY m.thread_seq) AS n
                  FROM livebox.messages m
                 WHERE m.thread_id = v_thread AND m.thread_seq > coalesce(v_from, 0)
                 ORDER BY m.thread_seq LIMIT v_limit + 1) AS p;
    ELSE
        SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, max(p.thread_seq) FILTER (WHERE p.n = v_limit)
          INTO v_items, v_more, v_last
          FROM (SELECT livebox.message_document(m, v_channel, NULL) AS item, m.thread_seq, row_number() OVER (ORDER BY m.thread_seq DESC) AS n
                  FROM livebox.messages m
                 WHERE m.thread_id = v_thread AND m.thread_seq < coalesce(v_from, 9223372036854775807)
                 ORDER BY m.thread_seq DESC LIMIT v_limit + 1) AS p;
    END IF;
    RETURN livebox.page(v_items, CASE WHEN v_more THEN jsonb_build_object('thread_seq', v_last) END);
END $$;
COMMENT ON FUNCTION livebox.list_thread_messages(jsonb, jsonb) IS 'listThreadMessages: the messages of a thread by thread_seq, newest first unless args.order is asc.';
