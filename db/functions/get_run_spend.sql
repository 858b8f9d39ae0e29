CREATE OR REPLACE FUNCTION livebox.get_run_spend(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me         uuid := livebox.caller_id(p_caller);
    v_run        uuid := (p_args->>'run_id')::uuid;
    v_most       bigint := (p_args->'limits'->>'registered.tree_max')::bigint;
    v_denial     text;
    v_tree       uuid[];
    v_own        jsonb;
    v_subtree    jsonb;
    v_agents     jsonb;
    v_dimensions jsonb;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', v_run));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    v_tree := ARRAY(SELECT livebox.run_tree(v_me, v_run, v_most + 1));
    -- Read once, added up three times.
    WITH lines AS MATERIALIZED (
        SELECT * FROM livebox.spend_lines(v_tree[:v_most])
    ), agents AS (
        SELECT l.agent_id, jsonb_strip_nulls(jsonb_build_object(
                   'agent_id', l.agent_id,
                   'own', livebox.spend_totals(jsonb_agg(l.line) FILTER (WHERE l.run_id = v_run), 1),
                   'subtree', livebox.spend_totals(jsonb_agg(l.line)))) AS item
          FROM lines l GROUP BY l.agent_id ORDER BY l.agent_id LIMIT 1000
    ), dimensions AS (
        SELECT d.key AS name, d.value, jsonb_strip_nulls(jsonb_build_object(
                   'name', d.key, 'value', d.value,
                   'own', livebox.spend_totals(jsonb_agg(l.line) FILTER (WHERE l.run_id = v_run), 1),
                   'subtree', livebox.spend_totals(jsonb_agg(l.line)))) AS item
          FROM lines l, jsonb_each_text(l.user_dims) AS d
         GROUP BY d.key, d.value ORDER BY d.key, d.value LIMIT 1000
    )
    SELECT livebox.spend_totals(coalesce(jsonb_agg(l.line) FILTER (WHERE l.run_id = v_run), '[]'), 1),
           livebox.spend_totals(coalesce(jsonb_agg(l.line), '[]'), least(cardinality(v_tree), v_most)),
           (SELECT jsonb_agg(a.item ORDER BY a.agent_id) FROM agents a),
           (SELECT jsonb_agg(d.item ORDER BY d.name, d.value) FROM dimensions d)
      INTO v_own, v_subtree, v_agents, v_dimensions
      FROM lines l;
    RETURN livebox.done('ok', jsonb_strip_nulls(jsonb_build_object(
        'run_id', v_run, 'own', v_own, 'subtree', v_subtree, 'agents', v_agents, 'dimensions', v_dimensions,
        'truncated', nullif(cardinality(v_tree) > v_most, false))));
END $$;
COMMENT ON FUNCTION livebox.get_run_spend(jsonb, jsonb) IS
    'getRunSpend: what a run has cost by itself and with the runs below it that the caller may read, in all, by agent and by registered dimension. Needs the limit registered.tree_max.';
