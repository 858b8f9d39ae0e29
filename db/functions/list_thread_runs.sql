CREATE OR REPLACE FUNCTION livebox.list_thread_runs(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_thread uuid := (p_args->>'thread_id')::uuid;
    v_limit  bigint := (p_args->>'limit')::bigint;
    v_denial text;
    v_place  uuid;
    v_runs   livebox.runs[];
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize((p_caller->>'principal')::uuid, 'message.read', jsonb_build_object('thread_id', v_thread));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT t.channel_id INTO v_place FROM livebox.threads t WHERE t.id = v_thread;
    SELECT array_agg(r ORDER BY r.queued_at DESC, r.id DESC) INTO v_runs
      FROM (SELECT * FROM livebox.runs r
             WHERE r.thread_id = v_thread
               AND (r.queued_at, r.id) < (coalesce((p_args->'cursor'->>'queued_at')::timestamptz, 'infinity'),
                                          coalesce((p_args->'cursor'->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
               AND (p_args->>'state' IS NULL OR r.state = p_args->>'state')
             ORDER BY r.queued_at DESC, r.id DESC LIMIT v_limit + 1) AS r;
    RETURN livebox.done('ok',
        jsonb_build_object('items', coalesce((SELECT jsonb_agg(livebox.run_summary_json(r, v_place) ORDER BY r.queued_at DESC, r.id DESC)
                                                FROM unnest(v_runs[:v_limit]) AS r), '[]')),
        cursor => CASE WHEN cardinality(v_runs) > v_limit THEN livebox.run_cursor(v_runs[v_limit]) END);
END $$;
COMMENT ON FUNCTION livebox.list_thread_runs(jsonb, jsonb) IS 'A page of a thread''s runs, newest first; of one state where a state is asked for.';
