CREATE OR REPLACE FUNCTION livebox.list_run_followups(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me     uuid := (p_caller->>'principal')::uuid;
    v_run    jsonb := jsonb_build_object('run_id', p_args->>'run_id');
    v_limit  bigint := (p_args->>'limit')::bigint;
    v_after  bigint := coalesce((p_args->'cursor'->>'position')::bigint, 0);
    v_denial text;
    v_place  text;
    v_rows   livebox.run_followups[];
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    -- Both are asked for everybody, so that what is hidden takes as long as what is not there.
    v_denial := livebox.authorize(v_me, 'run.read', v_run);
    v_place := (SELECT livebox.delivery_denial(r.triggered_by, r.agent_id, r.thread_id)
                  FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid);
    IF v_denial IS NOT NULL
       AND (livebox.authorize(v_me, 'run.control', v_run) IS NOT NULL OR v_place = 'thread_deleted') THEN
        RETURN livebox.refused('not_found');
    END IF;
    SELECT array_agg(f ORDER BY f.position) INTO v_rows
      FROM (SELECT * FROM livebox.run_followups f
             WHERE f.run_id = (p_args->>'run_id')::uuid AND f.position > v_after
             ORDER BY f.position LIMIT v_limit + 1) AS f;
    RETURN livebox.done('ok',
        jsonb_build_object('items', coalesce(
            (SELECT jsonb_agg(livebox.run_followup_json(f, v_denial IS NULL OR (f.state = 'delivered' AND v_place IS NULL)) ORDER BY f.position)
               FROM unnest(v_rows[:v_limit]) AS f), '[]')),
        cursor => CASE WHEN cardinality(v_rows) > v_limit
                       THEN jsonb_build_object('position', (v_rows[v_limit]).position) END);
END $$;
COMMENT ON FUNCTION livebox.list_run_followups(jsonb, jsonb) IS
    'A page of a run''s follow-ups in their order, for who may read the run and for its agent; an agent that may not read there sees the messages that it has taken while it may still work there.';
