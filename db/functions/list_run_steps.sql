CREATE OR REPLACE FUNCTION livebox.list_run_steps(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_run    uuid := (p_args->>'run_id')::uuid;
    v_limit  bigint := (p_args->>'limit')::bigint;
    v_after  bigint := coalesce((p_args->'cursor'->>'ordinal')::bigint, 0);
    v_denial text;
    v_steps  livebox.run_steps[];
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize((p_caller->>'principal')::uuid, 'run.read', jsonb_build_object('run_id', v_run));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT array_agg(s ORDER BY s.ordinal) INTO v_steps
      FROM (SELECT * FROM livebox.run_steps s
             WHERE s.run_id = v_run AND s.ordinal > v_after ORDER BY s.ordinal LIMIT v_limit + 1) AS s;
    RETURN livebox.done('ok',
        jsonb_build_object('items', coalesce((SELECT jsonb_agg(livebox.run_step_json(s) ORDER BY s.ordinal)
                                                FROM unnest(v_steps[:v_limit]) AS s), '[]')),
        cursor => CASE WHEN cardinality(v_steps) > v_limit
                       THEN jsonb_build_object('ordinal', (v_steps[v_limit]).ordinal) END);
END $$;
COMMENT ON FUNCTION livebox.list_run_steps(jsonb, jsonb) IS 'A page of a run''s steps in the order in which they were recorded.';
